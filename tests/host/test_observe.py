"""Each observer counts what is known to happen: a prime number of events, or the files of another host."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.facts import assert_facts
from tests.support.present import present
from tests.support.repository import RECORDED, ROOT

from virtoll.errors import GuestError
from virtoll.host.guest_usage import GuestProcesses, pids_of
from virtoll.host.observe import OBSERVERS, Observation, observing
from virtoll.host.observe.base import CounterObserver, Watched
from virtoll.host.observe.host_proc import handed_in, host_pid
from virtoll.host.observe.kernel_threads import KernelThreads
from virtoll.host.observe.kvm import KvmExits, exits
from virtoll.host.observe.machine import MachineCounters
from virtoll.host.observe.perf import OF_THREADS, PerfCounters
from virtoll.host.observe.platform_own import PlatformCounters
from virtoll.host.observe.processes import ProcessCounters
from virtoll.host.observe.throttling import Throttling, throttled
from virtoll.lab.inside import wait_until
from virtoll.platforms.qemu.driver import translations
from virtoll.runfolder.explain_records import COUNTERS, counter

FILES = RECORDED / "observers"
TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
CALLS, PAGES, WRITES, SWITCHES = 10_007, 2003, 499, 97  # primes
WORKER = """
import mmap, os, sys
quiet = os.open("/dev/null", os.O_WRONLY)
def calls():
    for _ in range(int(sys.argv[1])):
        os.getppid()
def pages():
    room = mmap.mmap(-1, int(sys.argv[2]) * mmap.PAGESIZE)
    try:
        room.madvise(mmap.MADV_NOHUGEPAGE)
    except OSError:
        pass  # this kernel has no huge pages
    for page in range(int(sys.argv[2])):
        room[page * mmap.PAGESIZE] = 1
def writes():
    for _ in range(int(sys.argv[3])):
        os.write(quiet, b"23 bytes, no more or less"[:23])
work = {"calls": calls, "pages": pages, "writes": writes, "nothing": lambda: None}
def turns():
    for _ in range(int(sys.argv[4])):
        os.read(0, 1)
        os.write(1, b".")
work["turns"] = turns
word = b""
while byte := os.read(0, 1):
    word += byte
    if byte == b"\\n":
        work[word.decode().strip()]()
        os.write(1, b"!")
        word = b""
"""


class Worker:
    """A process whose work is known, that waits to be told."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.processes = GuestProcesses(process.pid)

    def do(self, what: str) -> None:
        """It has done it when this returns."""
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(f"{what:8}\n".encode())  # read byte by byte: words of one length are equally many calls
        for _ in range(SWITCHES if what == "turns" else 0):
            stdin.write(b".")
            assert stdout.read(1) == b"."
        assert stdout.read(1) == b"!"
        stat = Path(f"/proc/{self.process.pid}/stat")  # its answer's call has returned, and the next read has begun
        wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "S", 60.0, "the worker's next read")


@contextmanager
def worker() -> Iterator[Worker]:
    numbers = map(str, (CALLS, PAGES, WRITES, SWITCHES))
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, *numbers], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )
    try:
        made = Worker(process)
        for work in ("calls", "pages", "writes", "nothing"):  # what comes with the first time is over
            made.do(work)
        yield made
    finally:
        process.kill()
        process.communicate()


def grown(observer: CounterObserver, made: Worker, what: str) -> dict[str, int]:
    """By how much each counter grows while that is done; observed counters alone."""
    before = observer.read()
    made.do(what)
    after = observer.read_again(before)
    return {name: after[name] - before[name] for name in after if name in before}


def test_every_counter_that_an_observer_names_has_its_words() -> None:
    for name, kind in OBSERVERS.items():
        assert kind.name == name
        for one in kind.counts:
            assert one in COUNTERS
    known = {one for kind in OBSERVERS.values() for one in kind.counts}
    assert known == set(COUNTERS)
    assert counter("softirqs:NET_RX")[0].words("NET_RX") == "softirqs NET_RX"


def test_every_counter_has_its_line_in_the_documentation() -> None:
    text = (ROOT / "docs" / "explain.md").read_text(encoding="utf-8")
    table = text[text.index("| counter | whose |") :].partition("\n\n")[0]
    words = {name: one.words("").strip().removeprefix("of ") for name, one in COUNTERS.items()}
    assert [name for name, said in words.items() if said not in table] == []


