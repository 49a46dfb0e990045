"""Another host, reached by a command prefix: here a shell of this machine stands for the connection.

What a connection must keep is the agent's: ``relay``, ``keep`` and ``undo`` are the real ones.
"""

from __future__ import annotations

import os
import pty
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.facts import refused
from tests.support.machine import END_SECONDS
from tests.support.repository import ROOT

from virtoll.errors import GuestError
from virtoll.hosts.remote_host import RemoteHost, open_remote
from virtoll.hosts.remote_network import RemoteNetwork, RemoteNic, _passing  # _passing: without a whole network
from virtoll.image.clone import built_agent
from virtoll.lab.commands import PIPED, ConnectedHost, Connection, ProcessOptions
from virtoll.lab.data import SPARED_BYTES, file_system_of
from virtoll.lab.enter import Enter
from virtoll.lab.inside import Lab, end_process, wait_until
from virtoll.lab.network import plan_links

MIB = 2**20
SHELL = Connection("a shell", ("bash", "-c"), quoted=True)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RemoteHost]:
    monkeypatch.setenv("LC_ALL", "C.UTF-8")  # programs complain in the language of who runs the tests
    lab = Lab(f"virtoll-{os.urandom(6).hex()}", scratch=tmp_path)
    with open_remote(SHELL, lab, built_agent()) as made:
        yield made
    assert not made.scratch.exists()


def processes(word: str) -> list[str]:
    """Command lines that hold a word."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(entry.read_text().replace("\0", " "))
        except OSError:
            continue
    return [line for line in found if word in line]


def test_arguments_arrive_as_they_are(host: RemoteHost) -> None:
    strange = ["a b", "$HOME", "'\"", "*", ";echo x"]
    assert host.run(["printf", "%s\n", *strange], "test") == "".join(f"{word}\n" for word in strange)
    assert host.run(["cat"], "test", stdin=b"given") == "given"


def test_the_first_guest_beside_has_the_nics_that_are_named_for_one(host: RemoteHost) -> None:
    """And no link that has none; the bridges of its NICs are others than the measured guests'."""

    def nics(first: int, *names: str) -> dict[str, RemoteNic]:
        numbered = enumerate(names, first)
        return {name: RemoteNic(f"ens{at}", f"eth{at}", f"02:00:00:00:00:{at:02x}") for at, name in numbered}

    network = RemoteNetwork(host, nics(0, "in0", "in1", "out", "marks"), os.getpid(), nics(4, "in0", "out"))
    planned = plan_links(3, 2)
    measured, beside = network.reach(planned), network.reach(planned, neighbour=1)
    assert [(one.name, one.trunk, one.peer_interface) for one in beside.links] == [
        ("in0", "ens4", "eth4"),
        ("out", "ens5", "eth5"),
    ]
    assert {one.bridge for one in beside.links}.isdisjoint(one.bridge for one in measured.links)
    assert network.are_of_neighbour(beside)
    assert not network.are_of_neighbour(measured)
    assert network.reach(planned, neighbour=2).links == ()


@pytest.mark.root
def test_an_interface_without_carrier_detection_passes_frames_once_up() -> None:
    """As the loopback's; one without a carrier does not."""
    script = 'ip link add v0 up type veth peer name v1; ip link set lo "$0"; exec "$@"'
    namespace = ("unshare", "--net", "--", "sh", "-c", script)
    # Without the private function this would take a whole run over such a NIC.
    assert _passing(ConnectedHost(Connection("a namespace", (*namespace, "up")))) == {"lo"}
    assert _passing(ConnectedHost(Connection("a namespace", (*namespace, "down")))) == set()


def test_a_failure_names_host_program_and_complaint(host: RemoteHost) -> None:
    with refused("a shell", "ls /nowhere", 2, "No such file", error=GuestError):
        host.run(["ls", "/nowhere"], "test")
    with refused("no-such-program", "not found", "a shell", "install", error=GuestError):
        host.run(["no-such-program"], "test")
    with refused("sleep 5", "0.2 s", error=GuestError):
        host.run(["sleep", "5"], "test", deadline_seconds=0.2)


