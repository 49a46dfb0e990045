"""A newcomer's machine: set-up runs in a minimal Debian 12, and then every program that is named here is found there.

``make test-fresh`` runs the README's two commands in the same root.
"""

from __future__ import annotations

import ast
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from tests.support.repository import ROOT, load_tool

fresh: ModuleType = load_tool("fresh")
# Found on some machines, named in an argument list's place, and no program that set-up must bring.
NO_PROGRAMS = {
    **dict.fromkeys(("bc", "bzip2", "mysql", "nginx", "poweroff"), "run in guests, of whose image they are"),
    **dict.fromkeys(("VBoxManage", "cloud-hypervisor", "firecracker", "xl"), "the user's own product"),
    **dict.fromkeys(
        ("column", "file", "host", "idle", "init", "open", "opt", "pip", "write", "xz"),
        "words that name no program there",
    ),
    "git": "made the clone",
    "qemu-system-aarch64": "what arm64 needs in the other emulator's place; benches/survive has it besides",
}
_SYSTEM_FOLDERS = ("usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin")


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


def test_a_program_is_found_where_it_is_named() -> None:
    source = "run(['busybox', 'sh'])\nshutil.which('cpio')\nX = ('mke2fs', '-q')\nY = {'tar': 1}\n"
    assert set(named_programs(source)) == {"busybox", "cpio", "mke2fs"}


def sources() -> Iterator[Path]:
    """Drivers, tests and what builds and sets up."""
    for folder in ("src", "tests", "tools"):
        yield from (ROOT / folder).rglob("*.py")


@pytest.mark.root
@pytest.mark.network
@pytest.mark.timeout(1800)
def test_after_set_up_a_minimal_debian_has_every_program_that_is_named(tmp_path: Path) -> None:
    """What is on this machine and named in a driver or a test, and is not in that root, was installed here by hand."""
    root = tmp_path / "root"
    fresh.make_root(root)
    for folder in ("src", "tools"):
        shutil.copytree(ROOT / folder, root / "root/virtoll" / folder)
    command = ["python3", "tools/setup.py", "--dev", "--only", "packages"]
    assert fresh.run_in(root, command) == 0
    there = {path.name for folder in _SYSTEM_FOLDERS for path in (root / folder).iterdir()}
    given = {path.name for place in fresh.toolchains().values() for path in (Path(place) / "bin").iterdir()}
    named = {name for file in sources() for name in named_programs(file.read_text(encoding="utf-8"))}
    here = {name for name in named if "/" not in name and shutil.which(name) is not None}
    assert {"runc", "mke2fs", "tshark", "sshd", "cpio", "ps"} <= there
    missing = sorted(here - there - given - NO_PROGRAMS.keys() - {Path(sys.executable).name})
    assert missing == [], f"no step of the set-up installs them: {missing}"
    assert os.path.ismount(root) is False
