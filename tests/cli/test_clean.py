"""What dead labs left in a host's products is removed; what lives, and what is another's, is not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support import container_mocks
from tests.support.commands import virtoll

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
        finished = virtoll("clean", "--host", "local", changed=changed)
    assert finished.returncode == 0, finished.stderr
    assert f"removed OpenVZ container 200 ({DEAD}-runc-1) on this machine" in finished.stdout
    assert names(state) == set(made[1:])


def test_rooms_for_files_of_dead_labs_are_removed(tmp_path: Path) -> None:
    for name in (
        f"{DEAD}-data-1",
        f"{DEAD}-data-2",
        f"{ALIVE}-data-1",
        DEAD,
        f"{DEAD}-other",
        "virtoll-data-1",
        "mine",
    ):
        (tmp_path / name / "data").mkdir(parents=True)
    removed = remove_leftovers(host_to_clean("local"), frozenset({ALIVE}), tmp_path)
    assert removed == [f"data directory {tmp_path}/{DEAD}-data-{number}" for number in (1, 2)]
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{ALIVE}-data-1",
        DEAD,
        f"{DEAD}-other",
        "virtoll-data-1",
        "mine",
    }


def test_products_that_are_missing_are_told_and_nothing_else_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ps = subprocess.run(["which", "ps"], capture_output=True, text=True, check=True).stdout.strip()
    (tmp_path / "ps").symlink_to(ps)
    monkeypatch.setenv("PATH", str(tmp_path))
    removed, silent = clean_host(host_to_clean("local"), PLATFORMS)
    assert removed == []
    assert {"xen", "openvz", "vserver"} <= {one.partition(":")[0] for one in silent}
    (tmp_path / "ps").unlink()
    with pytest.raises(UsageError, match="which runs still live there cannot be found out"):
        living_labs(host_to_clean("local"))


def test_a_host_that_cannot_be_reached_is_one_sentence() -> None:
    with pytest.raises(UsageError, match=r"ssh nobody@host\.invalid cannot be reached") as raised:
        host_to_clean("nobody@host.invalid")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("destination", ["-oProxyCommand=touch /tmp/x", "two words", ""])
def test_what_is_no_destination_is_refused(destination: str) -> None:
    with pytest.raises(UsageError, match=r"--host: .* is neither 'local' nor a destination of ssh's; give user@host"):
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
    assert {one.partition(":")[0] for one in silent} == {
        "libvirt",
        "xen",
        "openvz",
        "vserver",
        "data directories",
    }, "VirtualBox's machines are processes"
