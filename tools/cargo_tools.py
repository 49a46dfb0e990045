#!/usr/bin/env python3
"""Installs a subcommand of Cargo's that `make` needs, at a pinned version whose file is held to a pinned digest.

`cargo install` alone would believe crates.io's index. What a tool is built of is pinned by the lock file that it
carries. The argument is the tool's name: `cargo_tools.py cargo-fuzz`, or `cargo_tools.py cargo-mutants`.
Standard library only. Exit codes: 0, or 1 where the file has another digest, cannot be reached or does not build.
"""

import argparse
import hashlib
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_SECONDS = 120.0


@dataclass(frozen=True)
class Tool:
    """A crate of crates.io: its name, its version, and the SHA-256 of its file."""

    name: str
    version: str
    sha256: str

    @property
    def url(self) -> str:
        return f"https://static.crates.io/crates/{self.name}/{self.name}-{self.version}.crate"


TOOLS = (
    Tool("cargo-fuzz", "0.13.2", "5acfd01930e49823e58c30dd8012d3338a620377d7c7d4cc140ca4b2169400e2"),
    Tool("cargo-mutants", "27.1.0", "07072e7bcdeb425d5e5fdbfd9f15a2c749e23cb2edf5ef40aee5876760ae1cf9"),
)


def checked(tool: Tool, content: bytes) -> bytes:
    """The content, where it has the tool's digest; `ValueError` in one sentence where it has another."""
    digest = hashlib.sha256(content).hexdigest()
    if digest != tool.sha256:
        raise ValueError(
            f"{tool.url} gave a file with SHA-256 {digest} where {tool.sha256} is expected: nothing was installed"
        )
    return content


def install(tool: Tool) -> int:
    """Downloads, checks, unpacks, builds and installs; the exit code."""
    try:
        with urllib.request.urlopen(tool.url, timeout=_SECONDS) as answer:  # noqa: S310 - an address of crates.io
            content = checked(tool, answer.read())
    except (OSError, ValueError, urllib.error.URLError) as error:
        print(f"cargo_tools: {error}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "crate.tar.gz").write_bytes(content)
        subprocess.run(["tar", "--extract", "--gzip", "--file", "crate.tar.gz"], cwd=name, check=True)
        source = Path(name) / f"{tool.name}-{tool.version}"
        command = ["cargo", "install", "--locked", "--path", str(source)]
        return subprocess.run(command, cwd=source, check=False).returncode


def main(arguments: Sequence[str] | None = None) -> int:
    """Installs the tool that is named."""
    tools = {tool.name: tool for tool in TOOLS}
    parser = argparse.ArgumentParser(description="installs a subcommand of Cargo's at its pinned version and digest")
    parser.add_argument("tool", choices=tools)
    return install(tools[parser.parse_args(arguments).tool])


if __name__ == "__main__":
    sys.exit(main())
