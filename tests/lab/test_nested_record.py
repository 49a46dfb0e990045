"""A held nested host is a process of this user's: another user's that looks like one is never entered."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from virtoll.lab import residue
from virtoll.pipeline import interactive_nested

ATTACKER = 12346
REPORTED = {"kind": "xen", "since": 1.5, "prefix": ["ssh", "root@host"]}


@pytest.fixture
def record(state: Path) -> residue.LabRecord:
    """The record of a lab that lives and holds a nested host."""
    del state
    made, _lock = residue.create_record()
    folder = os.open(made.folder, os.O_RDONLY | os.O_DIRECTORY)
    residue.note_whole("nested.json", folder, REPORTED)
    os.close(folder)
    return made


@pytest.mark.root
@pytest.mark.parametrize("user", [0, ATTACKER])
def test_only_a_first_process_of_this_user_counts(record: residue.LabRecord, user: int) -> None:
    become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--"]
    posing = ["sh", "-c", "echo there; read end", "virtoll.lab.init"]
    with subprocess.Popen(
        ["unshare", "--pid", "--fork", "--kill-child", *become, *posing],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "VIRTOLL_LAB": record.lab_id},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"there\n"
        held = interactive_nested.held()
        process.kill()
    assert [host.lab_id for host in held] == ([record.lab_id] if user == 0 else [])


@pytest.mark.parametrize(
    "content", ["", "[]", '{"kind": 5}', '{"kind": "xen", "since": "x", "prefix": []}', "[" * 100_000]
)
def test_a_damaged_record_holds_no_nested_host(record: residue.LabRecord, content: str) -> None:
    (record.folder / "nested.json").write_text(content, encoding="utf-8")
    assert interactive_nested.held() == []