def test_what_is_of_this_machine_is_refused(host: RemoteHost) -> None:
    with refused("ls", "cgroups", "namespaces", "a shell", error=GuestError):
        host.spawn(["ls"], "test", ProcessOptions(enter=Enter(namespaces=("mount",))))


def test_a_file_is_copied_once_for_its_content(host: RemoteHost, tmp_path: Path) -> None:
    content = os.urandom(3_000_000)
    file = tmp_path / "some file"
    file.write_bytes(content)
    there = host.put(file)
    assert host.read(there) == content
    other = tmp_path / "other"
    other.write_bytes(content)
    assert host.put(other) == there
    assert there.parent == host.scratch


def test_what_is_started_there_ends_with_the_process_here(host: RemoteHost) -> None:
    mark = f"mark{os.urandom(4).hex()}"
    argv = ["sh", "-c", f"trap '' TERM; sleep 300 & echo $0; wait; : {mark}", mark]
    process = host.spawn(argv, "test", ProcessOptions(stdout=subprocess.PIPE))
    assert process.stdout is not None
    assert process.stdout.readline().decode().strip() == mark
    assert processes(mark)
    end_process(process)
    wait_until(lambda: not processes(mark), END_SECONDS, "the end of the program there")


def test_its_input_output_and_exit_status_are_those_of_the_program(host: RemoteHost) -> None:
    process = host.spawn(["sh", "-c", "cat; exit 7"], "test", replace(PIPED, cpus=(0,)))
    data = os.urandom(1 << 20)
    said, _ = process.communicate(data)
    assert said == data
    assert process.returncode == 7


def test_a_socket_there_is_reached_once_it_is_there(host: RemoteHost) -> None:
    folder = host.guest_folder("one")
    connection = host.connect(folder / "socket", "a guest", END_SECONDS)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "socket"))
        listener.listen()
        served, _ = listener.accept()
    data = os.urandom(300_000)
    connection.sendall(data[:1000])
    assert served.recv(1000, socket.MSG_WAITALL) == data[:1000]
    served.sendall(data)
    assert connection.recv(len(data), socket.MSG_WAITALL) == data
    served.close()
    assert connection.recv(1) == b""
    connection.close()


def test_a_terminal_there_is_a_clean_byte_stream(host: RemoteHost) -> None:
    master, slave = pty.openpty()
    connection = host.connect(Path(os.ttyname(slave)), "a guest")
    every = bytes(range(256))
    connection.settimeout(END_SECONDS)
    # A guest's own end would wait for an answer; before, the terminal would still change what passes.
    wait_until(lambda: not termios.tcgetattr(slave)[3] & termios.ICANON, END_SECONDS, "a terminal that is raw")
    os.write(master, every)
    got = b""
    while len(got) < len(every):
        got += connection.recv(256)
    assert got == every
    connection.sendall(every)
    back = b""
    while len(back) < len(every):
        back += os.read(master, 256)
    assert back == every
    connection.close()
    os.close(slave)
    os.close(master)


def test_a_folder_for_files_there_is_looked_into_and_removed(host: RemoteHost) -> None:
    room = host.data_volume("folder", MIB)
    assert room.folder is not None
    assert room.disk_path is None
    assert room.place.stat().st_mode & 0o777 == 0o700, "nobody else is to look into it"
    assert room.file_system == file_system_of(room.folder)
    (room.folder / "deep").mkdir()
    (room.folder / "deep" / "file").write_bytes(b"x" * 12_345)
    assert room.resident() == 12_345
    assert room.evict() == (0 if room.on_disk else 12_345)
    room.remove()
    room.remove()
    assert not room.place.exists()


def test_a_disk_for_files_there_has_an_empty_file_system(host: RemoteHost) -> None:
    room, beside = (host.data_volume("disk", 4 * MIB) for _ in range(2))
    assert room.folder is None
    assert room.disk_path is not None
    assert room.disk_path != beside.disk_path
    said = subprocess.run(["dumpe2fs", "-h", str(room.disk_path)], capture_output=True, text=True, check=True).stdout
    free = next(int(line.split()[-1]) for line in said.splitlines() if line.startswith("Free blocks"))
    assert free * 4096 >= 4 * MIB
    if room.on_disk:
        assert room.evict() == 0


