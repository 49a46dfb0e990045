"""OpenVZ's and Linux-VServer's drivers against programs that take the documented commands, and what they refuse.

Behind the programs is a bare namespace container, so the agent really runs and frames really pass; nothing here was
ever seen on the real platforms.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.support import container_mocks, guests, machine, mocked_containers, openvz_mock
from tests.support.facts import Command, assert_facts, refused
from tests.support.guest_kinds import ADDED, Kind
from tests.support.guests import Connected
from tests.support.present import present
from tests.support.tools_image import WORD

from virtoll.agent.operations.session import ClocksRequest
from virtoll.errors import GuestDied, GuestError
from virtoll.image import GuestImage
from virtoll.lab.data import LocalVolume
from virtoll.lab.inside import end_process, wait_until
from virtoll.pipeline.session import RunSession
from virtoll.platforms import openvz, promises, vserver
from virtoll.platforms.exec_guest import EnteredMachine
from virtoll.platforms.host import Site
from virtoll.platforms.managed_guest import ManagedMachine
from virtoll.platforms.process_guest import GuestRemains

INSIDE_LAB = True
pytestmark = [pytest.mark.lab, pytest.mark.root]
KINDS = ("openvz-mock", "openvz-ubc-mock", "prlctl-mock", "vserver-mock")
ROOM_BYTES = 16 * 2**20
THEIRS = "6a1f4f0e-2b7d-4c0f-9f53-0d8a5c1e7b42"
"""The number of a container as Virtuozzo gives it."""


@dataclass
class Products:
    """``state`` holds the containers and the calls; ``record`` what is to be undone should this process die."""

    state: Path
    record: Path
    area: Path
    vservers: Path

    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in (self.state / "calls.jsonl").read_text().splitlines()]

    def containers(self) -> list[str]:
        return [json.loads(path.read_text())["name"] for path in self.state.glob("*.json")]

    def firsts(self) -> set[int]:
        """The first process of each container."""
        return {json.loads(path.read_text())["pid"] for path in self.state.glob("*.json")}

    def left(self) -> list[str]:
        """What of a guest is there yet: containers, templates, roots, files of their settings, and mounts."""
        folders = ("template/cache", "private", "root")
        places = (*(self.area / one for one in folders), self.vservers, self.state / "conf", self.state / "etc")
        found = [str(path) for one in places if one.is_dir() for path in one.iterdir()]
        return [*self.containers(), *found, *(one for one in openvz_mock.mount_points() if str(self.area) in one)]

    def clear_up(self) -> None:
        """What the janitor does."""
        for argv in guests.promised(self.record):
            subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False)

    def states(self) -> set[str]:
        """The states of the processes that are in the containers, by the kernel."""
        spaces, found = {pid_namespace(pid) for pid in self.firsts()}, set()
        for one in machine.processes():
            if pid_namespace(one.pid) in spaces:
                with contextlib.suppress(OSError):
                    found.add(Path(f"/proc/{one.pid}/stat").read_text().rpartition(")")[2].split()[0])
        return found


def pid_namespace(pid: int) -> Path | None:
    """By its name; None when the process has ended."""
    try:
        return Path(f"/proc/{pid}/ns/pid").readlink()
    except OSError:
        return None


@pytest.fixture
def products(site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Products]:
    made = Products(tmp_path / "state", tmp_path / "record", tmp_path / "vz", tmp_path / "vservers")
    for folder in (made.state, made.record, made.area / "template/cache", made.state / "etc", made.vservers):
        folder.mkdir(parents=True)
    container_mocks.install(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("MOCK_STATE", str(made.state))
    monkeypatch.setenv("MOCK_AGENT", str(site.image.agent))
    monkeypatch.setenv("MOCK_BUSYBOX", str(site.image.root / "bin/busybox"))
    monkeypatch.setattr(openvz, "KERNEL", str(tmp_path))
    monkeypatch.setattr(vserver, "KERNEL", str(tmp_path))
    vz = {"area": str(made.area), "configuration": str(made.state / "conf")}
    settings = {"area": str(made.vservers), "configuration": str(made.state / "etc")}
    for name, kind in {
        "openvz-mock": Kind("openvz", vz),
        "openvz-ubc-mock": Kind("openvz", {**vz, "memory": "ubc", "cpu_units": 500}),
        "prlctl-mock": Kind("openvz", {**vz, "tool": "prlctl", "ostemplate": "debian-12"}),
        "vserver-mock": Kind("vserver", settings),
    }.items():
        monkeypatch.setitem(ADDED, name, kind)
    with guests.lab_record(made.record):
        yield made


def on_image(image: GuestImage, session: RunSession) -> RunSession:
    """The lab's run session on another image."""
    return replace(session, site=replace(session.site, image=image), sites=None)


