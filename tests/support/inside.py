"""Tests that run inside a lab: a module that says ``INSIDE_LAB = True`` is run there, once, as a whole.

``INSIDE_LAB = "NAME"``: in one lab with the other modules that say so. Such a module leaves the lab as it found it,
and needs no nested hosts.

Outside, each test of such a module is replaced by its report from inside: one pytest for a lab, in the very
namespaces that ``virtoll.lab.launch`` makes, with the very mounts that ``virtoll.lab.init`` makes. When the outer
process dies the kernel ends the inner one and all its guests, as it does with any lab.

Labs wait much and compute little: from the session's start on, several of them run side by side in the background,
those that take longest first, and each test waits for its own lab. A lab is started while tests of this process run,
which may change its environment (PATH, the user that it takes itself for): all that a lab is started with is looked up
before the first test.

The module may also have ``LAB_SECONDS_PER_TEST``, where its tests take longer than others' (it decides the order and
bounds nothing), ``lab_of(item)``, a name for each lab where its tests are to be spread over several, and
``needed_nested_hosts(items)``, the kinds of nested hosts that the chosen tests need. Any module may have
``is_extended(item)``: whether a test is of its long form alone, which CI does not run.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.support.commands import environment
from tests.support.repository import ROOT
from tests.support.timeline import LAB_NUMBER_VARIABLE

from virtoll.errors import VirtollError
from virtoll.image import prepare_image
from virtoll.lab import residue
from virtoll.lab.init import prepare_mounts

# _namespace_command: the very namespaces, for a runner of the tests' own
from virtoll.lab.launch import LAB_VARIABLE, _namespace_command, inside_lab, probe_namespaces, sweep_dead_labs
from virtoll.lab.state import state_directory
from virtoll.nested import prepare_nested_host

REPORTS_VARIABLE = "VIRTOLL_TEST_REPORTS"
LABS_VARIABLE = "VIRTOLL_TEST_LABS"
"""How many labs run side by side; three for two CPUs where it is not set."""
SECONDS_PER_TEST = 1.0
SILENCE_SECONDS = 1200.0
"""A lab that has reported no step of a test for so long hangs: a guest's start is waited for at most half as long.

After half of it the lab prints where each of its threads is.
"""
_LOOK_SECONDS = 1.0
_KEPT_WORDS = 4000

Reports = dict[str, list[dict[str, Any]]]


@dataclass
class Labs:
    """The labs of one session: what each is to run, and the processes that are to be ended with the session.

    ``entering``, ``environment`` and ``state`` are as they were at its start.
    """

    pool: ThreadPoolExecutor
    entering: Sequence[str] = field(default_factory=_namespace_command)
    environment: dict[str, str] = field(default_factory=environment)
    state: Path = field(default_factory=state_directory)
    outcomes: dict[str, Future[Reports]] = field(default_factory=dict)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    said: dict[str, str] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    ended: bool = False

    def start(self, command: Sequence[str], variables: dict[str, str], reports: int) -> subprocess.Popen[bytes]:
        """Start a lab, which inherits ``reports``, unless the session is over: then nothing may be started any more."""
        with self.lock:
            if self.ended:
                raise RuntimeError("the session is over")
            process = subprocess.Popen(
                [*self.entering, *command],
                env={**self.environment, **variables},
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(reports,),
            )
            self.processes.append(process)
            return process

    def end(self) -> None:
        """End all that still run, and wait until what they left is swept."""
        with self.lock:
            self.ended = True
            for process in self.processes:
                process.kill()
        self.pool.shutdown(wait=True, cancel_futures=True)


_labs: list[Labs] = []


def belongs_inside(item: pytest.Item) -> bool:
    """Whether a test is of a module that runs in a lab."""
    return bool(getattr(_module(item), "INSIDE_LAB", False))


def runs_elsewhere(item: pytest.Item) -> bool:
    """Whether this process only reports what a test did in a lab."""
    return belongs_inside(item) and inside_lab() is None


def start_all(session: pytest.Session) -> None:
    """Outside, before the first test: have the labs of the session's tests run in the background."""
    if inside_lab() is None and not session.config.option.collectonly:
        _labs.append(_start_all(session))


