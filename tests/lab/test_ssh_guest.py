"""The platform ``ssh``: a machine that somebody else made is the guest, by the real SSH, and left as it was found."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support import experiments
from tests.support.commands import DEADLINE_SECONDS
from tests.support.facts import assert_facts, missing_facts, refused
from tests.support.guests import HELD_UP, right_or_disturbed
from tests.support.lab_runs import text_of_testbed
from tests.support.machine import await_state, poll_until_empty
from tests.support.ssh_hosts import SshHosts, ip, ssh_hosts

from virtoll.errors import GuestError, UsageError
from virtoll.experiment.parse import load_experiment
from virtoll.lab.inside import wait_until
from virtoll.lab.network import plan_links
from virtoll.pipeline.preview import catalogue
from virtoll.platforms.ssh.driver import SshParameters, check_before
from virtoll.platforms.ssh.nics import Run, find_nics
from virtoll.stats.guests import forwarded_frames

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(1800)]
NICS = 5  # two sources', two sinks', and the timekeeper's; most tests have one of each
NEAR, FAR = [f"sgnear{number}" for number in (0, 1, 2)], [f"sgfar{number}" for number in (0, 1, 2)]
ALL_NEAR, ALL_FAR = ([f"{name}{number}" for number in range(NICS)] for name in ("sgnear", "sgfar"))
TESTBED: dict[str, Any] = {
    "generator": {"host": "local", "interfaces": NEAR[:1]},
    "sink": {"host": "local", "interfaces": NEAR[1:2]},
    "timekeeper": {"host": "local", "interfaces": NEAR[2:]},
}
MAC = "02:00:00:00:07:07"
FORWARDING = "/proc/sys/net/ipv4/conf"
FORWARD = {
    "workload": "forward",
    "frame_size_bytes": 500,
    "backend": "af-packet",  # each further one is calibrated too
    "rate_factor": 64,
    "first_rate_frames_per_second": 1000,
    "point_milliseconds": 200,
    "cpu_milliseconds": 0,
}


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshHosts]:
    with ssh_hosts(tmp_path_factory.mktemp("guests"), ("box",)) as made:
        yield made


@pytest.fixture
def wired(hosts: SshHosts) -> Iterator[SshHosts]:
    """The guest's NICs, each at a switch with one of this machine's: so the guest's stay when a run's are gone."""
    hosts.wire([(f"sgport{number}", "box", far) for number, far in enumerate(ALL_FAR)])
    for number, near in enumerate(ALL_NEAR):
        ip(hosts.launcher, "link", "add", f"sgswitch{number}", "type", "bridge")
        ip(hosts.launcher, "link", "add", near, "type", "veth", "peer", "name", f"sgwire{number}")
        for port in (f"sgport{number}", f"sgwire{number}"):
            ip(hosts.launcher, "link", "set", port, "master", f"sgswitch{number}", "up")
        ip(hosts.launcher, "link", "set", f"sgswitch{number}", "up")
    ip(hosts.hosts["box"], "link", "set", FAR[1], "mtu", "1400", "up")
    inside(hosts, "sh", "-c", f"echo 0 > {FORWARDING}/all/forwarding; echo 0 > {FORWARDING}/{FAR[0]}/forwarding")
    yield hosts
    for number in range(NICS):
        for link in (f"sgport{number}", f"sgwire{number}", f"sgswitch{number}"):
            with contextlib.suppress(subprocess.CalledProcessError):  # a run's wire is gone with its lab
                ip(hosts.launcher, "link", "del", link)


def experiment(folder: Path, **changed: Any) -> Path:
    """The guest as router and as computer; ``destination``, ``interfaces`` and all else may be replaced."""
    entry: dict[str, Any] = {
        "platform": "ssh",
        "label": "vm",
        "destination": changed.pop("destination", "box"),
        "interfaces": changed.pop("interfaces", FAR),
    }
    right = {
        "platforms": [{key: value for key, value in entry.items() if value is not None}],
        "baseline": "vm",
        "blocks": 1,
        "testbed": TESTBED,
        "workloads": [FORWARD, {"workload": "superpi", "digits": 24_000}],
    }
    return experiments.write(folder, **{**right, **changed})


def inside(hosts: SshHosts, *argv: str) -> str:
    """What a program says in the guest's network."""
    enter = ["nsenter", f"--target={hosts.hosts['box']}", "--net", "--", *argv]
    return subprocess.run(enter, capture_output=True, text=True, check=True).stdout


def state(hosts: SshHosts) -> dict[str, Any]:
    """All that a run could have changed on the guest: settings of each NIC, switches, routes, programs, files."""
    links = [
        (one["ifname"], one["mtu"], "UP" in one["flags"], [o["local"] for o in one["addr_info"] if "." in o["local"]])
        for one in json.loads(inside(hosts, "ip", "-json", "address"))
    ]
    return {
        "links": links,
        "switches": inside(hosts, "sh", "-c", "cat /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv4/conf/*/forwarding"),
        "routes": inside(hosts, "ip", "route"),
        "neighbours": inside(hosts, "ip", "neighbour", "show", "nud", "permanent"),
        "left": hosts.left("box"),
    }