def test_files_there_are_gone_with_the_connection(tmp_path: Path) -> None:
    lab = Lab(f"virtoll-{os.urandom(6).hex()}", scratch=tmp_path)
    with open_remote(SHELL, lab, built_agent()) as host:
        rooms = [host.data_volume("folder", MIB), host.data_volume("disk", MIB)]
        assert all(room.place.is_dir() for room in rooms)
    assert not any(room.place.exists() for room in rooms)


def test_files_that_a_host_has_no_room_or_program_for(host: RemoteHost, monkeypatch: pytest.MonkeyPatch) -> None:
    with refused("a shell", "/var/tmp", f"{2**60 >> 20} MiB", f"{SPARED_BYTES >> 20} MiB", error=GuestError):
        host.data_volume("folder", 2**60)
    with refused("a shell", "/var/tmp", f"{(2**60 + MIB) >> 20} MiB", error=GuestError):
        host.data_volume("folder", MIB, promised_bytes=2**60)
    monkeypatch.setattr("virtoll.lab.data.MKE2FS", "no-such-program")
    with refused("data disk", "no-such-program", "a shell", "e2fsprogs", error=GuestError):
        host.data_volume("disk", MIB)
    assert not list(Path("/var/tmp").glob(f"{host.lab_id}*"))


def test_clean_ups_that_were_not_withdrawn_run_when_the_controller_dies(tmp_path: Path) -> None:
    """A controller that is killed: its connections end, and nothing else tells the other side."""
    program = f"""
import sys
from pathlib import Path
from virtoll.image.clone import built_agent
from virtoll.lab.commands import PIPED, ConnectedHost, Connection, ProcessOptions
from virtoll.lab.inside import Lab
from virtoll.hosts.remote_host import open_remote
lab = Lab("virtoll-{os.urandom(6).hex()}", scratch=Path({str(tmp_path)!r}))
with open_remote({SHELL!r}, lab, built_agent()) as host:
    for name in ("kept", "first", "second"):
        withdraw = host.guard(["sh", "-c", "echo " + name + " >> {tmp_path}/done"])
        if name == "kept":
            withdraw()
    print(host.scratch, flush=True)
    sys.stdin.read()
"""
    controller = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(["src", "."])},
    )
    assert controller.stdout is not None
    scratch = Path(controller.stdout.readline().decode().strip())
    assert scratch.is_dir()
    controller.send_signal(signal.SIGKILL)
    controller.wait()
    wait_until(lambda: not scratch.exists(), END_SECONDS, "the end of what was promised")
    assert (tmp_path / "done").read_text().split() == ["second", "first"]


def test_a_host_that_stands_still_is_noticed_and_a_lost_one_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A nested host may stand still for good. It costs what was asked of it, and not the controller that asked."""
    monkeypatch.setattr("virtoll.hosts.undo.RUN_SECONDS", 0.2)
    lab = Lab(f"virtoll-{os.urandom(6).hex()}", scratch=tmp_path)
    with open_remote(SHELL, lab, built_agent()) as host:
        withdraw = host.guard(["true"])
        assert host._undo is not None  # nobody else knows its process
        os.kill(host._undo.pid, signal.SIGSTOP)  # the shell has become the agent: it is the only program there
        with refused("a shell", "0.2 s", error=GuestError):
            withdraw()
        for late in (withdraw, lambda: host.guard(["true"])):
            with refused("a shell", "agent", error=GuestError, without=("0.2 s",)):
                late()
    host.run(["rm", "-rf", str(host.scratch)], "what a host that was lost has left")


def test_a_host_that_has_the_folder_already_is_left_alone(host: RemoteHost, tmp_path: Path) -> None:
    again = Lab(host.lab.lab_id, scratch=tmp_path)
    with refused("a shell", "File exists", error=GuestError), open_remote(SHELL, again, built_agent()):
        pass
    assert host.scratch.is_dir()