def replay(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Outside: report what the test did inside. False where the test is to run as it is."""
    if not runs_elsewhere(item):
        return False
    reports = _labs[0].outcomes[_lab_name(item)].result()
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    stages = reports.get(item.nodeid, [])
    if not has_ended(stages):
        stages = [*stages, _lost(item)]
    for stored in stages:
        report = item.config.hook.pytest_report_from_serializable(config=item.config, data=stored)
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    item.session._setupstate.teardown_exact(nextitem)  # folders that the test before had in common with this one
    return True


def has_ended(stages: Sequence[dict[str, Any]]) -> bool:
    """Whether a test's reports go up to its end; a lab that is killed in the middle of a test reports its set-up."""
    return bool(stages) and stages[-1]["when"] == "teardown"


def end_all() -> None:
    """The session is over, perhaps before its last test: no lab outlives it."""
    for labs in _labs:
        labs.end()
    _labs.clear()


def keep(report: pytest.TestReport, config: pytest.Config) -> None:
    """Inside: hand a report out."""
    if (file := os.environ.get(REPORTS_VARIABLE)) and inside_lab() is not None:
        stored = config.hook.pytest_report_to_serializable(config=config, report=report)
        with Path(file).open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(stored) + "\n")


def _lab_name(item: pytest.Item) -> str:
    """Which lab runs a test: its module's, the one of several that the module says, or one that modules share."""
    module = _module(item)
    shared = module.INSIDE_LAB
    part = getattr(module, "lab_of", lambda _: "")(item)
    return f"{item.path if shared is True else shared} {part}".rstrip()


def _module(item: pytest.Item) -> Any:
    return getattr(item, "module", None)


