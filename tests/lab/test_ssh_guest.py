"""The platform ``ssh``: a machine that somebody else made is the guest, by the real SSH, and is left as it was found."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.lab.test_far_hypervisor import left_there as programs_and_files
from tests.support import experiments
from tests.support.ssh_hosts import SshHosts, ip, ssh_hosts

from virtoll.lab.inside import wait_until
from virtoll.report import build_report
from virtoll.samples import RunFolder

pytestmark = [pytest.mark.lab, pytest.mark.root]
PAIRS = (("sgnear0", "box", "sgfar0"), ("sgnear1", "box", "sgfar1"), ("sgnear2", "box", "sgfar2"))
NEAR, FAR = [pair[0] for pair in PAIRS], [pair[2] for pair in PAIRS]
TESTBED: dict[str, Any] = {
    "generator": {"host": "local", "interfaces": NEAR[:1]},
    "sink": {"host": "local", "interfaces": NEAR[1:2]},
    "timekeeper": {"host": "local", "interfaces": NEAR[2:]},
}
FORWARD = {"workload": "forward", "frame_size_bytes": 500, "rate_factor": 8, "first_rate_frames_per_second": 1000,
           "point_milliseconds": 50}  # fmt: skip


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshHosts]:
    with ssh_hosts(tmp_path_factory.mktemp("guests"), ("box",)) as made:
        yield made


@pytest.fixture
def wired(hosts: SshHosts) -> Iterator[SshHosts]:
    """The guest's NICs, one switched on and with an MTU of its own already, faced by this machine's."""
    hosts.wire(PAIRS)
    ip(hosts.hosts["box"], "link", "set", FAR[1], "mtu", "1400", "up")
    yield hosts
    # A run's NICs that are no hardware are gone with its lab, one end with the other; those of bad input are not.
    said = subprocess.run(
        ["nsenter", f"--target={hosts.launcher}", "--net", "--", "ip", "-brief", "link"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    for near in NEAR:
        if near in said:
            ip(hosts.launcher, "link", "del", near)


def experiment(folder: Path, **changed: Any) -> Path:
    """The guest as router and as computer; ``destination``, ``interfaces`` and all else may be replaced."""
    entry: dict[str, Any] = {
        "platform": "ssh", "label": "vm",
        "destination": changed.pop("destination", "box"), "interfaces": changed.pop("interfaces", FAR),
    }  # fmt: skip
    right = {
        "platforms": [{key: value for key, value in entry.items() if value is not None}], "baseline": "vm",
        "blocks": 1, "testbed": TESTBED, "workloads": [FORWARD, {"workload": "superpi", "digits": 2000}],
    }  # fmt: skip
    return experiments.write(folder, **{**right, **changed})


def state(hosts: SshHosts) -> dict[str, str]:
    """All that a run could have changed on the guest: its own settings, programs and files."""
    pid = hosts.hosts["box"]

    def said(*argv: str) -> str:
        enter = ["nsenter", f"--target={pid}", "--net", "--", *argv]
        return subprocess.run(enter, capture_output=True, text=True, check=True).stdout

    links = said("ip", "-oneline", "address")
    return {
        "switches": said("sh", "-c", "cat /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv4/conf/*/forwarding"),
        "addresses": "\n".join(line for line in links.splitlines() if " inet " in line),
        "routes": said("ip", "route"),
        "neighbours": "\n".join(line for line in said("ip", "neighbour").splitlines() if "PERMANENT" in line),
        "left": str(programs_and_files(hosts)),
        "links": str(re.findall(r"\d+: ([\w]+).*?mtu (\d+).*?(UP|DOWN)?", said("ip", "-oneline", "link"))),
    }


class Nics:
    """The guest's NICs as long as they are there: of hardware they would be all the time.

    A veth goes with its other end, which goes with the lab; so what was put back on them is read by ``ip monitor``.
    """

    def __init__(self, hosts: SshHosts) -> None:
        enter = ["nsenter", f"--target={hosts.hosts['box']}", "--net", "--"]
        self._process = subprocess.Popen(
            [*enter, "ip", "-oneline", "monitor", "address", "neigh", "link"], stdout=subprocess.PIPE, text=True
        )

    def end(self) -> list[str]:
        self._process.terminate()
        return self._process.communicate(timeout=20)[0].splitlines()


def test_a_found_guest_forwards_and_computes_and_is_left_as_it_was(wired: SshHosts, tmp_path: Path) -> None:
    before = {key: value for key, value in state(wired).items() if key not in ("links", "switches")}
    forwarding = Path("/proc/sys/net/ipv4/ip_forward")
    watch = Nics(wired)
    code, complaint = wired.virtoll("run", experiment(tmp_path), "--into", tmp_path / "run", runs=tmp_path)
    events = watch.end()
    assert code == 0, complaint
    folder = RunFolder.open(tmp_path / "run")
    trials = folder.trials()
    assert [(one.workload, one.status, one.reason) for one in trials] == [
        ("forward", "ok", None), ("superpi", "ok", None),
    ]  # fmt: skip
    assert trials[0].points
    first = trials[0].points[0]
    assert first.sink.per_source[0].forwarded_frames > 0
    inside = {hop.role: hop for hop in first.hops or () if hop.where == "guest"}
    assert (inside["guest-in"].interface, inside["exit"].interface) == (FAR[0], FAR[1])
    entered = inside["guest-in"]
    assert entered.before
    assert entered.after
    assert entered.after["rx_packets"] - entered.before["rx_packets"] >= first.sink.per_source[0].forwarded_frames
    assert trials[1].clock is not None
    assert trials[1].clock.method == "icmp"
    (boot,) = folder.boots()
    assert boot.grave == ()
    assert any("as it was found" in text for text in boot.mismatches)
    (entry,) = folder.manifest.platforms
    assert (entry.host, entry.brand) == ("ssh box", None)
    text = build_report(folder.path).path.read_text(encoding="utf-8")
    assert "as it was found" in text
    assert "their NICs face the guests&#39; own" in text or "their NICs face the guests' own" in text
    for name in FAR:  # seen to be set, and seen to be taken away while the NIC was still there
        assert [line for line in events if re.search(rf"Deleted.*\b{name}\b.*inet 10\.", line)], (name, events)
    wait_until(lambda: programs_and_files(wired) == [], 20, "the end of what was there")
    after = state(wired)
    assert {key: after[key] for key in before} == before
    assert forwarding.read_text(encoding="ascii")


def test_a_killed_run_leaves_nothing_in_the_guest(wired: SshHosts, tmp_path: Path) -> None:
    into = tmp_path / "run"
    process = wired.start(
        "run", experiment(tmp_path, blocks=30), "--into", into, variables={"VIRTOLL_RUNS": str(tmp_path)}
    )
    try:
        trials = into / "trials.jsonl"
        wait_until(lambda: process.poll() is not None or (trials.exists() and trials.stat().st_size > 0), 90, "a trial")
        assert process.poll() is None, process.communicate()
        assert programs_and_files(wired)
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.communicate()
    wait_until(lambda: programs_and_files(wired) == [], 30, "the end of what was there")
    assert " 10.64." not in state(wired)["addresses"]


def test_without_nics_it_computes_and_says_what_it_cannot(hosts: SshHosts, tmp_path: Path) -> None:
    before = state(hosts)
    file = experiment(
        tmp_path, interfaces=None, testbed=None,
        workloads=[FORWARD, {"workload": "superpi", "digits": 2000}, {"workload": "forkwait", "count": 50}],
    )  # fmt: skip
    code, complaint = hosts.virtoll("run", file, "--into", tmp_path / "run", runs=tmp_path)
    assert code == 0, complaint
    trials = {one.workload: one for one in RunFolder.open(tmp_path / "run").trials()}
    assert trials["forward"].status == "skipped"
    assert "no NIC for traffic" in str(trials["forward"].reason)
    for name in ("superpi", "forkwait"):
        clock = trials[name].clock
        assert (trials[name].status, trials[name].reason) == ("ok", None)
        assert clock is not None
        assert (clock.method, clock.marks is not None) == ("channel", True)
    wait_until(lambda: programs_and_files(hosts) == [], 20, "the end of what was there")
    assert state(hosts) == before


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"destination": None}, r"platforms\[0\].destination': is missing"),
        ({"destination": "box-closed"}, "ssh box-closed cannot be reached: .*Connection refused"),
        ({"destination": "box-stranger"}, "ssh box-stranger cannot be reached: .*Permission denied"),
        ({"destination": "no-such-guest"}, "ssh no-such-guest cannot be reached: .*no-such-guest"),
        ({"interfaces": [*FAR[:2], "eth9"]}, "interfaces: ssh box has no interface eth9; it has: .*sgfar0"),
        ({"interfaces": FAR[:2]}, "interfaces: 2 of ssh box named and 3 needed"),
        ({"interfaces": [FAR[0], FAR[1], FAR[1]]}, "sgfar1 of ssh box is there twice"),
        ({"interfaces": [*FAR[:2], "way"]}, "interfaces: way of ssh box carries the SSH connection"),
        ({"interfaces": [*FAR[:2], "lo"]}, "interfaces: lo of ssh box is no Ethernet interface"),
        ({"testbed": None}, "interfaces': need NICs of this machine"),
        ({"guest": {"cpu_quota": 0.5}}, "guest.cpu_quota': no quota is set on a guest that is found"),
        ({"platforms": ["native"], "baseline": "native"}, "every guest must be one that is there already"),
    ],
)
def test_bad_input_is_one_sentence_and_starts_nothing(
    wired: SshHosts, tmp_path: Path, changed: dict[str, Any], words: str
) -> None:
    before = state(wired)
    file = experiment(tmp_path, **changed)
    code, complaint = wired.virtoll("run", file, "--into", tmp_path / "run", runs=tmp_path)
    assert code == 2, complaint
    assert len(complaint.strip().splitlines()) == 1
    assert re.search(words, complaint), complaint
    assert not (tmp_path / "run").exists()
    assert state(wired) == before
