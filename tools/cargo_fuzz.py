#!/usr/bin/env python3
"""Installs cargo-fuzz, which `make fuzz` needs, at a pinned version whose file is held to a pinned digest.

`cargo install` alone would believe crates.io's index. What it is built of is pinned by the lock file that it carries.
Standard library only. Exit codes: 0, or 1 where the file has another digest, cannot be reached or does not build.
"""

import hashlib
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

VERSION = "0.13.2"
SHA256 = "5acfd01930e49823e58c30dd8012d3338a620377d7c7d4cc140ca4b2169400e2"
URL = f"https://static.crates.io/crates/cargo-fuzz/cargo-fuzz-{VERSION}.crate"
_SECONDS = 120.0


def checked(content: bytes, sha256: str = SHA256) -> bytes:
    """The content, where it has the digest; `ValueError` in one sentence where it has another."""
    digest = hashlib.sha256(content).hexdigest()
    if digest != sha256:
        raise ValueError(f"{URL} gave a file with SHA-256 {digest} where {sha256} is expected: nothing was installed")
    return content


def main() -> int:
    """Downloads, checks, unpacks, builds and installs."""
    try:
        with urllib.request.urlopen(URL, timeout=_SECONDS) as answer:
            content = checked(answer.read())
    except (OSError, ValueError, urllib.error.URLError) as error:
        print(f"cargo_fuzz: {error}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "crate.tar.gz").write_bytes(content)
        subprocess.run(["tar", "--extract", "--gzip", "--file", "crate.tar.gz"], cwd=name, check=True)
        source = Path(name) / f"cargo-fuzz-{VERSION}"
        command = ["cargo", "install", "--locked", "--path", str(source)]
        return subprocess.run(command, cwd=source, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
