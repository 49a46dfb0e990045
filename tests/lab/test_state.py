"""The state folder is this user's alone: another user's, an open one or a link is refused in one sentence."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.commands import VIRTOLL, environment, opening_mounts, with_mounts

from virtoll.errors import UsageError
from virtoll.lab import residue
from virtoll.lab.launch import run_in_lab, sweep_dead_labs
from virtoll.system.private import NotPrivate

ATTACKER, VICTIM = 12346, 12345
LAB = "virtoll-0123456789ab"


pytestmark = pytest.mark.usefixtures("state")


def plant(state: Path, canary: Path, owner: int | None = None) -> None:
    """A state folder with the record of a dead lab that would run a program, as an attacker makes it."""
    record = state / "labs" / LAB
    record.mkdir(parents=True)
    (record / "lock").touch()
    entry = {"id": 1, "argv": ["/bin/sh", "-c", f"id > {canary}"]}
    for name in ("commands.jsonl", "cleanups.jsonl"):
        (record / name).write_text(json.dumps(entry) + "\n", encoding="utf-8")
    if owner is not None:
        for path in (state, state / "labs", record, *record.iterdir()):
            os.chown(path, owner, owner)


def test_all_that_is_made_is_closed_to_others(state: Path) -> None:
    before = os.umask(0)
    try:
        record, lock = residue.create_record()
        residue.note_controllers(record, [])
    finally:
        os.umask(before)
    paths = (state, state / "labs", record.folder, record.folder / "lock")
    assert [stat.S_IMODE(path.stat().st_mode) for path in paths] == [0o700, 0o700, 0o700, 0o600]
    os.close(lock)
    assert sweep_dead_labs() == [str(record.folder)]
    assert not state.exists()


@pytest.mark.root
def test_another_users_state_folder_is_named_with_its_owner(state: Path, tmp_path: Path) -> None:
    plant(state, tmp_path / "executed", ATTACKER)
    for do in (residue.create_record, sweep_dead_labs, lambda: run_in_lab(["--version"])):
        with pytest.raises(NotPrivate, match=f"uid {ATTACKER}") as raised:
            do()
        assert raised.value.path == str(state)
        assert "VIRTOLL_STATE" in str(raised.value)
    assert (state / "labs" / LAB / "cleanups.jsonl").exists()
    assert not (tmp_path / "executed").exists()


@pytest.mark.root
def test_another_users_record_in_the_own_folder_is_left_alone(state: Path, tmp_path: Path) -> None:
    plant(state, tmp_path / "executed", ATTACKER)
    for path in (state, state / "labs"):
        os.chown(path, 0, 0)
        path.chmod(0o700)
    assert sweep_dead_labs() == []
    assert (state / "labs" / LAB).is_dir()
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777, 0o722])
@pytest.mark.parametrize("level", [0, 1])
def test_a_folder_that_others_may_write_to_is_refused(state: Path, mode: int, level: int) -> None:
    (state / "labs").mkdir(parents=True, mode=0o700)
    chosen = (state, state / "labs")[level]
    chosen.chmod(mode)
    for do in (residue.create_record, sweep_dead_labs):
        with pytest.raises(NotPrivate, match=f"mode {mode:04o}"):
            do()


def test_a_folder_that_its_user_made_for_all_to_read_is_used(state: Path) -> None:
    state.mkdir(mode=0o755)
    record, lock = residue.create_record()
    assert stat.S_IMODE((state / "labs").stat().st_mode) == 0o700
    os.close(lock)
    assert sweep_dead_labs() == [str(record.folder)]


@pytest.mark.parametrize("name", ["state", "labs", LAB, "lock", "cleanups.jsonl"])
def test_a_link_is_not_followed(name: str, state: Path, tmp_path: Path) -> None:
    real = tmp_path / "real"
    plant(real, tmp_path / "executed")
    for path in [real, *real.rglob("*")]:
        path.chmod(0o700 if path.is_dir() else 0o600)
    if name == "state":
        state.symlink_to(real)
    else:
        (chosen,) = real.rglob(name)
        moved = chosen.rename(tmp_path / "moved")
        chosen.symlink_to(moved)
        real.rename(state)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with contextlib.suppress(NotPrivate):
        assert sweep_dead_labs() == []
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("place", ["/proc/x", "/proc/self/x/y", "/sys/x", "/dev/null/x"])
def test_a_place_where_nothing_can_be_made_is_one_sentence(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIRTOLL_STATE", place)
    with pytest.raises(UsageError) as raised:
        residue.create_record()
    assert place in str(raised.value)
    assert "VIRTOLL_STATE" in str(raised.value)


def test_a_temporary_folder_without_the_sticky_bit_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    above = tmp_path / "tmp"
    above.mkdir()
    above.chmod(0o777)
    monkeypatch.setenv("VIRTOLL_STATE", str(above / "state"))
    with pytest.raises(NotPrivate, match=r"chmod [+]t"):
        residue.create_record()


def test_a_file_system_that_maps_users_is_named(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As NFS with root squash does: what root makes there belongs to nobody."""
    state.mkdir(mode=0o700)
    real = os.geteuid()
    mapped = {"labs": real + 1}
    lstat = Path.lstat

    def squashed(path: Path) -> os.stat_result:
        status = list(lstat(path))
        status[stat.ST_UID] = mapped.get(path.name, status[stat.ST_UID])
        return os.stat_result(status)

    monkeypatch.setattr(Path, "lstat", squashed)
    with pytest.raises(NotPrivate, match="root_squash"):
        residue.create_record()


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder like /tmp, which all users reach."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o1777)
        yield Path(name)


@pytest.mark.root
@pytest.mark.parametrize("where", ["VIRTOLL_STATE", "XDG_RUNTIME_DIR", "TMPDIR"])
def test_the_attack_of_another_user_runs_nothing(where: str, shared: Path) -> None:
    """By the command line, as the victim: who made the folder first ran code as who came second."""
    names = {
        "VIRTOLL_STATE": shared / "s",
        "XDG_RUNTIME_DIR": shared / "virtoll",
        "TMPDIR": shared / f"virtoll-{VICTIM}",
    }
    state, canary = names[where], shared / "executed"
    plant(state, canary, ATTACKER)
    for path in [state, *state.rglob("*")]:
        path.chmod(0o777)
    variables = {key: value for key, value in environment().items() if key != "XDG_RUNTIME_DIR"}
    variables |= {"HOME": str(shared), where: str(state if where == "VIRTOLL_STATE" else shared)}
    become = ["setpriv", f"--reuid={VICTIM}", f"--regid={VICTIM}", "--clear-groups", "--"]
    command = with_mounts(opening_mounts("/mnt"), *become, *VIRTOLL, "clean")
    finished = subprocess.run(command, cwd="/", env=variables, capture_output=True, text=True, check=False)
    assert not canary.exists()
    assert (state / "labs" / LAB / "cleanups.jsonl").exists()
    if where == "XDG_RUNTIME_DIR":  # another user's is not this user's runtime folder
        assert finished.returncode == 0, finished.stderr
    else:
        assert finished.returncode == 2
        assert f"uid {ATTACKER}" in finished.stderr
        assert len(finished.stderr.splitlines()) == 1