def test_by_prlctl_guests_have_the_smallest_image_beside_others_with_tools(
    run_session: RunSession, products: Products, with_tools: Site
) -> None:
    """The image goes through a pipe, and one with tools is too large for that."""
    session = on_image(with_tools.image, run_session)
    assert session.site_of(guests.choice("runc")).image is with_tools.image
    assert session.site_of(guests.choice("prlctl-mock")).image.name == "tiny"
    live = guests.start("prlctl-mock", session)
    assert guests.facts(live).agent_sha256 == with_tools.image.agent_sha256
    assert products.states()
    live.held.stop()


@pytest.mark.parametrize("kind", ["openvz-mock", "vserver-mock"])
def test_a_program_of_the_image_with_tools_writes_to_the_hosts_folder(
    run_session: RunSession, products: Products, with_tools: Site, kind: str
) -> None:
    live = guests.start(kind, on_image(with_tools.image, run_session), data_bytes=ROOM_BYTES)
    place = live.emptied().data.path
    guests.output_of(live.bench.guest, "/usr/bin/busybox", "dd", f"if={WORD}", f"of={place}/copy", "conv=fsync")
    folder = present(present(live.data).volume.folder)
    assert (folder / "copy").read_text() == "from word\n"
    live.held.stop()
    assert products.left() == []
    assert not folder.exists()


def write(live: Connected, path: str, *options: str) -> None:
    """Write four kilobytes to a file in the guest."""
    guests.output_of(live.bench.guest, "/bin/dd", "if=/dev/urandom", f"of={path}", "bs=1024", "count=4", *options)


@pytest.mark.parametrize("kind", ["openvz-mock", "prlctl-mock", "vserver-mock"])
def test_nothing_is_left_when_the_controller_dies(run_session: RunSession, products: Products, kind: str) -> None:
    """The janitor runs what was promised, newest first; the connection into the guest has ended by then."""
    live = guests.start(kind, run_session, data_bytes=ROOM_BYTES)
    assert isinstance(live.held, EnteredMachine)
    write(live, f"{live.emptied().data.path}/file")
    assert products.left()
    end_process(present(live.held.process))
    products.clear_up()
    assert products.left() == []
    live.held.stop()


@pytest.mark.parametrize(
    ("kind", "refusal"),
    [
        ("openvz-mock", "stop 33 Unable to stop CT"),
        ("openvz-mock", "destroy 52 Error deleting CT private area"),
        ("prlctl-mock", "delete 255 Failed to remove it"),
        ("vserver-mock", "delete 1 Device or resource busy"),
    ],
)
def test_a_container_that_stays_is_named_and_stays_promised(
    products: Products, site: Site, monkeypatch: pytest.MonkeyPatch, kind: str, refusal: str
) -> None:
    guest = guests.driver(kind).start(guests.request(kind), site)
    promised, (name,) = guests.promised(products.record), products.containers()
    monkeypatch.setattr(promises, "END_SECONDS", 0.0)
    monkeypatch.setenv("MOCK_REFUSES", refusal)
    product = "vserver" if kind == "vserver-mock" else "container"
    with refused(f"{product} {name}", "0 s", Command(refusal.split(" ", 2)[2]), error=GuestRemains):
        guest.stop()
    assert products.containers() == [name]
    assert guests.promised(products.record) == promised
    monkeypatch.delenv("MOCK_REFUSES")
    products.clear_up()
    assert products.left() == []


