"""What the page brings for the browser: the library that draws figures, our own scripts, and the policy for both.

`library/` holds files from npm as they were published, `ORIGINS.toml` where from, `LICENCES.txt` their licences.
`page/` holds our own, plain JavaScript in one function. All stand in the page itself: it requests nothing, and its
policy (Content Security Policy, level 3) lets no other script run. Main functions: `script`, `library`, `packed`
and `policy`.
"""

import base64
import gzip
import hashlib
import re
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent
_OWN = ("state", "tables", "figures", "bar")  # in order: each may use what stands before it
_SOURCE_MAP = re.compile(r"\n//# sourceMappingURL=\S+\s*$")


def licences() -> str:
    """The licences of all that `library/` holds."""
    return (_FOLDER / "library" / "LICENCES.txt").read_text(encoding="utf-8")


@cache
def script() -> str:
    """Our own script, which nothing in it ends early."""
    source = "\n".join((_FOLDER / "page" / f"{name}.js").read_text(encoding="utf-8") for name in _OWN)
    assert "</script" not in source
    return f'"use strict";\n(() => {{\n{source}}})();'


@cache
def library() -> tuple[str, ...]:
    """The library's files in the order that they run in, `packed`: our script runs them when it draws first."""
    return tuple(map(packed, _library()))


@cache
def _library() -> tuple[str, ...]:
    return _file("vega.min.js"), _file("vega-lite.min.js"), _interpreter()


def packed(text: str) -> str:
    """A text for our script: compressed (gzip), as base64. The library is less than half its size by it, and a
    specification a tenth.
    """
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


@cache
def policy() -> str:
    """The page's Content Security Policy: no request to anything, and no scripts but these, known by digest."""
    known = (script(), *_library())
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in known)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _file(name: str) -> str:
    return _SOURCE_MAP.sub("\n", (_FOLDER / "library" / name).read_text(encoding="utf-8"))


def _interpreter() -> str:
    """Vega's interpreter of expressions, which is published as a module alone, as one function's result.

    By it nothing is compiled from text in the browser, so that the policy need not allow that.
    """
    text = _file("vega-interpreter.js")
    body, imports = re.subn(r"^import (\{[^}]*\}) from 'vega-util';", r"const \1 = vega;", text)
    body, exports = re.subn(r"\nexport \{ expression as expressionInterpreter \};", "\nreturn expression;", body)
    assert (imports, exports) == (1, 1)
    return f"const expressionInterpreter = (() => {{\n{body}\n}})();"
