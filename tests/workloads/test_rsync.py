"""rsync between a guest and its peer: statistics, where the files lie, who opens the connection, and what differs."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.facts import assert_facts, refused
from tests.support.repository import RECORDED
from tests.support.workload_trials import ProgramGuest, assert_problem, exited, measure, result_of, trial_bench

from virtoll.agent.operations.jobs import RunRequest
from virtoll.agent.operations.programs import ExecRequest, SpawnRequest
from virtoll.errors import GuestCannot, GuestError
from virtoll.lab.data import DataBy, LocalVolume
from virtoll.lab.inside import Lab
from virtoll.pipeline import session
from virtoll.pipeline.progress import SilentProgress
from virtoll.workloads import WORKLOADS, rsync
from virtoll.workloads.base import DataDirectory, Measurement

DIRECTIONS = ("to-guest", "from-guest")
TREE_BYTES = 6_679_824
# rsync 3.2.7 of Debian 12.
RSYNC = (RECORDED / "rsync.txt").read_text()


def test_its_statistics() -> None:
    assert rsync.parse(RSYNC) == {
        "files": 24,
        "file_bytes": 501017,
        "files_transferred": 24,
        "wire_bytes_sent": 503,
        "wire_bytes_received": 502863,
    }
    assert rsync.parse(RSYNC.replace("reg: 24, ", ""))["files"] == 0, "folders alone"


@pytest.mark.parametrize("missing", ["Total file size", "Number of files", "Total bytes received"])
def test_statistics_without_a_line_name_it(missing: str) -> None:
    with refused(f"'{missing}'", error=ValueError):
        rsync.parse(RSYNC.replace(missing, "Other"))


class Room:
    """The peer's data directory; ``asked``: what of it, in order."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def empty(self) -> DataDirectory:
        """Emptied."""
        self.asked.append("empty")
        return DataDirectory("/peers")

    def state(self, evict: bool) -> dict[str, Any]:
        """Nothing is in a page cache."""
        self.asked.append(f"state {evict}")
        return {"page_cache": "cold"}


def trial(
    direction: str, received: str = RSYNC, differing: str = "", room: Room | None = None, **given: Any
) -> tuple[Measurement, ProgramGuest, ProgramGuest]:
    """The source was made before; ``received``: what is found at the receiving end. ``room``: the peer's disk."""

    def at(end: str) -> Any:
        def answer(request: ExecRequest) -> dict[str, Any]:
            if request.argv[0] == "find":
                return exited(stdout="x")
            if "--checksum" in request.argv:
                return exited(stdout=differing)
            if "--dry-run" not in request.argv:
                return exited()
            receives = (end == "guest") == (direction == "to-guest")
            return exited(stdout=received if receives else RSYNC)

        return answer

    guest, programs = (ProgramGuest(timed={"stdout": RSYNC}, exec=at(end)) for end in ("guest", "peer"))
    bench = trial_bench(guest, ProgramGuest(), programs, peer_files=room)
    return measure("rsync-tree", bench, direction=direction, **given), guest, programs


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_both_ends_have_the_same(direction: str) -> None:
    measured, guest, programs = trial(direction)
    assert result_of(measured)["figures"]["throughput"] == pytest.approx(8.016272)
    assert measured.check is not None
    assert_facts(measured.check.value, "24 files", "501017 bytes", 0)
    ends = guest.timed_commands[0][3:]
    assert (ends[0] if direction == "to-guest" else ends[1]).startswith("rsync://10.64.0.2:8730/")
    assert [op for op in programs.operations() if op != "exec"] == ["spawn", "end"]
    assert guest.patience == [60.0, 119.72]
    assert programs.patience == [60.0, 75.0, 119.72]


