#!/usr/bin/env python3
"""Makes Debian packages: Virtoll's wheel with what the lock pins, manual pages, completions, licences.

`.venv/bin/python tools/deb.py [--wheel WHEEL] [--into FOLDER] [--release NAME]` (`make deb`) writes a package for each
Debian release of `RELEASES`: the compiled libraries are for one version of Python, which is that of the release. All
of it is in /opt/virtoll, a virtual environment whose interpreter is Debian's; /usr/bin/virtoll is a link into it.

What it depends on is `virtoll/host/packages.py`, the list of `virtoll setup`. nfpm writes the package, built at the
version that `tools/nfpm` pins. The times in it are `$SOURCE_DATE_EPOCH`, which must be set, so that the same wheel
gives the same bytes. Needs no root; pip downloads what its cache has not.
Exit codes: 0, or 2 with one sentence where something is missing or another wheel is needed.
"""

import argparse
import gzip
import hashlib
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml
from packaging.requirements import Requirement

from virtoll import __version__
from virtoll.errors import DEB_INSTALLER, VirtollError
from virtoll.host import packages
from virtoll.image.third_party import prepare_nfpm

ROOT: Final = Path(__file__).resolve().parent.parent
HOME: Final = Path("opt/virtoll")
DOCUMENTS: Final = Path("usr/share/doc/virtoll")
MAINTAINER: Final = "The Virtoll authors <virtoll@localhost.invalid>"
ARCHITECTURES: Final[Mapping[str, str]] = {"x86_64": "amd64", "aarch64": "arm64"}
COMPLETIONS: Final[Mapping[str, str]] = {
    "bash": "usr/share/bash-completion/completions/virtoll",
    "zsh": "usr/share/zsh/vendor-completions/_virtoll",
    "fish": "usr/share/fish/vendor_completions.d/virtoll.fish",
}
LINKS: Final[Mapping[str, str]] = {
    "/opt/virtoll/bin/python3": "/usr/bin/python3",
    "/usr/bin/virtoll": "/opt/virtoll/bin/virtoll",
}
LIBRARIES: Final = ("libc6 (>= 2.28)", "libgcc-s1", "libstdc++6")
"""What wheels for manylinux expect of a system."""
_LEFT_OUT: Final = ("bin", "share")  # of what wheels put beside their libraries
_DESCRIPTION: Final = """\
measures what a virtualisation platform costs on this machine
Virtoll runs the same workloads on the bare host and in containers, machines
and namespaces side by side, times them by a clock outside of the guests, and
writes a report with intervals and verdicts.
.
'virtoll setup --platforms' installs what the suggested packages bring."""
_CALLER: Final = """\
#!/opt/virtoll/bin/python3 -I
import sys

from virtoll import main

sys.exit(main())
"""
_AFTER_INSTALL: Final = """\
#!/bin/sh
# Every start is faster by it, and without it root's first one would leave files here that dpkg does not know.
set -e
if [ "$1" = configure ]; then
    /opt/virtoll/bin/python3 -m compileall -q -j 0 /opt/virtoll/lib || true
fi
"""
_BEFORE_REMOVAL: Final = """\
#!/bin/sh
set -e
find /opt/virtoll -type d -name __pycache__ -prune -exec rm -rf {} +
"""
# Tags of lintian that a package outside Debian's archive has on purpose.
_OVERRIDES: Final = """\
# A package of its own in /opt, with the libraries that its lock pins, as their makers built them.
virtoll: dir-or-file-in-opt
virtoll: embedded-library
virtoll: library-not-linked-against-libc
virtoll: shared-library-lacks-prerequisites
virtoll: unstripped-binary-or-object
# The interpreter of its virtual environment is a link to Debian's.
virtoll: wrong-path-for-interpreter
# What is required is the list of 'virtoll setup', which is for other distributions too.
virtoll: depends-on-essential-package-without-using-version
# Each licence stands as the library brings it.
virtoll: copyright-file-contains-full-apache-2-license
virtoll: copyright-file-contains-full-gpl-license
"""


