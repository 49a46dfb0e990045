"""Every program that the repository names comes with what set-up installs, whatever else a host has.

``make test-fresh`` runs the README's two commands in a root that has nothing else.
"""

from __future__ import annotations

import ast
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.support.repository import ROOT, load_tool

setup = load_tool("setup")
fresh = load_tool("fresh")
# Found on some machines, named in an argument list's place, and no program that set-up must bring.
NO_PROGRAMS = {
    **dict.fromkeys(
        (
            "bc",
            "bonnie++",
            "bzip2",
            "dbench",
            "fio",
            "iperf",
            "mysql",
            "nginx",
            "poweroff",
            "rsync",
            "stress-ng",
            "sysbench",
        ),
        "run in guests, of whose image they are",
    ),
    **dict.fromkeys(("VBoxManage", "cloud-hypervisor", "firecracker", "xl"), "the user's own product"),
    **dict.fromkeys(
        ("column", "file", "host", "idle", "init", "open", "opt", "pip", "write", "xz"),
        "words that name no program there",
    ),
    "git": "made the clone",
    "qemu-system-aarch64": "what arm64 needs in the other emulator's place; benches/survive has it too",
}
SYSTEM_FOLDERS = tuple(map(Path, ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")))
WITHOUT = ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")


def named_programs(source: str) -> Iterator[str]:
    """What stands first in a list or tuple of texts, and what is looked for by name: where programs are named."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.List | ast.Tuple) and node.elts:
            first: ast.expr | None = node.elts[0]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("which", "find_program")) and node.args:
            first = node.args[0]
        else:
            continue
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            yield first.value


def output_of(*command: str) -> list[str]:
    """The lines that a command prints."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def with_dependencies(packages: Sequence[str]) -> set[str]:
    """These Debian packages, all that they need, and what every Debian has, of those that are installed here."""
    listed = output_of("dpkg-query", "--show", "--showformat=${Package} ${Essential} ${Priority} ${db:Status-Status}\n")
    installed = [line.split() for line in listed if line.endswith(" installed")]
    everywhere = [words[0] for words in installed if "yes" in words or "required" in words or words[0] == "apt"]
    roots = [name for name in (*packages, *everywhere) if name in {words[0] for words in installed}]
    options = [f"--no-{kind}" for kind in WITHOUT]
    needed = output_of("apt-cache", "depends", "--recurse", "--installed", *options, *roots)
    return {line for line in needed if line and not line.startswith((" ", "<"))}


def programs_of(packages: set[str]) -> set[str]:
    """The programs of installed Debian packages, those included that an alternative names."""
    installed = {line.partition(":")[0] for line in output_of("dpkg-query", "--show", "--showformat=${Package}\n")}
    files = {Path(line) for line in output_of("dpkg-query", "--listfiles", *sorted(packages & installed))}
    programs = {file.name for file in files if file.parent in SYSTEM_FOLDERS}
    resolved = {file.resolve() for file in files if shutil.which(file) is not None}
    links = [path for folder in SYSTEM_FOLDERS if folder.is_dir() for path in folder.iterdir() if path.is_symlink()]
    return programs | {link.name for link in links if link.resolve() in resolved}


def test_a_program_is_found_where_it_is_named() -> None:
    source = "run(['busybox', 'sh'])\nshutil.which('cpio')\nX = ('mke2fs', '-q')\nY = {'tar': 1}\n"
    assert set(named_programs(source)) == {"busybox", "cpio", "mke2fs"}


@pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="needs dpkg")
def test_set_up_installs_every_program_that_is_named() -> None:
    """A program that is on this host and in no package of the set-up's was installed by hand."""
    packages = (*fresh.GIVEN_PACKAGES, *setup.needed_packages(platform.machine(), dev=True))
    there = programs_of(with_dependencies(packages))
    assert {"runc", "mke2fs", "tshark", "sshd", "cpio", "ps"} <= there
    toolchains = {path.name for folder in fresh.toolchains().values() for path in (Path(folder) / "bin").iterdir()}
    here = {file.name for folder in os.get_exec_path() if Path(folder).is_dir() for file in Path(folder).iterdir()}
    others = here - there - toolchains - NO_PROGRAMS.keys() - {Path(sys.executable).name}
    files = (path for folder in ("src", "tests", "tools") for path in (ROOT / folder).rglob("*.py"))
    texts = (path.read_text(encoding="utf-8") for path in files)
    naming = (text for text in texts if others & set(re.findall(r"""["']([^"'\s/]+)["']""", text)))
    named = {name for text in naming for name in named_programs(text)}
    missing = sorted(name for name in named & others if shutil.which(name) is not None)
    assert missing == [], f"no step of the set-up installs them: {missing}"