def assert_as_before(hosts: SshHosts, before: dict[str, Any]) -> None:
    """The connection's end is noticed over there, and all is put back."""

    def changed() -> list[str]:
        return [f"{what}: {now}" for what, now in state(hosts).items() if now != before[what]]

    left, _ = poll_until_empty(changed)
    assert left == []


def test_a_found_guest_forwards_and_computes_and_is_left_as_it_was(wired: SshHosts, tmp_path: Path) -> None:
    """Each source has a NIC of its own; NICs are in the order of those that face them: sources', sinks', timekeeper's.

    All are put back.
    """
    before = state(wired)
    assert (FAR[1], 1400, True, []) in before["links"]
    assert (FAR[0], 1500, False, []) in before["links"]
    testbed = {
        role: {"host": "local", "interfaces": names}
        for role, names in (("generator", ALL_NEAR[:2]), ("sink", ALL_NEAR[2:4]), ("timekeeper", ALL_NEAR[4:]))
    }
    workloads = [{**FORWARD, "sources": 2, "egress": "each"}, {"workload": "superpi", "digits": 24_000}]
    file = experiment(tmp_path, interfaces=ALL_FAR, testbed=testbed, workloads=workloads)
    folder = wired.measure(file)
    forward, superpi = folder.trials()
    assert [one.workload for one in (forward, superpi)] == ["forward", "superpi"]
    assert [one.reason for one in (forward, superpi) if not right_or_disturbed(one)] == []
    assert forward.points
    assert forwarded_frames(forward) > 0
    for point in forward.points:
        guests = {(hop.source, hop.role): hop for hop in point.hops or () if hop.where == "guest"}
        assert {key: hop.interface for key, hop in guests.items()} == {
            (0, "guest-in"): ALL_FAR[0],
            (1, "guest-in"): ALL_FAR[1],
            (0, "exit"): ALL_FAR[2],
            (1, "exit"): ALL_FAR[3],
        }
        # On one CPU a source may have had none of it.
        offered = {one.source: one.offered_frames for one in point.sources}
        for one in point.sink.per_source:
            assert one.forwarded_frames or not offered[one.source]
            entered = guests[one.source, "guest-in"]
            assert entered.before
            assert entered.after
            assert entered.after["rx_packets"] - entered.before["rx_packets"] >= one.forwarded_frames
    assert superpi.clock is not None
    assert superpi.clock.method == "icmp"
    (boot,) = folder.boots()
    assert boot.fatal == ()
    assert any(not missing_facts(text, "memory", "256 MiB") for text in boot.mismatches)
    (entry,) = folder.manifest.platforms
    assert (entry.host, entry.caveat) == ("ssh box", None)
    assert_facts(text_of_testbed(folder), *ALL_NEAR[:4], "on this machine")
    assert_as_before(wired, before)


def is_router(hosts: SshHosts) -> bool:
    """Whether it has the route to the sink, and forwards what comes in by the generator's NIC and nothing else."""
    files = " ".join(f"{FORWARDING}/{name}/forwarding" for name in (FAR[0], FAR[1], "all"))
    *switches, routes = inside(hosts, "sh", "-c", f"cat {files}; ip route").split("\n", 3)
    return switches == ["1", "0", "0"] and "10.64.4.0/24" in routes


def test_a_killed_run_leaves_nothing_in_the_guest(wired: SshHosts, tmp_path: Path) -> None:
    before, into = state(wired), tmp_path / "run"
    file = experiment(tmp_path, blocks=30, workloads=[{"workload": "forkwait", "processes": 2_000}])
    process = wired.start("run", file, "--into", into, variables={"VIRTOLL_RUNS": str(tmp_path)})
    try:
        trials = into / "trials.jsonl"
        wait_until(
            lambda: process.poll() is not None or (trials.exists() and trials.stat().st_size > 0),
            DEADLINE_SECONDS,
            "a trial",
        )
        # Between two blocks it is as it was found; in a block its first NIC alone forwards.
        await_state(lambda: process.poll() is not None or is_router(wired), "a guest that is up", DEADLINE_SECONDS)
        assert process.poll() is None, process.communicate()
    finally:
        process.kill()
        process.communicate()
    assert_as_before(wired, before)


@pytest.mark.extended
def test_without_nics_it_computes_and_says_what_it_cannot(hosts: SshHosts, tmp_path: Path) -> None:
    before = state(hosts)
    file = experiment(
        tmp_path,
        interfaces=None,
        testbed=None,
        workloads=[FORWARD, {"workload": "superpi", "digits": 2000}, {"workload": "forkwait", "processes": 20}],
    )
    trials = {one.workload: one for one in hosts.measure(file).trials()}
    assert trials["forward"].status == "skipped"
    assert_facts(str(trials["forward"].reason), "NIC")
    for name in ("superpi", "forkwait"):
        clock, reason = trials[name].clock, str(trials[name].reason)
        # A busy host may leave the channel unread for longer than so short a job takes.
        assert trials[name].status == "ok" or HELD_UP in reason
        assert clock is not None
        assert (clock.method, clock.marks is not None) == ("channel", True)
    assert_as_before(hosts, before)