class Release(NamedTuple):
    """A release of Debian: its number, the version of its Python, and of its C library (2.`glibc`)."""

    number: int
    python: str
    glibc: int

    @property
    def next_python(self) -> str:
        """The version that compiled libraries are no longer for."""
        major, minor = self.python.split(".")
        return f"{major}.{int(minor) + 1}"


RELEASES: Final[Mapping[str, Release]] = {
    "bookworm": Release(12, "3.11", 36),
    "trixie": Release(13, "3.13", 41),
}


class Order(NamedTuple):
    """A package to be made: for which release, from which wheel, for which machine (`uname -m`), dated how."""

    release: Release
    wheel: Path
    machine: str
    epoch: int

    @property
    def site(self) -> Path:
        """Where the libraries are, below the root."""
        return HOME / "lib" / f"python{self.release.python}" / "site-packages"


class DebError(Exception):
    """Why no package is made; one sentence that ends in what to do next."""


def order_for(release: str, wheel: Path) -> Order:
    """What is to be made of a wheel; the machine is what its name says."""
    found = re.fullmatch(rf"virtoll-{re.escape(__version__)}-.*?_({'|'.join(ARCHITECTURES)})\.whl", wheel.name)
    if found is None or not wheel.is_file():
        raise DebError(f"{wheel} is no wheel of Virtoll {__version__}: make one with 'make wheel'")
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not epoch.isdecimal():
        raise DebError("SOURCE_DATE_EPOCH is not set: use 'make deb', or set it to seconds since 1970")
    return Order(RELEASES[release], wheel, found[1], int(epoch))


def pinned(lock: str, order: Order) -> str:
    """Of a lock with hashes what is for this release, without what only builds, and the wheel itself at its end."""
    version = order.release.python
    there = {
        "python_version": version,
        "python_full_version": f"{version}.0",
        "sys_platform": "linux",
        "platform_machine": order.machine,
    }
    kept = []
    for entry in re.split(r"^(?=[A-Za-z])", lock, flags=re.MULTILINE):
        asked = Requirement(entry.partition("\\")[0].strip()) if entry.strip() else None
        if asked and asked.name != "setuptools" and (asked.marker is None or asked.marker.evaluate(there)):
            kept.append(f"{asked.name}{asked.specifier} \\{entry.partition(chr(92))[2]}")
    digest = hashlib.sha256(order.wheel.read_bytes()).hexdigest()
    return "".join(kept) + f"virtoll=={__version__} \\\n    --hash=sha256:{digest}\n"


def fill(root: Path, order: Order) -> None:
    """Puts every file that the package holds below the new folder `root`."""
    install_libraries(root, order)
    home = root / HOME
    (home / "bin").mkdir()
    write(home / "bin" / "virtoll", _CALLER)
    write(home / "pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = false\n")
    for shell, place in COMPLETIONS.items():
        write(root / place, said([sys.executable, "-I", "-m", "virtoll", "completion", shell], order).lstrip("\n"))
    with tempfile.TemporaryDirectory() as pages:
        said([sys.executable, str(ROOT / "tools" / "manual.py"), pages], order)
        for page in sorted(Path(pages).glob("*.1")):
            write(root / "usr/share/man/man1" / f"{page.name}.gz", packed(page.read_text(encoding="ascii")))
    write(root / DOCUMENTS / "copyright", copyright_of(root / order.site))
    write(root / DOCUMENTS / "changelog.gz", packed((ROOT / "CHANGELOG.md").read_text(encoding="utf-8")))
    write(root / DOCUMENTS / "changelog.Debian.gz", packed(changelog(order)))
    write(root / "usr/share/lintian/overrides/virtoll", _OVERRIDES)
    programs = {HOME / "bin" / "virtoll", order.site / "virtoll" / "bin" / "virtoll-agent"}
    for path in root.rglob("*"):
        path.chmod(0o755 if path.is_dir() or path.relative_to(root) in programs else 0o644)


