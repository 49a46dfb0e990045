"""``virtoll nested``: a hypervisor host that stays up, is looked into, and is gone with all that it had."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support import commands, experiments, machine
from tests.support.facts import Command, assert_facts, assert_refused
from tests.support.playground import Playground, Running
from tests.support.repository import ROOT

from virtoll.nested import NESTED_HOSTS, prepare_nested_host
from virtoll.pipeline.manifest import nested_hosts

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.timeout(1800)]


def is_extended(item: pytest.Function) -> bool:
    """Of one that is brought up by hand, root's: an ordinary user's goes the longer way."""
    return item.originalname == "test_one_is_brought_up_looked_into_and_ended" and "root" in item.name


NICS = 8  # management, three sources, three sinks, marks
BOOT_SECONDS = 900.0  # a host that boots says nothing meanwhile


def run_nested(place: Playground, *words: str) -> Running:
    return place.run("nested", *words)


def the_kvm(place: Playground) -> dict[str, Any]:
    rows = json.loads(run_nested(place, "list", "--json").said)
    (row,) = [row for row in rows if row["kind"] == "kvm"]
    return dict(row)


def launcher_of(first: int) -> int:
    """The process that holds the lab, by the number of the lab's first process; between them is ``unshare``."""
    between = machine.read_process(first)
    assert between is not None
    launcher = machine.read_process(between.parent)
    assert launcher is not None
    return launcher.parent


def test_one_is_brought_up_looked_into_and_ended(place: Playground) -> None:
    """As root by kill -9 of what holds it, as an ordinary user by 'down'."""
    emulator = prepare_nested_host(NESTED_HOSTS["kvm"]).emulator
    with place.start("nested", "up", "kvm") as running:
        assert running.end(BOOT_SECONDS) == 0, running.said
    up = the_kvm(place)
    assert up["up"] is True
    assert up["built"] is True
    launcher = launcher_of(up["pid"])
    seen = machine.family(launcher)
    try:
        assert any(process.argv[: len(emulator.argv)] == emulator.argv for process in seen.processes)
        again = run_nested(place, "up", "kvm")
        assert again.process.returncode == 2
        assert_facts(again.said, Command("virtoll nested down kvm"))

        look = "test -c /dev/kvm && grep -c '^kvm_amd ' /proc/modules; ls /sys/class/net; uname -r; exit 3"
        reported = run_nested(place, "shell", "kvm", "--", "sh", "-c", look)
        assert reported.process.returncode == 3, reported.said
        loaded, *nics, release = reported.said.split()
        assert loaded == "1"
        assert len(set(nics) - {"lo"}) == NICS
        assert release != os.uname().release
        if place.root:
            os.kill(launcher, signal.SIGKILL)
        else:
            down = run_nested(place, "down", "kvm")
            assert down.process.returncode == 0, down.said
            assert_facts(down.said, "kvm")
        place.check_clean(seen, running.token)
        assert the_kvm(place)["up"] is False
    finally:
        for process in seen.processes:
            if process.alive:
                os.kill(process.pid, signal.SIGKILL)


def test_a_run_records_what_emulates_its_nested_hosts() -> None:
    made = prepare_nested_host(NESTED_HOSTS["kvm"])
    reported = subprocess.run([*made.emulator.argv, "--version"], capture_output=True, text=True, check=True).stdout
    assert f"(Debian {made.emulator.version})" in reported
    major, minor = (int(word) for word in made.emulator.version.removeprefix("1:").split(".")[:2])
    assert (major, minor) >= (10, 2), "older ones lose interrupts (docs/decisions/emulator-of-nested-hosts.md)"
    guests = {"platform": "qemu-kvm", "host": "nested:kvm"}
    found = nested_hosts(experiments.parsed(platforms=["native", guests]))
    emulator = {"emulator": made.emulator.versions, "emulator_mended": made.emulator.mended}
    assert found == {"kvm": {"packages": made.versions, **emulator}}
    assert nested_hosts(experiments.parsed(platforms=["native", "netns"])) is None


def test_whoever_stops_waiting_for_one_leaves_nothing(root_place: Playground) -> None:
    emulator = prepare_nested_host(NESTED_HOSTS["kvm"]).emulator
    with root_place.start("nested", "up", "kvm") as running:
        found: list[machine.Family] = []

        def is_started() -> bool:
            found.append(machine.family(running.process.pid))
            return any(process.argv[:1] == emulator.argv[:1] for process in found[-1].processes)

        running.wait_until(is_started, "a machine that boots")
        running.process.send_signal(signal.SIGINT)
        assert running.end() == 130, running.said
        root_place.check_clean(found[-1], running.token)


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        (["up", "bochs"], ("'bochs'", *NESTED_HOSTS)),
        (["build", "bochs"], ("'bochs'", *NESTED_HOSTS)),
        (["down"], ("--all", "virtoll nested list")),
        (["down", "kvm", "--all"], ("--all", "virtoll nested list")),
        (["down", "kvm"], ("kvm", "virtoll nested up kvm")),
        (["shell", "xen"], ("xen", "virtoll nested up xen")),
    ],
)
def test_bad_input_is_refused_in_one_line(words: list[str], facts: tuple[str, ...], tmp_path: Path) -> None:
    finished = commands.in_process("nested", *words, changed={"VIRTOLL_STATE": str(tmp_path / "state")})
    assert_refused(finished, *facts)
    assert len(finished.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "state").exists()


@pytest.mark.usefixtures("state")
def test_of_two_at_once_one_is_refused(tmp_path: Path) -> None:
    """The launcher of the second says so; what the first holds is not touched."""
    from virtoll.pipeline import interactive_nested

    with interactive_nested.only_one("kvm"):
        finished = commands.virtoll("nested", "hold", "kvm", changed={"VIRTOLL_STATE": str(tmp_path / "state")})
        assert_refused(finished, Command("virtoll nested up kvm"), f"process {os.getpid()}")
    with interactive_nested.only_one("kvm"):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it mounts")
@pytest.mark.usefixtures("state")
def test_of_two_with_folders_of_their_own_none_is_refused(tmp_path: Path) -> None:
    """A container's /run is another folder of the same path, and may be in the same network."""
    from virtoll.pipeline import interactive_nested

    program = (
        "from virtoll.pipeline import interactive_nested\nwith interactive_nested.only_one('kvm'):\n    print('held')"
    )
    with interactive_nested.only_one("kvm"):
        said = subprocess.run(
            commands.with_mounts([f"mount -t tmpfs tmpfs {tmp_path}"], sys.executable, "-c", program),
            env=commands.environment(VIRTOLL_STATE=str(tmp_path / "state")),
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    assert said == "held\n"
