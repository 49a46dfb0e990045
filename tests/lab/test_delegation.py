"""A user's part of cgroup v2, and what the root of v2 hands on: trees as a Debian 12 with Linux 6.1 has them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from virtoll.lab import residue
from virtoll.lab.cgroups import Limits, charged_memory_bytes, detect, make_group, read_back
from virtoll.lab.delegation import delegated_folder, groups_parents
from virtoll.lab.inside import Lab
from virtoll.lab.launch import sweep_dead_labs

OWN = "user.slice/user-1000.slice/user@1000.service/app.slice"
SHELL = f"0::/{OWN}/run-r1.scope\n"
ALL = "cpuset cpu io memory pids"


def group(folder: Path, *, offered: str = ALL, handed_on: str = "", processes: str = "") -> Path:
    """A folder of v2 with the files that the kernel puts there, and those of the folders above it."""
    folder.mkdir(parents=True, exist_ok=True)
    names = {"cgroup.controllers": offered, "cgroup.subtree_control": handed_on, "cgroup.procs": processes}
    for name, text in names.items():
        (folder / name).unlink(missing_ok=True)  # a file that only root may write is made anew
        (folder / name).write_text(f"{text}\n")
    return folder


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host whose service manager delegates ``OWN`` to this process, which is in a scope below it."""
    root = tmp_path / "cgroup"
    part = group(root, handed_on=ALL, processes="1")
    for name in OWN.split("/"):
        part = group(part / name, handed_on="memory pids")
    group(part / "run-r1.scope", processes=str(os.getpid()))
    for above in (root, root / "user.slice", root / "user.slice/user-1000.slice"):
        for name in ("cgroup.procs", "cgroup.subtree_control"):
            (above / name).chmod(0o444)
    monkeypatch.setattr(residue, "CGROUP_ROOT", root)
    return root


def test_the_nearest_folder_above_a_users_own_is_where_labs_go(host: Path) -> None:
    assert delegated_folder(host, SHELL) == host / OWN
    group(host / OWN, processes="4711")
    assert delegated_folder(host, SHELL) == (host / OWN).parent, "one with processes hands nothing on"


@pytest.mark.parametrize(
    "memberships", ["0::/\n", "0::/init.scope\n", "4:memory:/\n", "0::/../outside\n", f"0::/{OWN}\n", ""]
)
def test_who_is_outside_of_a_delegation_has_none(host: Path, memberships: str) -> None:
    for folder in [one for one in host.rglob("*") if one.is_dir() and one.name != "run-r1.scope"]:
        group(folder, processes="4711")
    assert delegated_folder(host, memberships) is None


@pytest.mark.parametrize("lacking", ["cpu", "cpuset", "memory"])
def test_a_delegation_without_a_needed_controller_is_none(host: Path, lacking: str) -> None:
    group(host / OWN, offered=ALL.replace(lacking, "").strip())
    assert delegated_folder(host, SHELL) is None


def test_a_host_with_v1_has_no_delegation(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    group(tmp_path / "unified" / OWN)
    assert delegated_folder(tmp_path, SHELL) is None


def test_a_users_lab_limits_its_guests_below_the_delegated_folder(host: Path) -> None:
    lab = f"{OWN}/virtoll-0123456789ab"
    layout = detect(host)
    for folder in (host / lab, host / lab / "guest"):
        group(folder)
        for name in ("memory.max", "cpu.max", "cpuset.cpus", "memory.current"):
            (folder / name).touch()
    made = make_group(lab, "guest", Limits(2**27, 0.5, (0,)), layout)
    assert made.folders["memory"] == host / lab / "guest"
    assert (host / lab / "guest/cpu.max").read_text() == "50000 100000"
    inside = f"0::/{lab}/guest/payload\n"
    assert read_back(Limits(2**27, 0.5), inside, lab, layout) == {"memory.max": str(2**27), "cpu.max": "50000 100000"}
    (host / lab / "guest/memory.current").write_text("4096\n")
    assert charged_memory_bytes(f"0::/{lab}/guest\n", lab) == 4096
    assert (host / "cgroup.subtree_control").read_text().split() == ALL.split(), "what is not the user's stays"


@pytest.mark.parametrize(
    ("root", "delegated", "cgroup"),
    [(False, True, f"{OWN}/virtoll-0123456789ab"), (False, False, None), (True, False, "virtoll-0123456789ab")],
)
def test_only_root_and_who_has_a_delegation_has_a_labs_folder(
    host: Path, monkeypatch: pytest.MonkeyPatch, root: bool, delegated: bool, cgroup: str | None
) -> None:
    monkeypatch.setattr("virtoll.lab.inside.delegated_folder", lambda: host / OWN if delegated else None)
    monkeypatch.setattr(Lab, "is_root", property(lambda _: root))
    assert Lab("virtoll-0123456789ab", host).cgroup == cgroup


def test_the_last_lab_takes_back_what_was_handed_on_for_labs(state: Path, host: Path) -> None:
    """Runtimes hand on all controllers that there are, from v2's root on; a service manager had two of them there."""
    group(host, handed_on="memory pids")
    first, first_lock = residue.create_record()
    residue.note_controllers(first, [host])
    (host / "cgroup.subtree_control").write_text("cpuset cpu io memory pids\n")
    second, second_lock = residue.create_record()
    residue.note_controllers(second, [host])
    os.close(first_lock)
    assert sweep_dead_labs() == [str(first.folder)]
    assert (host / "cgroup.subtree_control").read_text() == "cpuset cpu io memory pids\n", "another lab needs them"
    os.close(second_lock)
    expected = [f"controller {name} of {host}" for name in ("cpuset", "cpu", "io")]
    assert sweep_dead_labs() == [*expected, str(second.folder)]
    assert (host / "cgroup.subtree_control").read_text() == "-io", "what the kernel was told last"
    assert not state.exists()


@pytest.mark.usefixtures("state")
def test_a_users_folder_goes_with_a_dead_lab(host: Path) -> None:
    record, lock = residue.create_record()
    residue.note_controllers(record, [host / OWN])
    (host / OWN / record.lab_id / "guest").mkdir(parents=True)
    os.close(lock)
    assert str(host / OWN / record.lab_id) in sweep_dead_labs()
    assert not (host / OWN / record.lab_id).exists()


def test_a_record_that_was_cut_off_is_no_reason_not_to_sweep(state: Path, host: Path) -> None:
    record, lock = residue.create_record()
    residue.note_controllers(record, [host])
    noted = record.folder / "controllers.jsonl"
    assert json.loads(noted.read_text()) == {"folder": str(host), "before": ALL.split()}
    noted.write_text(noted.read_text() + '{"folder": "/sys')
    os.close(lock)
    assert sweep_dead_labs() == [str(record.folder)]
    assert not state.exists()


def test_roots_labs_are_below_the_root_of_v2(host: Path) -> None:
    if os.geteuid() == 0:
        assert groups_parents() == [host]