def install_libraries(root: Path, order: Order) -> None:
    """Has pip unpack the wheels for the release's Python, whichever Python this is; nothing of them is started.

    pip holds what a wheel requires to its own Python: the lock was resolved for each.
    """
    legacy = ("manylinux2014", "manylinux2010", "manylinux1")
    kinds = [f"manylinux_2_{minor}" for minor in range(order.release.glibc, 4, -1)] + list(legacy)
    with tempfile.TemporaryDirectory() as folder:
        asked = Path(folder) / "asked.txt"
        asked.write_text(pinned((ROOT / "requirements.lock").read_text(encoding="utf-8"), order), encoding="utf-8")
        pip = [sys.executable, "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
        target = [f"--target={root / order.site}", "--implementation=cp", f"--python-version={order.release.python}"]
        platforms = [f"--platform={kind}_{order.machine}" for kind in kinds]
        exact = ["--no-deps", "--only-binary=:all:", "--require-hashes", "--ignore-requires-python"]
        asked_for = [f"--find-links={order.wheel.parent}", f"--requirement={asked}"]
        said([*pip, *target, *platforms, *exact, *asked_for], order)
    # pip's starters name this machine's Python, and Virtoll needs none of them; its manual pages have Debian's place.
    for name in _LEFT_OUT:
        shutil.rmtree(root / order.site / name, ignore_errors=True)
    left_out = tuple(f"../../{name}/" for name in _LEFT_OUT)
    write(root / order.site / f"virtoll-{__version__}.dist-info" / "INSTALLER", f"{DEB_INSTALLER}\n")
    for record in (root / order.site).glob("*.dist-info/RECORD"):
        lines = record.read_text(encoding="utf-8").splitlines(keepends=True)
        kept = [line for line in lines if not line.startswith(left_out)]
        own = f"virtoll-{__version__}.dist-info/INSTALLER,"
        kept = [f"{own},\n" if line.startswith(own) else line for line in kept]  # whose sum is another one now
        record.write_text("".join(kept), encoding="utf-8")


def configuration(root: Path, scripts: Path, order: Order) -> dict[str, Any]:
    """What nfpm is told; what a run needs is required, the emulator and image builder recommended, all else suggested.

    No platform is required, and some of their packages start a daemon: `virtoll setup --platforms` is the user's step.
    """
    python = (f"python3 (>= {order.release.python}~)", f"python3 (<< {order.release.next_python}~)")
    required = [one.name for one in packages.TO_RUN]
    emulator = [packages.EMULATORS[order.machine].name] if order.machine in packages.EMULATORS else []
    recommended = sorted({*emulator, *(one.name for one in packages.FOR_TOOLS)} - set(required))
    others = packages.on_machine(packages.FOR_PLATFORMS, order.machine)
    suggested = sorted({one.name for one in others} - {*required, *recommended})
    stands_in = packages.STANDS_IN
    return {
        "name": "virtoll",
        "arch": ARCHITECTURES[order.machine],
        "platform": "linux",
        "version": __version__,
        "version_schema": "none",
        "release": f"1+deb{order.release.number}",
        "section": "utils",
        "priority": "optional",
        "maintainer": MAINTAINER,
        "description": _DESCRIPTION,
        "depends": [
            *python,
            *LIBRARIES,
            *(f"{name} | {stands_in[name]}" if name in stands_in else name for name in required),
        ],
        "recommends": recommended,
        "suggests": suggested,
        "contents": [
            {"src": f"{root}/", "dst": "/", "type": "tree"},
            *({"src": there, "dst": place, "type": "symlink"} for place, there in LINKS.items()),
        ],
        "scripts": {"postinstall": str(scripts / "postinst"), "preremove": str(scripts / "prerm")},
        "deb": {"compression": "gzip:9"},
    }


def copyright_of(site: Path) -> str:
    """Virtoll's licence, then each library's name, version, licence, and the texts that it brings."""
    head = (
        "Virtoll is under the Apache License 2.0: /usr/share/common-licenses/Apache-2.0.\n"
        "The libraries in /opt/virtoll are under the licences below, each with its own text.\n"
    )
    parts = [head]
    found = importlib.metadata.distributions(path=[str(site)])
    for one in sorted(found, key=lambda distribution: distribution.metadata["Name"].lower()):
        rule = "=" * 78
        texts = "\n\n".join(text.strip() for text in licence_texts(one))
        parts.append(f"{rule}\n{one.metadata['Name']} {one.version}: {licence_of(one)}\n{rule}\n{texts}\n")
    return "\n".join(parts)


def licence_of(distribution: importlib.metadata.Distribution) -> str:
    """The licence's name as the library's own metadata has it; empty where they are silent."""
    facts = distribution.metadata
    classified = [one for one in facts.get_all("Classifier") or () if one.startswith("License ::")]
    words = [
        *(facts.get_all("License-Expression") or ()),
        ", ".join(one.rpartition(" :: ")[2] for one in classified),
        *(one.partition("\n")[0] for one in facts.get_all("License") or ()),
    ]
    return next((one for one in words if one), "")


def licence_texts(distribution: importlib.metadata.Distribution) -> Iterator[str]:
    """The licence files beside the metadata, in the order of their names."""
    for file in sorted(distribution.files or (), key=str):
        beside = file.parts[0].endswith(".dist-info")
        if beside and re.match(r"(?i)licen[cs]e|copying|notice|authors", file.parts[1]):
            yield str(file.read_text(encoding="utf-8"))


def changelog(order: Order) -> str:
    """Debian's changelog, which has one entry: what changed is in the other one."""
    when = format_datetime(datetime.fromtimestamp(order.epoch, UTC))
    version = f"{__version__}-1+deb{order.release.number}"
    return f"virtoll ({version}) unstable; urgency=medium\n\n  * See changelog.gz.\n\n -- {MAINTAINER}  {when}\n"


def packed(text: str) -> bytes:
    """A text by gzip, the same bytes each time."""
    return gzip.compress(text.encode(), mtime=0)


def write(path: Path, content: str | bytes) -> None:
    """Writes a file of the package, in a folder that is made where there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def said(command: Sequence[str], order: Order) -> str:
    """What a program writes to its standard output; `DebError` where it fails."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(order.epoch), "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = [*(done.stderr or done.stdout).strip().splitlines(), "it said nothing"][0]
        raise DebError(f"{Path(command[0]).name} {command[1]} {command[2]} ended with {done.returncode}: {last}")
    return done.stdout


def make(order: Order, into: Path) -> Path:
    """Makes the package in a folder, and takes an older one's place; its path."""
    nfpm = prepare_nfpm()
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="virtoll-deb-") as folder:
        place = Path(folder)
        fill(place / "root", order)
        write(place / "postinst", _AFTER_INSTALL)
        write(place / "prerm", _BEFORE_REMOVAL)
        told = configuration(place / "root", place, order)
        write(place / "nfpm.yaml", yaml.safe_dump(told, sort_keys=False))
        target = into / f"virtoll_{__version__}-{told['release']}_{told['arch']}.deb"
        said([str(nfpm), "package", f"--config={place / 'nfpm.yaml'}", "--packager=deb", f"--target={target}"], order)
    return target


def main(arguments: Sequence[str]) -> int:
    """Makes the packages that are asked for; returns the exit code."""
    parser = argparse.ArgumentParser(description="Makes Debian packages of a wheel.")
    built = next((ROOT / "dist").glob(f"virtoll-{__version__}-*_{platform.machine()}.whl"), ROOT / "dist")
    parser.add_argument("--wheel", type=Path, default=built, help="what 'make wheel' has written (that of dist)")
    parser.add_argument("--into", type=Path, default=ROOT / "dist", help="the folder of the packages (dist)")
    parser.add_argument("--release", choices=[*RELEASES], help="one release of Debian alone")
    options = parser.parse_args(arguments)
    os.umask(0o022)
    try:
        for name in [options.release] if options.release else RELEASES:
            print(make(order_for(name, options.wheel.absolute()), options.into), flush=True)
    except (DebError, VirtollError) as error:
        print(f"deb: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
