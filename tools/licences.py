#!/usr/bin/env python3
"""Writes crates/agent/LICENCES.txt: what the static agent links, under which licences, and how to relink it.

The same crates, with the digests by which Cargo.lock pins them, go to src/virtoll/image/crates.json, for bills of
materials (virtoll/image/sbom.py).

`python3 tools/licences.py` (`make licences`) reads Cargo's own list and the licence files of the crates as they were
downloaded; the texts of the GPL and LGPL are those of Debian. `--check` compares the names and versions alone.
Standard library only. Exit codes: 0, or 1 where a file does not name what Cargo.lock pins.
"""

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "crates" / "agent" / "LICENCES.txt"
CRATES = ROOT / "src" / "virtoll" / "image" / "crates.json"
_COMMON = Path("/usr/share/common-licenses")
_TEXTS = ("LGPL-3", "GPL-3", "LGPL-2.1")
_NAMES = ("licen[cs]e*", "LICEN[CS]E*", "COPYING*", "UNLICENSE*")
_HEAD = """\
What virtoll-agent, the static program in Virtoll's wheel, is made of
=====================================================================

Virtoll and its agent are under the Apache License 2.0 (LICENSE). The agent is linked statically with the Rust crates
below, with Rust's standard library (MIT or Apache-2.0), and with the GNU C library (LGPL-2.1-or-later).

malachite-base and malachite-nz are under the GNU Lesser General Public License, version 3. You may change them, and
the GNU C library, and relink the agent:

1. Take Virtoll's source of this version: its source distribution, or the repository. It holds all of the agent's own
   source, and Cargo.lock, which names each crate's version. `cargo fetch --locked` gets their sources from crates.io.
   The C library's source is that of the distribution on which the agent was built (Debian's source package glibc).
2. Change what you like; `[patch.crates-io]` in Cargo.toml names a changed crate.
3. `cargo build --release -p virtoll-agent` links the agent (Rust 1.90 or newer, clang).
4. `VIRTOLL_AGENT=path virtoll ...` works with yours, also where Virtoll was installed from a wheel.

Reverse engineering for debugging such changes is permitted.
"""


def linked() -> list[dict[str, str]]:
    """Every crate that the agent links for Linux, without Virtoll's own: name, version, licence, folder."""
    tree = ["cargo", "tree", "--locked", "--package", "virtoll-agent", "--edges", "normal,no-proc-macro"]
    names = {
        tuple(line.split()[:2])
        for line in _asked([*tree, "--prefix", "none", "--format", "{p}"]).splitlines()
        if line and not line.startswith("virtoll-")
    }
    packages = json.loads(_asked(["cargo", "metadata", "--locked", "--format-version", "1"]))["packages"]
    found = [
        {
            "name": package["name"],
            "version": package["version"],
            "licence": package["license"],
            "folder": str(Path(package["manifest_path"]).parent),
        }
        for package in packages
        if (package["name"], f"v{package['version']}") in names
    ]
    return sorted(found, key=lambda crate: (crate["name"], crate["version"]))


def table(crates: list[dict[str, str]]) -> str:
    """A line for each crate."""
    return "".join(f"{crate['name']} {crate['version']}: {crate['licence']}\n" for crate in crates)


def pinned(crates: list[dict[str, str]]) -> str:
    """The crates with the SHA-256 of their files on crates.io, as JSON."""
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text(encoding="utf-8"))["package"]
    digests = {(one["name"], one["version"]): one.get("checksum", "") for one in lock}
    kept = [
        {key: crate[key] for key in ("name", "version", "licence")}
        | {"sha256": digests[crate["name"], crate["version"]]}
        for crate in crates
    ]
    return json.dumps(kept, indent=1) + "\n"


def document() -> str:
    """The whole file; each text once, with the crates whose it is."""
    crates = linked()
    whose: dict[str, list[str]] = {}
    for crate in crates:
        for text in _texts(Path(crate["folder"])):
            whose.setdefault(text, []).append(crate["name"])
    for name in _TEXTS:
        whose[(_COMMON / name).read_text(encoding="utf-8").strip()] = [f"the text of {name}"]
    parts = [_HEAD, "Crates\n------\n" + table(crates)]
    parts += [f"{'=' * 80}\n{', '.join(names)}\n{'=' * 80}\n{text}\n" for text, names in whose.items()]
    return "\n".join(parts)


def _texts(folder: Path) -> Iterator[str]:
    for path in sorted({path for name in _NAMES for path in folder.glob(name) if path.is_file()}):
        text = "\n".join(line.rstrip() for line in path.read_text(encoding="utf-8").splitlines())
        yield text.strip()


def _asked(command: list[str]) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def main() -> int:
    """Writes the file, or compares its table."""
    if "--check" in sys.argv[1:]:
        crates = linked()
        right = {TARGET: table(crates) in TARGET.read_text(encoding="utf-8")}
        right[CRATES] = pinned(crates) == CRATES.read_text(encoding="utf-8")
        for file in (file for file, same in right.items() if not same):
            print(f"licences: {file.relative_to(ROOT)} differs from Cargo.lock; run 'make licences'", file=sys.stderr)
        return 0 if all(right.values()) else 1
    TARGET.write_text(document(), encoding="utf-8")
    CRATES.write_text(pinned(linked()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