def test_faults_and_writes_of_a_process_are_counted_exactly() -> None:
    with worker() as made:
        observer = ProcessCounters(Watched((made.processes,)))
        assert observer.applies()
        assert observer.available() is None
        still, written = grown(observer, made, "nothing"), grown(observer, made, "writes")
        assert written["write_calls"] - still["write_calls"] == WRITES
        assert written["written_bytes"] - still["written_bytes"] == 23 * WRITES
        assert written["read_calls"] == still["read_calls"]
        paged = grown(observer, made, "pages")
        assert paged["minor_faults"] - still["minor_faults"] >= PAGES
        assert paged["cpu_ns"] > 0


def test_a_wait_is_a_voluntary_switch() -> None:
    """It waits for a byte so many times, each of which the other end sends when it has had the last one's answer."""
    with worker() as made:
        observer = ProcessCounters(Watched((made.processes,)))
        assert observer.available() is None
        turned = grown(observer, made, "turns")
        assert turned["read_calls"] >= SWITCHES
        assert turned["voluntary_switches"] > 0


@contextmanager
def scripted(script: str) -> Iterator[tuple[GuestProcesses, Callable[[], None]]]:
    """A Python that goes on from each ``turn()`` of its script when ``turn`` is called here next.

    The first call here returns when the script has come to its first turn, and so on.
    """
    begin = "import os, subprocess, sys\ndef turn():\n    print(flush=True)\n    sys.stdin.readline()\n"
    with subprocess.Popen(
        [sys.executable, "-c", begin + script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as process:
        said, told = present(process.stdout), present(process.stdin)
        begun: list[bool] = []

        def turn() -> None:
            if begun:
                told.write(b"\n")
            begun.append(True)
            assert said.readline() == b"\n"

        yield GuestProcesses(process.pid), turn
        process.kill()


def test_what_a_thread_that_ended_counted_is_missing_and_not_less() -> None:
    """The counts of a process that ended are its parent's; its switches are nobody's."""
    script = "child = subprocess.Popen(['sleep', '600'])\nturn()\nchild.kill()\nchild.wait()\nturn()\n"
    with scripted(script) as (parent, turn):
        turn()
        observer = ProcessCounters(Watched((parent,)))
        before = observer.read()
        assert len(pids_of(parent)) == 2
        turn()
        after = observer.read_again(before)
        assert "voluntary_switches" in before
        assert "voluntary_switches" not in after
        assert_facts(observer.uncounted["voluntary_switches"], "ended")
        assert after["minor_faults"] >= before["minor_faults"]


PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
"""There in a kernel that has perf: the events of its own software are root's then."""


def perf_of(made: Worker, tmp_path: Path) -> PerfCounters:
    return PerfCounters(Watched((made.processes,), scratch=tmp_path))


def test_system_calls_are_counted_exactly_or_it_says_why_not(tmp_path: Path) -> None:
    with worker() as made:
        observer = perf_of(made, tmp_path)
        assert observer.available() is None
        try:
            still, called = grown(observer, made, "nothing"), grown(observer, made, "calls")
        finally:
            observer.close()
        for name in OF_THREADS:
            assert (name in called) != (name in observer.uncounted), name
        if "system_calls" in called:
            assert called["system_calls"] - still["system_calls"] == CALLS
        else:
            reason = observer.uncounted["system_calls"]
            assert any(name in reason for name in ("tracefs", "perf_event_open", "tracepoint"))
        if os.geteuid() == 0 and PARANOID.exists():
            assert {"context_switches", "migrations"} <= called.keys(), observer.uncounted
        if "context_switches" in called:
            assert called["context_switches"] >= 1, "it waited for the word"


def test_what_children_that_ended_did_is_in_the_sum(tmp_path: Path) -> None:
    """The events are inherited, so that a job of many short processes is counted whole."""
    script = "while True:\n for _ in range(23):\n  pid = os.fork()\n  if not pid:\n"
    script += "   [os.getppid() for _ in range(101)]; os._exit(0)\n  os.waitpid(pid, 0)\n turn()\n"
    with scripted(script) as (parent, turn):
        turn()
        observer = PerfCounters(Watched((parent,), scratch=tmp_path))
        assert observer.available() is None
        before = observer.read()
        turn()
        after = observer.read_again(before)
        observer.close()
        if "system_calls" in after:
            assert after["system_calls"] - before["system_calls"] >= 23 * (101 + 3)


def test_softirqs_interrupts_and_times_are_those_of_the_guests_cpus(tmp_path: Path) -> None:
    shutil.copytree(FILES / "proc", tmp_path / "proc")
    watched = Watched((GuestProcesses(1),), cpus=(0, 2), root=tmp_path)
    found = MachineCounters(watched).read()
    assert found == {
        "softirqs:HI": 4,
        "softirqs:TIMER": 40,
        "softirqs:NET_RX": 400,
        "interrupts:acpi": 4,
        "interrupts:virtio1-input.0": 40,
        "interrupts:Non-maskable": 0,
        "interrupts:Local timer": 4000,
        "interrupts:Rescheduling": 400,
        "interrupt_ns": 40 * TICK_NS,
        "softirq_ns": 60 * TICK_NS,
        "steal_ns": 20 * TICK_NS,
    }
    unpinned = MachineCounters(replace(watched, cpus=())).available()
    assert_facts(unpinned or "", "pinned")


@pytest.mark.parametrize(("version", "throttled_ns"), [("cgroup-v2", 15_730_021_000), ("cgroup-v1", 15_730_021_345)])
def test_throttling_is_read_from_either_cgroup_version(version: str, throttled_ns: int) -> None:
    assert throttled(FILES / version) == {"throttled_periods": 211, "throttled_ns": throttled_ns}
    assert throttled(FILES) == {}


def test_throttling_is_of_a_guest_with_a_quota_alone() -> None:
    with worker() as made:
        observer = Throttling(Watched((made.processes,)))
        if observer.applies():
            reason = observer.available()
            assert reason is not None or observer.read()["throttled_periods"] >= 0


def test_kvm_exits_of_arm_are_read_too(tmp_path: Path) -> None:
    for name, count in (("exits", 29), ("wfi_exit_stat", 11), ("mmio_exit_kernel", 7), ("halt_wakeup", 5)):
        (tmp_path / name).write_text(f"{count}\n")
    assert exits(tmp_path) == {"kvm:exits": 29, "kvm:wfi exit stat": 11, "kvm:mmio exit kernel": 7}


def test_kvm_exits_are_read_by_reason(tmp_path: Path) -> None:
    found = exits(FILES / "kvm")
    assert found["kvm:exits"] == 81_233
    assert found["kvm:io exits"] == 20_177
    assert found["kvm:request irq exits"] == 0
    assert "kvm:halt wakeup" not in found
    assert counter("kvm:io exits")[0].words("io exits") == "KVM io exits"
    with worker() as made:
        pid = made.process.pid
        watched = Watched((made.processes,), root=tmp_path, host_proc=Path("/proc"))
        assert not KvmExits(watched).applies(), "no process of it holds a machine"
        holder = tmp_path / "proc" / str(pid) / "fd"
        holder.mkdir(parents=True)
        (holder / "11").symlink_to("anon_inode:kvm-vm")
        observer = KvmExits(watched)
        assert observer.applies()
        assert_facts(observer.available() or "", "debugfs", "mounted")
        shutil.copytree(FILES / "kvm", tmp_path / "sys/kernel/debug/kvm" / f"{pid}-11")
        assert observer.available() is None
        assert observer.read() == found
        assert_facts(KvmExits(replace(watched, host_proc=None)).available() or "", "/proc")


def test_translated_blocks_are_read_from_the_monitors_words() -> None:
    said = (FILES / "info-jit.txt").read_text(encoding="utf-8")
    assert translations(said) == {"translated_blocks": 2037, "invalidated_blocks": 147, "translation_flushes": 0}
    assert translations("JIT information is only available with accel=tcg\r\n") == {}


def test_blocks_are_missing_where_all_were_dropped_meanwhile() -> None:
    answers = iter(
        [
            {"translated_blocks": 50, "translation_flushes": 0},
            {"translated_blocks": 97, "translation_flushes": 0},
            {"translated_blocks": 11, "translation_flushes": 1},
        ]
    )
    observer = PlatformCounters(Watched(platform=lambda: next(answers)))
    before = observer.read()
    assert observer.read_again(before)["translated_blocks"] == 97
    assert observer.read_again(before) == {"translation_flushes": 1}
    assert "translated_blocks" in observer.uncounted


def test_a_platform_that_does_not_answer_says_so() -> None:
    def refuse() -> dict[str, int]:
        raise GuestError("its monitor refused 'info jit'")

    with observing(Watched(platform=refuse)) as observation:
        assert observation.observers == ()
        assert_facts(observation.uncounted["platform"], "info jit")


def test_a_process_is_known_to_the_host_by_its_number_there() -> None:
    assert host_pid(Path("/proc"), os.getpid()) == os.getpid()
    with worker() as made:
        pid = made.process.pid
    assert host_pid(Path("/proc"), pid) is None


def test_threads_of_the_kernel_are_told_by_link_age_and_number(tmp_path: Path) -> None:
    """A made-up /proc of a host: threads of two links, of an earlier lab and of another guest."""

    def thread(number: int, name: str, started: int, switches: int, ran_ns: int) -> None:
        folder = tmp_path / str(number)
        folder.mkdir(exist_ok=True)
        (folder / "comm").write_text(f"{name}\n")
        (folder / "stat").write_text(f"{number} ({name}) S 2 " + "0 " * 17 + f"{started} 0 0\n")
        both = f"voluntary_ctxt_switches:\t{switches}\nnonvoluntary_ctxt_switches:\t1\n"
        (folder / "status").write_text(f"Name:\t{name}\n{both}")
        (folder / "schedstat").write_text(f"{ran_ns} 7 8\n")

    thread(2, "kthreadd", 0, 1, 1)
    thread(11, "napi/l0in0-8193", 50, 1000, 1000)  # of a lab before
    thread(12, "napi/l0in0-8200", 100, 22, 3000)
    thread(13, "napi/l0in0-8201", 100, 22, 4000)
    thread(14, "napi/l1in0-8300", 100, 5000, 5000)  # of another guest's link
    thread(15, "ksoftirqd/0", 100, 6000, 6000)
    with worker() as made:
        watched = Watched((made.processes,), interfaces=("l0in0", "g0in0"), host_proc=tmp_path, since_ticks=90)
        observer = KernelThreads(watched)
        assert observer.applies()
        assert observer.available() is None
        assert observer.read() == {"kernel_thread_switches": 46, "kernel_thread_ns": 7000}
        thread(16, "napi/l0in0-9000", 120, 1, 1)  # of a lab that began meanwhile
        observer = KernelThreads(watched)
        assert observer.applies()
        assert_facts(observer.available() or "", "labs", "l0in0")
        shutil.rmtree(tmp_path / "16")
        observer = KernelThreads(watched)
        assert observer.applies()
        shutil.rmtree(tmp_path / "13")
        assert observer.read() == {}
        assert_facts(observer.uncounted["kernel_thread_switches"], "ended")
        assert not KernelThreads(replace(watched, interfaces=("g7in0",))).applies(), "a guest without such threads"
        without = KernelThreads(replace(watched, host_proc=None))
        assert without.applies()
        assert_facts(without.available() or "", "/proc")
        shutil.rmtree(tmp_path / "2")
        hidden = KernelThreads(watched)
        assert hidden.applies()
        assert_facts(hidden.available() or "", "PID namespace")


def test_the_hosts_proc_is_handed_in_as_a_folder() -> None:
    with handed_in() as (variables, descriptors):
        assert variables == {"VIRTOLL_HOST_PROC": str(descriptors[0])}
        assert (Path(f"/proc/self/fd/{descriptors[0]}") / "1" / "comm").exists()


def test_who_asks_the_platform_is_outermost_and_perf_innermost() -> None:
    """An emulator that is asked makes system calls for its answer: they are before the first and after the last."""
    outermost, *_, innermost = OBSERVERS
    assert (outermost, innermost) == (PlatformCounters.name, PerfCounters.name)
    said: list[str] = []

    class Saying(PlatformCounters):
        def __init__(self, number: int) -> None:
            super().__init__(Watched())
            self.number = number

        def read(self) -> dict[str, int]:
            said.append(f"read {self.number}")
            return {"translated_blocks": self.number}

    observation = Observation((Saying(1), Saying(2)), {})
    before = observation.read()
    after = observation.read_again(before)
    assert said == ["read 1", "read 2", "read 2", "read 1"]
    assert before.counted == after.counted == {"translated_blocks": 2}


def test_a_guest_elsewhere_is_named_and_not_zero() -> None:
    with observing(Watched()) as observation:
        assert observation.read().counted == {}
        assert list(observation.uncounted) == ["host"]
