"""What the page brings for the browser: the library that draws figures, our own scripts, and the policy for both.

`library/` holds files from npm as they were published, `ORIGINS.yaml` where from, `LICENCES.txt` their licences.
`page/` holds our own, plain JavaScript in one function. All stand in the page itself: it requests nothing, and its
policy (Content Security Policy, level 3) lets no other script run. Main functions: `scripts`, `policy` and `packed`.
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
def scripts() -> tuple[str, ...]:
    """The page's scripts in order, none of which may end its element early."""
    own = "\n".join((_FOLDER / "page" / f"{name}.js").read_text(encoding="utf-8") for name in _OWN)
    made = (_library("vega.min.js"), _library("vega-lite.min.js"), _interpreter(), _in_a_function(own))
    assert not any("</script" in one or "<!--" in one for one in made)
    return made


def packed(text: str) -> str:
    """A text for the page's scripts: compressed (gzip), as base64. Specifications are a tenth of their size by it."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


@cache
def policy() -> str:
    """The page's Content Security Policy: no request to anything, and no scripts but `scripts`, known by digest."""
    digests = (base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in scripts())
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _library(name: str) -> str:
    return _SOURCE_MAP.sub("\n", (_FOLDER / "library" / name).read_text(encoding="utf-8"))


def _interpreter() -> str:
    """Vega's interpreter of expressions, which is published as a module alone, as one function's result.

    By it nothing is compiled from text in the browser, so that the policy need not allow that.
    """
    text = _library("vega-interpreter.js")
    body, imports = re.subn(r"^import (\{[^}]*\}) from 'vega-util';", r"const \1 = vega;", text)
    body, exports = re.subn(r"\nexport \{ expression as expressionInterpreter \};", "\nreturn expression;", body)
    assert (imports, exports) == (1, 1)
    return f"const expressionInterpreter = (() => {{\n{body}\n}})();"


def _in_a_function(text: str) -> str:
    return f'"use strict";\n(() => {{\n{text}}})();'
