"""What the packages in an image are licensed under, read from the copyright files that Debian puts beside them.

Debian's component *main* holds free software alone (Debian Policy 2.2.1). A package of another component carries that
component before its section (`non-free/net`). It is refused here, whatever the sources were, unless that component was
asked for by name. The names are those of the machine-readable form (DEP-5) where a file has it, else the texts of
/usr/share/common-licenses that it refers to.

Main function: `read_licences`. Must not: judge a licence, or look outside the tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from virtoll.errors import ImageError
from virtoll.image.debian import run

_DOCUMENTS = Path("usr/share/doc")
_OWN_WORDS = "in its own words, see its copyright file"
_FIELDS = ("Package", "source:Package", "Section")


@dataclass(frozen=True)
class Installed:
    """One installed package as dpkg's database has it."""

    name: str
    source: str
    section: str


def read_licences(tree: Path, components: Sequence[str] = ("main",)) -> dict[str, tuple[str, ...]]:
    """Package -> the names of its licences, for every package that is installed in the tree.

    Raises ImageError for a package that is of none of these components, or that no copyright file is there for.
    """
    packages = _installed(tree)
    refuse_other_components(packages, components)
    by_source: dict[str, Path] = {}
    for package in packages:
        file = tree / _DOCUMENTS / package.name / "copyright"
        if file.is_file():
            by_source.setdefault(package.source, file)
    licences = {}
    for package in packages:
        own_file = tree / _DOCUMENTS / package.name / "copyright"
        # Where a package's documents are a link to those of another one, that is of the same source (Policy 12.3).
        copyright_file = own_file if own_file.is_file() else by_source.get(package.source)
        if copyright_file is None:
            raise ImageError(f"the package {package.name} has no copyright file in {own_file.parent}: leave it out.")
        licences[package.name] = licence_names(copyright_file.read_text(encoding="utf-8", errors="replace"))
    return licences


def refuse_other_components(packages: tuple[Installed, ...], components: Sequence[str] = ("main",)) -> None:
    """ImageError for packages of any component but these: contrib, non-free or another one."""
    others = [
        f"{package.name} ({package.section})"
        for package in packages
        if (package.section.rpartition("/")[0] or "main") not in components
    ]
    if others:
        allowed = " or ".join(components)
        raise ImageError(f"not of Debian's component {allowed}, so perhaps not free software: {', '.join(others)}.")


def licence_names(text: str) -> tuple[str, ...]:
    """The names in a copyright file, sorted; one sentence where it has none."""
    lines = text.splitlines()
    if any(
        re.match(r"(?i)format(-specification)?:\s*\S*(copyright-format|dep5|\d+-copyright)", line) for line in lines
    ):
        fields = {" ".join(line.partition(":")[2].split()) for line in lines if re.match(r"(?i)license:", line)}
        if names := sorted(fields - {""}):
            return tuple(names)
    referred = set(re.findall(r"/usr/share/common-licenses/([A-Za-z0-9.+-]*[A-Za-z0-9+])", text))
    return tuple(sorted(referred)) or (_OWN_WORDS,)


def _installed(tree: Path) -> tuple[Installed, ...]:
    form = "\t".join(f"${{{field}}}" for field in _FIELDS) + "\n"
    shown = run(["dpkg-query", f"--admindir={tree / 'var/lib/dpkg'}", "--show", f"--showformat={form}"])
    return tuple(_rows(shown))


def _rows(shown: str) -> Iterator[Installed]:
    for line in shown.splitlines():
        name, source, section = line.split("\t")
        yield Installed(name, source, section)