@pytest.mark.parametrize(("direction", "folder"), [("to-guest", "received"), ("from-guest", "sent")])
def test_the_guests_files_can_be_on_a_disk(direction: str, folder: str) -> None:
    measured, guest, _ = trial(direction, files="disk")
    assert "state" in result_of(measured)
    ends = guest.timed_commands[0][3:]
    assert (ends[1] if direction == "to-guest" else ends[0]) == f"/data/virtoll-rsync-{folder}/"
    memory, disk = (WORKLOADS["rsync-tree"].with_parameters({"files": files}).needs() for files in ("memory", "disk"))
    assert memory.data_bytes == 0
    assert disk.data_bytes > TREE_BYTES
    assert disk.memory_bytes < memory.memory_bytes


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_the_peers_rsync_can_open_the_connection(direction: str) -> None:
    """The guest's is the daemon then; it is timed where it runs, and no clock of a guest's is in the record."""
    measured, guest, programs = trial(direction, client="peer")
    assert result_of(measured)["figures"]["throughput"] > 0
    assert guest.requests(RunRequest) == []
    (timed,) = programs.requests(RunRequest)
    assert timed.pause_ns == 0
    ends = timed.parameters["argv"][3:]
    assert (ends[0] if direction == "from-guest" else ends[1]).startswith("rsync://10.64.0.1:8730/")
    assert [op for op in guest.operations() if op != "exec"] == ["spawn", "end"]
    assert measured.clock is not None
    assert (measured.clock.method, measured.clock.guest) == ("channel", None)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_the_peers_files_can_be_on_a_disk(direction: str) -> None:
    room = Room()
    measured, guest, _ = trial(direction, room=room, peer_files="disk")
    assert result_of(measured)["peer_state"] == {"page_cache": "cold"}
    assert room.asked == ["empty", "state True", "empty"]
    assert guest.requests(SpawnRequest) == [], "the guest is the client"
    needs = WORKLOADS["rsync-tree"].with_parameters({"peer_files": "disk"}).needs()
    assert needs.peer_data_bytes > TREE_BYTES
    assert needs.data_bytes == 0


def making(workload: str, **given: Any) -> list[list[str]]:
    """What runs beside the peer before the daemon's configuration, where the source is not there yet."""
    programs = ProgramGuest({"stat": [{"stdout": "137961112\n"}], "rsync": [{"stdout": RSYNC}] * 4})
    guest = ProgramGuest({"rsync": [{"stdout": RSYNC}] * 4}, timed={"stdout": RSYNC})
    measure(workload, trial_bench(guest, ProgramGuest(), programs), **given)
    return programs.ran[: programs.names.index("tee")]


def test_a_tree_is_unpacked_once() -> None:
    find, folder, unpacked, made = making("rsync-tree")
    assert find[0] == "find"
    assert folder == ["mkdir", "-p", "/tmp/virtoll-rsync-source/tree-small"]
    assert unpacked[-1] == "linux-source-6.1/lib"
    assert made == ["touch", "/tmp/virtoll-rsync-source/tree-small.made"]


def test_a_file_is_made_once_in_portions() -> None:
    steps = making("rsync-file", size_bytes="256MiB")
    assert [argv[0] for argv in steps] == ["find", "mkdir", "rm", "stat", "dd", "dd", "touch"]
    blocks = [int(word[6:]) for argv in steps for word in argv if word.startswith("count=")]
    assert sum(blocks) * 65536 == 256 * 2**20


def test_a_peer_without_a_disk_skips_the_trial() -> None:
    with refused("peer", "'peer_files'", error=GuestCannot):
        trial("from-guest", peer_files="disk")


def test_no_room_for_the_peers_files_is_reported_and_ends_no_run() -> None:
    messages: list[str] = []

    class Full(Lab):
        """A machine whose disk is full."""

        def data_volume(self, by: DataBy, size_bytes: int, promised_bytes: int = 0) -> LocalVolume:
            raise GuestError(f"/var/tmp has no room for {size_bytes} bytes as a {by} beside {promised_bytes}")

    class Kept(SilentProgress):
        """Keeps it."""

        def message(self, text: str) -> None:
            messages.append(text)

    # Private: the public way to it starts a peer in a lab.
    assert session._peer_volume(Full("lab"), 4096, Kept()) is None
    (message,) = messages
    assert_facts(message, "peer", "/var/tmp", "4096 bytes", "folder")


@pytest.mark.parametrize(
    ("given", "key"),
    [({"client": "peer"}, "client"), ({"peer_files": "disk"}, "peer_files"), ({"files": "disk"}, "files")],
)
def test_what_is_the_peers_is_refused_between_guests(given: dict[str, str], key: str) -> None:
    for name in ("rsync-file", "rsync-tree"):
        with pytest.raises(ValueError, match="'between: peer'") as raised:
            WORKLOADS[name].with_parameters({"between": "guests", **given})
        assert_facts(str(raised.value), key)


@pytest.mark.parametrize(
    ("received", "differing", "wrong"),
    [
        (RSYNC.replace("reg: 24", "reg: 23"), "", "23 files"),
        (RSYNC.replace("501,017", "501,016"), "", "501016 bytes"),
        (RSYNC, ">fcs....... a\n", 1),
    ],
)
def test_files_that_are_missing_shorter_or_others_are_a_problem(received: str, differing: str, wrong: str) -> None:
    measured, _, _ = trial("to-guest", received, differing)
    assert measured.check is not None
    assert not measured.check.ok
    assert_problem(measured, wrong, "24 files", "501017 bytes")
