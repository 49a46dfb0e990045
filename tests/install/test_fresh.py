"""A newcomer's machine: set-up runs in a minimal Debian 12, and then every program that is named here is found there.

``make test-fresh`` runs the README's two commands in the same root.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from tests.support.repository import ROOT, load_tool

fresh: ModuleType = load_tool("fresh")
# Named where programs of this machine are named, and nothing that set-up must bring.
NO_PROGRAMS = {
    "git": "made the clone",
    **dict.fromkeys(("nginx", "rsync"), "run in guests, of whose image they are"),
    **dict.fromkeys(("prlctl", "vkill", "vserver", "vserver-info", "vzctl", "vzlist"), "products that tests mock"),
    **dict.fromkeys(("reproduce", "virtoll"), "a command of Virtoll's, and Virtoll"),
}
_SYSTEM_FOLDERS = ("usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin")
_STARTS = re.compile(r"subprocess\.(run|Popen|check_output|check_call)|(\w+\.)?(which|find_program)|packages\.find")
_COMMANDS = re.compile(r"(.*_)?(command|argv|become)", re.IGNORECASE)
_PROGRAM = re.compile(r"^(?:/usr/s?bin/)?([a-z][\w.+-]*)$")


def named_programs(source: str) -> Iterator[str]:
    """Programs that this code looks for or starts on the machine where it runs, as far as it names them itself.

    What a product's driver or a guest is asked to start is no program of this machine: other functions take it.
    """
    for node in ast.walk(ast.parse(source)):
        for word in _first_words(node):
            if isinstance(word, ast.Constant) and isinstance(word.value, str):
                yield from _PROGRAM.findall(word.value)


def _first_words(node: ast.AST) -> Iterator[ast.expr]:
    """What stands for a program in a call, or in an assignment to a name for a command or for programs."""
    if isinstance(node, ast.Call) and node.args and _STARTS.fullmatch(ast.unparse(node.func)):
        yield from _words(node.args[0])[:1] or [node.args[0]]
    elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
        target = ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
        if target == "PROGRAMS":
            yield from _words(node.value)
        elif _COMMANDS.fullmatch(target):
            yield from _words(node.value)[:1]


def _words(value: ast.expr) -> list[ast.expr]:
    return value.elts if isinstance(value, ast.List | ast.Tuple) else []


def test_a_program_is_found_where_it_is_named() -> None:
    source = """
subprocess.run(["busybox", "sh"])
guest.run(["fio"])
shutil.which("/usr/sbin/cpio")
command = ("mke2fs", "-q")
PROGRAMS: Final = ("slurmd", "munged")
others = {"tar": 1}
"""
    assert set(named_programs(source)) == {"busybox", "cpio", "mke2fs", "slurmd", "munged"}


def sources() -> Iterator[Path]:
    """Drivers, tests and what builds and sets up."""
    for folder in ("src", "tests", "tools"):
        yield from (ROOT / folder).rglob("*.py")


@cache
def every_named_program() -> set[str]:
    return {name for file in sources() for name in named_programs(file.read_text(encoding="utf-8"))}


def test_enough_programs_are_named_and_no_exception_is_left_over() -> None:
    named = every_named_program()
    assert {"runc", "tshark", "sshd", "cpio", "ps", "slurmd", "unshare", "tar"} <= named
    assert NO_PROGRAMS.keys() <= named


@pytest.mark.root
@pytest.mark.network
@pytest.mark.timeout(1800)
def test_after_set_up_a_minimal_debian_has_every_program_that_is_named(tmp_path: Path) -> None:
    """Whatever is installed here: what a driver or a test starts, and that root lacks, was installed by hand."""
    root = tmp_path / "root"
    fresh.make_root(root)
    for folder in ("src", "tools"):
        shutil.copytree(ROOT / folder, root / "root/virtoll" / folder)
    command = ["python3", "tools/setup.py", "--dev", "--only", "packages"]
    assert fresh.run_in(root, command) == 0
    there = {path.name for folder in _SYSTEM_FOLDERS for path in (root / folder).iterdir()}
    given = {path.name for place in fresh.toolchains().values() for path in (Path(place) / "bin").iterdir()}
    missing = sorted(every_named_program() - there - given - NO_PROGRAMS.keys())
    assert missing == [], f"no step of the set-up installs them: {missing}"
    assert os.path.ismount(root) is False
