"""Which of apt's sources are taken without a signature, because somebody said so in their options.

apt verifies a source by the archive's key, unless its line has ``trusted=yes`` or an option like it. That is a
decision about what one installs, and none about what guests are measured with: a package from there is refused.

Main function: ``refuse_unsigned``. Must not: change a source, or judge one that apt verifies.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from virtoll.errors import ImageError

UNSIGNED = ("trusted", "allow-insecure", "allow-weak", "allow-downgrade-to-insecure")
_LINE = re.compile(r"^[ \t]*deb[ \t]+\[([^\]]*)\][ \t]+(\S+)", re.MULTILINE)


def refuse_unsigned(addresses: Iterable[str], configured: str) -> None:
    """ImageError where one of these addresses is of a source that apt does not verify.

    ``configured``: what ``apt-config shell LIST Dir::Etc::sourcelist/f PARTS Dir::Etc::sourceparts/d`` says.
    """
    sources = tuple(_unsigned(configured))
    for address in addresses:
        for source, option in sources:
            if address.startswith(source.rstrip("/")):
                raise ImageError(
                    f"apt's source {source} has {option}=yes, so that apt does not verify it: have it signed, and name "
                    "its key by signed-by"
                )


def _unsigned(configured: str) -> Iterator[tuple[str, str]]:
    """Address and option of each source that is not verified."""
    places = dict(word.split("=", 1) for word in shlex.split(configured) if "=" in word)
    parts = Path(places.get("PARTS", "/nowhere"))
    files = [Path(places.get("LIST", "/nowhere")), *(sorted(parts.iterdir()) if parts.is_dir() else ())]
    for file in (path for path in files if path.is_file() and path.suffix in (".list", ".sources")):
        text = file.read_text(encoding="utf-8", errors="replace")
        yield from _of_stanzas(text) if file.suffix == ".sources" else _of_lines(text)


def _of_lines(text: str) -> Iterator[tuple[str, str]]:
    for options, address in _LINE.findall(text):
        for option in options.split():
            name, _, value = option.partition("=")
            if name.lower() in UNSIGNED and _is_yes(value):
                yield address, name.lower()


def _of_stanzas(text: str) -> Iterator[tuple[str, str]]:
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for stanza in re.split(r"\n[ \t]*\n", lines):
        fields = {
            name.lower(): value for name, value in re.findall(r"^([\w-]+):((?:.*)(?:\n[ \t].*)*)", stanza, re.MULTILINE)
        }
        for option in UNSIGNED:
            if _is_yes(fields.get(option, "")):
                yield from ((address, option) for address in fields.get("uris", "").split())


def _is_yes(value: str) -> bool:
    """As apt reads a truth (apt-pkg/contrib/strutl.cc)."""
    return value.strip().lower() in ("yes", "true", "with", "on", "enable", "1")
