#!/usr/bin/env python3
"""Builds the agent and the wheel twice, in two folders with homes and caches of their own, and compares the digests.

`python3 tools/reproducible.py` (`make reproducible`) takes clones of the commit that is checked out; compiling twice
takes some ten minutes. Prints one Markdown table. Exit codes: 0 where the bytes are the same, 1 where they differ.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EPOCH = "1700000000"
PLACES = {"one": ".", "two": "deeper/and/deeper"}
_WHEEL = "from setuptools import build_meta as b; import sys; b.build_wheel(sys.argv[1])"


def build(folder: Path, depth: str) -> dict[str, str]:
    """File -> SHA-256 (hex) of the agent and the wheel that a new clone gives, `depth` folders further down."""
    clone, home = folder / depth / "clone", folder / "home"
    home.mkdir(parents=True)
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(clone)], check=True)
    own = {"HOME": str(home), "CARGO_HOME": str(home / "cargo"), "CARGO_TARGET_DIR": str(folder / "target")}
    toolchains = os.environ.get("RUSTUP_HOME") or str(Path.home() / ".rustup")
    environment = {**os.environ, **own, "RUSTUP_HOME": toolchains, "SOURCE_DATE_EPOCH": EPOCH, "TMPDIR": str(home)}
    _run([sys.executable, "tools/setup.py", "--only", "agent"], clone, environment)
    _run([sys.executable, "-c", _WHEEL, str(folder / "dist")], clone, environment)
    made = [clone / "build" / "virtoll-agent", *(folder / "dist").iterdir()]
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in made}


def _run(command: list[str], folder: Path, environment: Mapping[str, str]) -> None:
    subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True)


def main() -> int:
    """Builds, compares, prints."""
    if shutil.which("cargo") is None:
        print("reproducible: cargo is missing: install stable Rust, for example with rustup", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="virtoll-twice-", dir="/var/tmp") as name, ThreadPoolExecutor() as pool:
        builds = [pool.submit(build, Path(name) / place, depth) for place, depth in PLACES.items()]
        one, two = (one.result() for one in builds)
    print("| file | SHA-256 | second build |\n| --- | --- | --- |")
    for file, digest in one.items():
        print(f"| {file} | `{digest}` | {'the same' if two.get(file) == digest else two.get(file, 'none')} |")
    return 0 if one == two else 1


if __name__ == "__main__":
    sys.exit(main())
