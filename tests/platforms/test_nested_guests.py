"""Guests on another host, which is emulated for the test: the same contract, judged from outside that host.

What is timed here says nothing of the products: an emulated host is some fifty times slower than a real one.
All of it is for ``make test-nested``: what is asked of such a host is known by ``test_machines_elsewhere.py``,
``test_xen*.py`` and ``tests/nested``, which need none.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.support import guest_contract as contract
from tests.support import guests
from tests.support.guest_kinds import NESTED
from tests.support.guests import SECOND_NS, Connected
from tests.support.present import present

from virtoll import nested
from virtoll.agent.operations.session import ClocksRequest
from virtoll.agent.timekeeper import echo_request
from virtoll.errors import GuestDied, GuestError
from virtoll.experiment.topology import FUNCTIONAL_ONLY, HostAddress
from virtoll.lab.inside import wait_until
from virtoll.pipeline.session import RunSession
from virtoll.platforms.base import DATA_PATH
from virtoll.workloads.forward import Forward

INSIDE_LAB = True
DATA_BYTES = 2**20
LAB_SECONDS_PER_TEST = 40.0  # emulated hosts boot, and guests on them
pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.nested]


def needed_nested_hosts(items: list[pytest.Function]) -> list[nested.NestedKind]:
    """Those that the chosen tests boot, made outside: there is no way to a package mirror from inside."""
    hosts = {NESTED[str(item.callspec.params["live"])].host for item in items}
    return [kind for name, kind in nested.NESTED_HOSTS.items() if f"nested:{name}" in hosts]


@pytest.fixture(scope="module", params=NESTED)
def live(request: pytest.FixtureRequest, run_session: RunSession) -> Iterator[Connected]:
    """One guest for all tests of its kind, on a host that is awake; the last test ends it."""
    site = run_session.site_of(guests.choice(request.param))
    with site.awake():
        # How it is attached has no part in what its disk is.
        carries = guests.driver(request.param).data_by is not None and NESTED[request.param].attachment == "bridge"
        with guests.running(request.param, run_session, data_bytes=DATA_BYTES if carries else 0) as started:
            yield started


@contract.checks(contract.EVERYWHERE)
def test_each_guest_keeps_the_contract(live: Connected, check: contract.Check) -> None:
    check(live)


@contract.checks(contract.ONCE_A_KIND)
def test_each_kind_of_guest_keeps_the_contract(live: Connected, check: contract.Check) -> None:
    check(live)


@pytest.mark.parametrize("name", ["superpi", "masr", "forkwait"])
def test_the_jobs_give_right_answers(live: Connected, name: str) -> None:
    contract.computes_right_answers(live, name)


def test_commands_at_one_time_on_its_host_all_end_well(live: Connected) -> None:
    """Over one shared connection some 3 % of them are lost, and end with 255 and without a word."""
    with ThreadPoolExecutor(3) as pool:
        said = list(pool.map(lambda number: live.site.host.run(["echo", str(number)], "echo"), range(60)))
    assert said == [f"{number}\n" for number in range(60)]


def test_beside_programs_of_its_host_it_computes_right(live: Connected) -> None:
    """Digests of its files, while its host's CPUs turn from it to other programs and back: its registers are its own.

    With the fault of QEMU that this is about 39 of 40 were wrong (docs/decisions/emulator-of-nested-hosts.md).
    """
    busy = ["sh", "-c", "while :; do sha256sum /bin/busybox; done >/dev/null"]
    programs = [live.site.host.spawn(busy, "busy") for _ in range(2)]
    try:
        digests = {guests.facts(live).agent_sha256 for _ in range(4)}
        assert [program.poll() for program in programs] == [None, None], "they ran until the guest had answered"
    finally:
        for program in programs:
            program.kill()
            program.wait()
    assert digests == {live.site.image.agent_sha256}


def test_its_data_directory_is_a_disk_of_its_host(live: Connected) -> None:
    """Empty at a trial's start; what the guest writes and syncs is in the disk's file, and forgotten when asked."""
    if live.data is None:
        pytest.skip("it carries no data directory")
    bench = live.emptied()
    assert bench.data.file_system == "ext4"
    written = 300 * 1024
    into = f"of={DATA_PATH}/file"
    guests.output_of(live.held.agent, "/bin/dd", "if=/dev/zero", into, "bs=1024", "count=300", "conv=fsync")
    room, state = live.data.volume, bench.data_state(True)
    assert (state["files"], state["file_bytes"], state["resident_in_guest_bytes"]) == (1, written, 0)
    assert state["host_file_system"] == room.file_system == "tmpfs", "all of an emulated host is in its memory"
    assert state["reach"] == "the host's memory (tmpfs)"
    used = int(live.site.host.run(["stat", "-c", "%b", str(room.disk_path)], "look")) * 512
    assert used >= written
    assert live.emptied().data_state(False)["files"] == 0


def test_it_is_branded(live: Connected) -> None:
    assert HostAddress.model_validate(present(live.kind.host)).caveat == FUNCTIONAL_ONLY


def test_frames_are_counted_on_its_host(live: Connected) -> None:
    """The host's NICs and the guest's ports, read by an agent over there, count what was forwarded."""
    point = Forward(guests.few_frames(frame_size_bytes=500)).point(live.bench, guests.FEW_PER_SECOND).to_json()
    forwarded = point["sink"]["per_source"][0]["forwarded_frames"]
    assert forwarded == point["sources"][0]["offered_frames"] > 0
    there = [hop for hop in point["hops"] if hop["role"] in ("entry", "guest-in", "guest-out", "exit")]
    if live.kind.attachment == "passthrough":
        assert {hop["where"] for hop in there} == {"guest"}, "dom0 sees none of them"
    else:
        assert {hop["role"] for hop in there} == {"entry", "guest-in", "guest-out", "exit"}
    for hop in there:
        counter = "tx_packets" if hop["direction"] == "out" else "rx_packets"
        assert hop["after"][counter] - hop["before"].get(counter, 0) >= forwarded, hop["role"]


def test_parked_it_answers_nothing_and_then_goes_on(live: Connected) -> None:
    link = present(live.bench.network.marks)

    def answers() -> bool:
        return bool(live.held.peer.ask(echo_request(link, 1, SECOND_NS)).round_trip_ns)

    wait_until(answers, guests.HANG_SECONDS, "an echo of a guest that runs")
    live.held.park()
    assert not any(answers() for _ in range(3))
    live.held.resume()
    wait_until(answers, guests.HANG_SECONDS, "an echo after it was continued")
    assert live.held.agent.ask(ClocksRequest(), guests.HANG_SECONDS).monotonic_ns


def test_a_second_beside_it_forwards_and_killed_it_is_noticed(live: Connected, run_session: RunSession) -> None:
    contract.skip_variant(live)
    beside = guests.start(live.name, run_session)
    for one in (live, beside):
        guests.assert_forwards(one)
    guests.kill(beside)
    with pytest.raises(GuestDied):
        beside.held.agent.ask(ClocksRequest(), guests.HANG_SECONDS)
    with contextlib.suppress(GuestError):
        beside.held.resume()
    assert "console.txt" in beside.held.evidence()
    beside.held.stop()
    assert live.held.agent.ask(ClocksRequest(), guests.HANG_SECONDS).monotonic_ns


def test_stopped_it_leaves_nothing_on_its_host(live: Connected) -> None:
    ways = live.site.network.endpoint_interfaces(live.bench.network)
    names = {way.port for way in ways.values()}
    handed_in = live.bench.network.traffic if live.kind.attachment == "passthrough" else ()
    assert len(names) == len(live.bench.network.links) - len(handed_in)
    assert None not in names
    live.held.stop()
    live.held.stop()
    said = live.site.host.run(["ip", "-brief", "link"], "look")
    assert not names & {line.split()[0].split("@")[0] for line in said.splitlines() if line.strip()}
    assert live.site.network.endpoint_interfaces(live.bench.network) == {}
    assert "data" not in live.site.host.run(["ls", "-1", "/var/tmp"], "look"), "a disk's file"
    assert guests.left_of(live) == []