@pytest.mark.parametrize(
    ("changed", "facts"),
    [
        ({"destination": "box-stranger"}, ("ssh box-stranger", "Permission denied")),
        ({"interfaces": [*FAR[:2], "eth9"]}, ("interfaces", "ssh box", "eth9", FAR[0])),
        ({"interfaces": FAR[:2]}, ("interfaces", "ssh box", 2, 3)),
    ],
)
def test_bad_input_is_refused_in_one_line_and_starts_nothing(
    wired: SshHosts, tmp_path: Path, changed: dict[str, Any], facts: tuple[str | int, ...]
) -> None:
    before = state(wired)
    file = experiment(tmp_path, **changed)
    wired.refuses(file, *facts)
    assert_as_before(wired, before)


@pytest.mark.parametrize(
    ("settings", "wanted", "facts"),
    [
        ([], ["way"], ("way", "SSH")),
        ([], ["lo"], ("lo", "Ethernet")),
        ([], [FAR[0], FAR[0]], (FAR[0], "twice")),
        ([], ["02:00:00:00:00:99"], ("02:00:00:00:00:99",)),
        ([f"link set {FAR[0]} up", f"route add default dev {FAR[0]}"], [FAR[0]], (FAR[0], "default route")),
        ([f"address add 10.64.0.77/16 dev {FAR[1]}"], [FAR[0]], ("10.64.0.0/16", FAR[1])),
        (
            [f"link set {FAR[2]} address {MAC}", f"link add sgbridge address {MAC} type bridge"],
            [FAR[2]],
            (FAR[2], "sgbridge", "MAC"),
        ),
        (["link add sgbridge type bridge", f"link set {FAR[2]} master sgbridge"], [FAR[2]], (FAR[2], "sgbridge")),
    ],
)
def test_nics_that_are_not_for_us_are_refused(
    wired: SshHosts, settings: list[str], wanted: list[str], facts: tuple[str, ...]
) -> None:
    for line in settings:
        ip(wired.hosts["box"], *line.split())
    try:
        with refused("the guest", *facts, error=GuestError):
            find_nics(in_the_guest(wired), "the guest", wanted, plan_links(0))
    finally:
        with contextlib.suppress(subprocess.CalledProcessError):
            ip(wired.hosts["box"], "link", "del", "sgbridge")


def test_nics_are_found_by_name_and_by_address_and_only_by_root(wired: SshHosts) -> None:
    run = in_the_guest(wired)
    (by_name,) = find_nics(run, "the guest", FAR[1:2], plan_links(0))
    (by_address,) = find_nics(run, "the guest", [by_name.mac.upper()], plan_links(0))
    assert by_name == by_address
    assert (by_name.name, by_name.mtu_bytes, by_name.up) == (FAR[1], 1400, True)
    with refused("the guest", "root", "interfaces", error=GuestError):
        find_nics(lambda argv: "1000\n" if argv[0] == "id" else run(argv), "the guest", FAR[1:2], plan_links(0))


def in_the_guest(hosts: SshHosts) -> Run:
    """Runs as a session of the guest's SSH server does."""
    session = "10.99.0.1 40000 10.99.0.2 22"
    return lambda argv: session if argv[0] == "printenv" else inside(hosts, *argv)


@pytest.mark.parametrize(
    ("changed", "facts"),
    [
        ({"destination": None}, ("platforms[0].destination",)),
        ({"destination": "-oProxyCommand=x"}, ("platforms[0].destination",)),
        ({"testbed": None}, ("interfaces", "testbed", "generator", "sink", "timekeeper")),
        ({"guest": {"cpu_quota": 0.5}}, ("guest.cpu_quota",)),
        ({"platforms": ["native"], "baseline": "native"}, ("testbed.hypervisor",)),
        (
            {"testbed": {**TESTBED, "hypervisor": {"host": {"ssh": "other"}, "interfaces": FAR}}},
            ("'host'", "testbed.hypervisor"),
        ),
        ({"testbed": {**TESTBED, "hypervisor": {"host": "guests", "interfaces": FAR}}}, ("hypervisor",)),
    ],
)
def test_what_does_not_go_together_is_refused_when_it_is_read(
    tmp_path: Path, changed: dict[str, Any], facts: tuple[str, ...]
) -> None:
    file = experiment(tmp_path, **changed)
    with pytest.raises(UsageError) as raised:
        load_experiment(file, catalogue())
    assert_facts(str(raised.value), *facts)


def test_a_guest_is_one_entry() -> None:
    """Refused before anything is reached: the second would share the first one's NICs and memory."""
    with refused("no-such-guest", "twice", error=UsageError):
        check_before([SshParameters(destination="no-such-guest")] * 2, None)