@pytest.mark.parametrize("kind", ["openvz-mock", "prlctl-mock"])
def test_a_failed_start_has_its_reason_next_to_what_remains(
    products: Products, site: Site, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(promises, "END_SECONDS", 0.0)
    monkeypatch.setenv("MOCK_REFUSES", "start 6 Not enough\ndestroy 52 Undestroyed\ndelete 255 Undeleted")
    with refused(6, "Not enough", "container", "0 s", error=GuestRemains):
        guests.driver(kind).start(guests.request(kind), site)
    assert guests.promised(products.record)
    monkeypatch.delenv("MOCK_REFUSES")
    products.clear_up()
    assert products.left() == []


def test_a_container_has_the_size_and_devices_that_vzctl_documents(products: Products, site: Site) -> None:
    """An image has no devices: every other platform gives its guests a /dev."""
    guest = guests.driver("openvz-mock").start(guests.request("openvz-mock", cpu_quota=0.2), site)
    given = next(call for call in products.calls() if call[:2] == ["vzctl", "set"])
    size = dict(zip(given[3::2], given[4::2], strict=False))
    assert size["--ram"] == f"{guests.MEMORY_BYTES}b"
    assert (size["--swap"], size["--cpulimit"], size["--cpus"]) == ("0", "20", "1")
    assert given[-1] == "--save"
    (private,) = (products.area / "private").iterdir()
    numbers = {
        path.name: os.major(path.stat().st_rdev) for path in (private / "dev").iterdir() if path.is_char_device()
    }
    assert numbers == {"null": 1, "zero": 1, "full": 1, "random": 1, "urandom": 1, "tty": 5, "ptmx": 5}
    assert stat.S_IMODE((private / "sbin/init").stat().st_mode) == 0o755
    guest.stop()


@pytest.mark.parametrize(
    ("kind", "command", "left"),
    [("openvz-mock", "vzctl create 7001", ["7001.conf.destroyed"]), ("prlctl-mock", "prlctl create", [])],
)
def test_a_create_that_is_killed_leaves_at_most_its_settings(
    products: Products, site: Site, monkeypatch: pytest.MonkeyPatch, kind: str, command: str, left: list[str]
) -> None:
    """What is half made is promised to be removed already; vzctl keeps the settings of what it destroys."""
    monkeypatch.setenv("MOCK_DIES", "create")
    with refused(command, error=GuestError):
        guests.driver(kind).start(guests.request(kind), site)
    by_prlctl = [call[1] for call in products.calls() if call[0] == "prlctl"]
    assert by_prlctl == (["create", "stop", "delete"] if kind == "prlctl-mock" else [])
    assert [Path(one).name for one in products.left()] == left
    assert guests.promised(products.record) == []


def test_a_data_folder_that_cannot_be_mounted_ends_the_start(products: Products, site: Site) -> None:
    wanted = guests.request("openvz-mock")
    gone = LocalVolume(ROOM_BYTES, "ext4", products.area / "no such 'folder'")
    with refused("Error executing mount script", error=GuestError):
        guests.driver("openvz-mock").start(replace(wanted, data=gone), site)
    assert products.left() == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_whole_path_runs_by_the_documented_commands(run_session: RunSession, products: Products, kind: str) -> None:
    """From its start to its end; what is written in its data directory is on the host until then."""
    live = guests.start(kind, run_session, data_bytes=ROOM_BYTES)
    assert isinstance(live.held, ManagedMachine)
    guests.assert_forwards(live)
    _, timed = guests.timed_idle(live.bench.timekeeper)
    assert timed.problem is None
    assert timed.clock.method == "icmp"
    live.held.park()
    # A signal reaches a process when that is next on a CPU; before it does anything else.
    wait_until(lambda: products.states() == {"T"}, guests.HANG_SECONDS, "the stop of its processes")
    with refused("'clocks'", "0.1 s", error=GuestDied):
        live.held.agent.ask(ClocksRequest(), 0.1)
    live.held.resume()
    assert live.held.agent.ask(ClocksRequest(), guests.HANG_SECONDS).monotonic_ns
    folder, bench = present(present(live.data).volume.folder), live.emptied()
    write(live, f"{bench.data.path}/file", "conv=fsync")
    assert (folder / "file").stat().st_size == 4096
    write(live, "/tmp/file")
    assert bench.data_state(False)["files"] == 1
    live.emptied()
    assert list(folder.iterdir()) == []
    assert products.containers() == [guests.domain_of(live)]
    assert guests.promised(products.record), "what is to be undone should the controller die"
    live.held.stop()
    live.held.stop()
    assert products.containers() == []
    assert guests.promised(products.record) == []
    assert not machine.interfaces() & {link.port_interface for link in live.bench.network.links}
    assert products.left() == []
    assert not folder.exists()


@pytest.mark.parametrize("kind", ["openvz-mock", "vserver-mock"])
def test_a_guest_that_dies_is_noticed_and_cleared_away(run_session: RunSession, products: Products, kind: str) -> None:
    """OpenVZ's root is still mounted then, and ``stop`` does nothing."""
    live = guests.start(kind, run_session, data_bytes=ROOM_BYTES)
    (first,) = products.firsts()
    mocked_containers.end({"pid": first})
    guests.assert_found_dead(live)
    assert isinstance(live.held, EnteredMachine)
    assert set(live.held.evidence()) == {"console.txt", "exec.txt"}
    live.held.stop()
    assert products.left() == []


@pytest.mark.parametrize(
    ("refusal", "facts"),
    [
        ("create 44 Private area already exists in /vz/private/x", ("/vz/private/x",)),
        ("create 46 Unable to create directory: No space left on device", ("space",)),
        ("start 5 Invalid kernel, or some kernel modules are not loaded", ("OpenVZ kernel",)),
        ("start 12 Permission denied", ("root",)),
        ("exec3 31 Container is not running", ("Container is not running",)),
    ],
)
def test_a_refused_start_has_its_reason_and_leaves_nothing(
    products: Products, site: Site, monkeypatch: pytest.MonkeyPatch, refusal: str, facts: tuple[str, ...]
) -> None:
    monkeypatch.setenv("MOCK_REFUSES", refusal)
    wanted = guests.request("openvz-mock")
    with refused(*facts, error=GuestError):
        guests.driver("openvz-mock").start(wanted, site)
    assert products.containers() == []
    assert not machine.interfaces() & {link.port_interface for link in wanted.network.links}


def test_a_number_or_name_of_another_is_not_touched(products: Products, site: Site) -> None:
    container_mocks.put_container(products.state, 7001, "theirs")
    script = products.state / "conf/7001.mount"
    script.parent.mkdir()
    script.write_text("theirs")
    guests.driver("openvz-mock").start(guests.request("openvz-mock"), site).stop()
    assert products.containers() == ["theirs"]
    assert script.read_text() == "theirs"
    (products.state / "7001.json").unlink()
    for number, kind in enumerate(("openvz-mock", "vserver-mock"), 8001):
        wanted = guests.request(kind)
        name = f"{site.host.lab_id}-{wanted.name.replace('/', '-')}"
        container_mocks.put_container(products.state, number, name)
        (products.state / "etc" / name).mkdir(exist_ok=True)
        with refused(name, error=GuestError):
            guests.driver(kind).start(wanted, site)
        assert products.containers() == [name]
        (products.state / f"{number}.json").unlink()


def test_a_container_whose_number_is_a_uuid_is_not_touched(products: Products, site: Site) -> None:
    container_mocks.put_container(products.state, THEIRS, "their own")
    assert openvz.containers(site.host) == {THEIRS: "their own"}
    assert guests.driver("openvz-mock").probe(site).available
    guests.driver("openvz-mock").start(guests.request("openvz-mock"), site).stop()
    assert openvz.remove_leftovers(site.host) == []
    assert products.containers() == ["their own"]


@pytest.mark.parametrize(("kind", "said"), [("openvz-mock", "vzctl version 4.8"), ("vserver-mock", "vserver 0.3")])
def test_the_probe_starts_a_container_and_says_what_is_missing(
    products: Products, site: Site, monkeypatch: pytest.MonkeyPatch, kind: str, said: str
) -> None:
    found = guests.driver(kind).probe(site)
    assert found.available, found
    assert (found.version or "").startswith(said)
    assert products.containers() == []
    for module in (openvz, vserver):
        monkeypatch.setattr(module, "KERNEL", "/proc/no-such-kernel")
    found = guests.driver(kind).probe(site)
    assert not found.available
    assert_facts(found.reason or "", "/proc/no-such-kernel")
    monkeypatch.setenv("PATH", str(products.area))
    found = guests.driver(kind).probe(site)
    assert_facts(found.reason or "", said.split(maxsplit=1)[0])
    assert found.version is None


def test_leftovers_of_dead_labs_alone_are_removed(products: Products, site: Site) -> None:
    names = ("virtoll-0123456789ab-runc-1", "virtoll-ba9876543210-a", "virtoll-mine", "database")
    for number, name in enumerate(names):
        container_mocks.put_container(products.state, 200 + number, name)
        (products.state / "conf").mkdir(exist_ok=True)
        (products.state / f"conf/{200 + number}.mount").touch()
    alive = frozenset({"virtoll-ba9876543210"})
    removed = openvz.remove_leftovers(site.host, alive, str(products.state / "conf"))
    assert removed == ["OpenVZ container 200 (virtoll-0123456789ab-runc-1)"]
    assert sorted(products.containers()) == sorted(names[1:])
    assert {path.stem for path in (products.state / "conf").iterdir()} == {"201", "202", "203"}


def test_leftovers_that_prlctl_made_are_removed(run_session: RunSession, products: Products) -> None:
    host = run_session.site.host
    container_mocks.put_container(products.state, THEIRS, "their own")
    assert guests.driver("prlctl-mock").probe(run_session.site).available
    live = guests.start("prlctl-mock", run_session)
    name = guests.domain_of(live)
    ((number, _),) = set(openvz.containers(host).items()) - {(THEIRS, "their own")}
    assert not number.isdigit()
    removed = openvz.remove_leftovers(host, configuration=str(products.state / "conf"))
    assert removed == [f"OpenVZ container {number} ({name})"]
    assert products.containers() == ["their own"]
    live.held.stop()
    assert openvz.remove_leftovers(host) == []
    assert products.containers() == ["their own"]
