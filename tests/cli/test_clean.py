"""What dead labs left in a host's products is removed; what lives, and what is another's, is not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support import container_mocks
from tests.support.commands import in_process
from tests.support.facts import assert_facts, refused

from virtoll.cli.clean import clean_host, host_to_clean, living_labs
from virtoll.errors import GuestError, UsageError
from virtoll.hosts.remote_data import remove_leftovers
from virtoll.platforms import PLATFORMS

# Of no other process of this machine, whose words are looked through for the ids of labs that live.
DEAD, ALIVE = (f"virtoll-{os.urandom(6).hex()}" for _ in range(2))


def names(state: Path) -> set[str]:
    return {json.loads(path.read_text())["name"] for path in state.glob("*.json")}


def test_only_what_a_dead_lab_made_is_removed(tmp_path: Path) -> None:
    state = tmp_path / "state"
    container_mocks.install(tmp_path / "bin")
    made = [f"{DEAD}-runc-1", f"{ALIVE}-runc-1", "virtoll-of-mine", "database"]
    for number, name in enumerate(made):
        container_mocks.put_container(state, 200 + number, name)
    changed = {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "MOCK_STATE": str(state),
        "VIRTOLL_STATE": str(tmp_path / "virtoll"),
        "VIRTOLL_CACHE": str(tmp_path / "cache"),
    }
    agent = [sys.executable, "-c", "import sys; print('there', flush=True); sys.stdin.read()", f"/tmp/{ALIVE}/agent"]
    with subprocess.Popen(agent, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as living:
        assert living.stdout is not None
        living.stdout.readline()
        finished = in_process("clean", "--host", "local", changed=changed)
    assert finished.returncode == 0, finished.stderr
    assert_facts(finished.stdout, "OpenVZ container 200", f"{DEAD}-runc-1")
    assert names(state) == set(made[1:])


def test_rooms_for_files_of_dead_labs_are_removed(tmp_path: Path) -> None:
    dead = [f"{DEAD}-data-1", f"{DEAD}-data-2"]
    others = {f"{ALIVE}-data-1", DEAD, f"{DEAD}-other", "virtoll-data-1", "mine"}
    for name in (*dead, *others):
        (tmp_path / name / "data").mkdir(parents=True)
    removed = remove_leftovers(host_to_clean("local"), frozenset({ALIVE}), tmp_path)
    assert [line.split()[-1] for line in removed] == [f"{tmp_path}/{name}" for name in dead]
    assert {path.name for path in tmp_path.iterdir()} == others


def test_missing_products_are_named_and_nothing_else_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ps").symlink_to(str(shutil.which("ps")))
    monkeypatch.setenv("PATH", str(tmp_path))
    removed, silent = clean_host(host_to_clean("local"), PLATFORMS)
    assert removed == []
    assert {"xen", "openvz", "vserver"} <= {one.partition(":")[0] for one in silent}
    (tmp_path / "ps").unlink()
    with refused("ps", error=UsageError):
        living_labs(host_to_clean("local"))


def test_a_host_that_cannot_be_reached_is_named() -> None:
    with refused("nobody@host.invalid", error=UsageError):
        host_to_clean("nobody@host.invalid")


@pytest.mark.parametrize("destination", ["-oProxyCommand=touch /tmp/x", "two words", ""])
def test_what_is_no_destination_is_refused(destination: str) -> None:
    with refused("--host", "'local'", "user@host", error=UsageError):
        host_to_clean(destination)


class Silent:
    """A host without any product."""

    name = "nowhere"

    def run(self, argv: Sequence[str], role: str, deadline_seconds: float = 30.0, stdin: bytes | None = None) -> str:
        del role, deadline_seconds, stdin
        if argv[0] == "ps":
            return ""
        raise GuestError(f"{argv[0]}: not found")


def test_every_product_that_holds_guests_is_asked_for_leftovers() -> None:
    removed, silent = clean_host(Silent(), PLATFORMS)
    assert removed == []
    asked = {one.partition(":")[0] for one in silent}
    assert asked == {"libvirt", "xen", "openvz", "vserver", "data directories"}, "VirtualBox's machines are processes"