def _start_all(session: pytest.Session) -> Labs:
    """Have every lab of the session run as soon as there is room for it, those that take longest first."""
    chosen: dict[str, list[pytest.Item]] = {}
    for item in session.items:
        if belongs_inside(item):
            chosen.setdefault(_lab_name(item), []).append(item)
    at_once = int(os.environ.get(LABS_VARIABLE, max(1, 3 * (os.cpu_count() or 1) // 2)))
    labs = Labs(ThreadPoolExecutor(max_workers=at_once, thread_name_prefix="lab"))
    if chosen and (reason := probe_namespaces()) is not None:
        labs.said = {item.nodeid: reason for items in chosen.values() for item in items}
        nothing: Future[Reports] = Future()
        nothing.set_result({})
        labs.outcomes = dict.fromkeys(chosen, nothing)
        return labs
    sweep_dead_labs()  # of a session that was killed
    for number, name in enumerate(sorted(chosen, key=lambda name: -_expected_seconds(chosen[name]))):
        labs.outcomes[name] = Future()
        try:
            _prepare(chosen[name])
        except VirtollError as error:
            labs.said.update(dict.fromkeys((item.nodeid for item in chosen[name]), str(error)))
            labs.outcomes[name].set_result({})
        else:
            labs.outcomes[name] = labs.pool.submit(_run_inside, labs, number, chosen[name])
    return labs


def _expected_seconds(items: Sequence[pytest.Item]) -> float:
    """Roughly: what a lab takes decides when it is started."""
    return sum(float(getattr(_module(item), "LAB_SECONDS_PER_TEST", SECONDS_PER_TEST)) for item in items)


def _prepare(items: Sequence[pytest.Item]) -> None:
    """What a lab's tests need: there is no way to a package mirror from inside."""
    _prepare_images()
    for kind in getattr(_module(items[0]), "needed_nested_hosts", lambda _: ())(items):
        prepare_nested_host(kind)


@functools.cache
def _prepare_images() -> None:
    for name in ("tiny", "debug"):
        prepare_image(name, kernel=True)


def _run_inside(labs: Labs, number: int, items: Sequence[pytest.Item]) -> Reports:
    nodeids = [item.nodeid for item in items]
    # Without a name: however the session ends, no file of it stays.
    with _lab(labs.state) as lab_id, tempfile.TemporaryFile() as file:
        reports = Path(f"/proc/self/fd/{file.fileno()}")
        own = {LAB_VARIABLE: lab_id, REPORTS_VARIABLE: str(reports), LAB_NUMBER_VARIABLE: str(number)}
        # The runner stands in the place of ``virtoll.lab.init``, and is known by that name: see ``inside_lab``.
        runner = [sys.executable, "-m", "tests.support.inside", "virtoll.lab.init"]
        # Chosen outside; a test that hangs is found by the lab's silence, however slow this machine is.
        traces = f"faulthandler_timeout={SILENCE_SECONDS / 2}"
        command = [*runner, "-q", "-m", "inside", "--timeout=0", "-o", traces, *nodeids]
        process = labs.start(command, own, file.fileno())
        said = _said_while_it_goes_on(process, file.fileno()).decode(errors="replace")[-_KEPT_WORDS:]
        labs.said.update(dict.fromkeys(nodeids, said))
        found: Reports = {}
        for line in reports.read_text(encoding="utf-8").splitlines():
            stored = json.loads(line)
            if isinstance(stored["longrepr"], list):  # a skip's place and reason: JSON has no tuples
                stored["longrepr"] = tuple(stored["longrepr"])
            found.setdefault(stored["nodeid"], []).append(stored)
        return found


def _said_while_it_goes_on(process: subprocess.Popen[bytes], reports: int) -> bytes:
    """What a lab prints until it ends; it is killed when it has reported nothing for ``SILENCE_SECONDS``."""
    size, silent_seconds = 0, 0.0
    while True:
        try:
            return process.communicate(timeout=_LOOK_SECONDS)[0]
        except subprocess.TimeoutExpired:
            silent_seconds += _LOOK_SECONDS
        if (now := os.fstat(reports).st_size) != size:
            size, silent_seconds = now, 0.0
        if silent_seconds > SILENCE_SECONDS:
            process.kill()
            return process.communicate()[0]


@contextlib.contextmanager
def _lab(state: Path) -> Iterator[str]:
    """A lab's record in this folder, swept at the end: cgroup folders."""
    record, lock = residue.create_record(state)
    try:
        yield record.lab_id
    finally:
        os.close(lock)
        residue.sweep(record)


def enter_lab(script: str) -> None:
    """Start a script of ours again in a lab of its own, and end as that ends; in that lab, make its mounts.

    There its first argument is ``virtoll.lab.init``, in whose place it stands.
    """
    if inside_lab() is None:
        with _lab(state_directory()) as lab_id:
            itself = [*_namespace_command(), sys.executable, script, "virtoll.lab.init", *sys.argv[1:]]
            sys.exit(subprocess.run(itself, env=environment(**{LAB_VARIABLE: lab_id}), check=False).returncode)
    prepare_mounts()


def _lost(item: pytest.Item) -> dict[str, Any]:
    """A failed report for a test that reported nothing, or not its end."""
    text = f"its end was not reported; its lab printed:\n{_labs[0].said.get(item.nodeid, 'the lab did not start')}"
    report = pytest.TestReport(item.nodeid, item.location, {}, "failed", text, "call")
    stored: dict[str, Any] = item.config.hook.pytest_report_to_serializable(config=item.config, report=report)
    return stored


def _reap_until_ended(child: int) -> int:
    """The exit code of ``child``; what orphans leave is reaped meanwhile, as ``virtoll.lab.init`` does.

    A PID namespace ends when each process in it is reaped, those included that entered it and lost their parent.
    """
    while True:
        pid, status = os.wait()
        if pid == child:
            return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    prepare_mounts()
    if (tests := os.fork()) == 0:
        sys.exit(pytest.main([*sys.argv[2:], "-p", "no:cacheprovider", "--basetemp", "/run/virtoll/tmp/pytest"]))
    sys.exit(_reap_until_ended(tests))
