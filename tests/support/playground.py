"""A place where ``virtoll`` is started as somebody, with a /tmp, /run and /dev/shm that a test can look into.

The three folders are bind mounts, in a mount namespace that only the started process has, of folders that the test
made: so whatever is left in them was left by Virtoll. As an ordinary user (uid 12345) the process also has a
/dev/net/tun that everybody may open, as Debian has it, whatever this host's own says. Other folders of the host may be
laid over (overlayfs): what is written there comes into a layer of the place's own, where it is seen.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.support import failures, machine
from tests.support.commands import VIRTOLL, around_the_clone, environment, opening_mounts, with_mounts
from tests.support.repository import ROOT

from virtoll.runfolder.store import RunFolder

USER = 12345
TUN = os.makedev(10, 200)
SILENCE_SECONDS = 300.0
"""Who lives and says nothing for so long hangs: there is no other deadline, since a run goes on as fast as it can."""
_LOOK_SECONDS, _LONGEST_SECONDS = 0.02, 0.2
_KEPT_WORDS = 4000
_LAB_INTERFACE = re.compile(r"^([plgvb]\d+(in\d|out\d?|marks|shared)|[plb]shared)$")
_MOUNTED = ("/run/virtoll", "/sys/", "/proc/", "/tmp/virtoll")  # below these, a lab mounts
_COVERED = {"tmp": "/tmp", "run": "/run", "shm": "/dev/shm"}


@dataclass
class Running:
    """A ``virtoll`` that runs: ``said`` is its output so far. ``look`` is done as often as it speaks."""

    process: subprocess.Popen[bytes]
    token: str
    output: int
    look: Callable[[], None]
    said: str = ""

    def wait_for(self, text: str, silence_seconds: float = SILENCE_SECONDS) -> None:
        """Read its output until it holds ``text``; fails when it ends before."""
        while text not in self.said:
            if not self._read(silence_seconds):
                pytest.fail(f"{text!r} was not said, but: {self.said}")

    def wait_until(self, condition: Callable[[], bool], awaited: str) -> None:
        """Read its output until ``condition`` holds, for what is not told there; fails when it ends before."""
        pause_seconds = _LOOK_SECONDS
        while not condition():
            if self._is_readable(pause_seconds) and not self._read(SILENCE_SECONDS):
                pytest.fail(f"{awaited} did not come, but: {self.said}")
            pause_seconds = min(2 * pause_seconds, _LONGEST_SECONDS)

    def listen(self, seconds: float) -> None:
        """Read its output for so long, or to its end."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if self._is_readable(left) and not self._read(SILENCE_SECONDS):
                return

    def hang_up(self) -> None:
        """Close the terminal: who runs in it gets SIGHUP, and can write there no more."""
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, self.output)
        os.close(nothing)

    def end(self, silence_seconds: float = SILENCE_SECONDS) -> int:
        """Read its output to the end and wait for its exit code."""
        while self._read(silence_seconds):
            continue
        return self.process.wait(machine.END_SECONDS)

    def _read(self, silence_seconds: float) -> bool:
        """Read some of its output; False at its end."""
        if not self._is_readable(silence_seconds):
            pytest.fail(f"nothing was said for {silence_seconds:g} s")
        self.look()
        try:
            chunk = os.read(self.output, 65536)
        except OSError:
            return False
        self.said += chunk.decode(errors="replace").replace("\r\n", "\n")
        return bool(chunk)

    def _is_readable(self, seconds: float) -> bool:
        return bool(select.select([self.output], [], [], seconds)[0])


@dataclass
class Playground:
    """The folders of one somebody; ``start`` runs ``virtoll`` there.

    ``home`` is the ordinary user's, who has it for the whole session, as root has this machine's: what a probe found
    out is remembered in it. ``base / "home"`` is an empty one. ``labs``: the ids of all that were seen here.
    ``laid_over``: folders of the host, of which all that is written is seen as a file that was left.
    """

    base: Path
    root: bool
    home: Path
    before: machine.Snapshot = field(default_factory=machine.snapshot)
    labs: set[str] = field(default_factory=set)
    laid_over: tuple[Path, ...] = ()

    @property
    def runs(self) -> Path:
        """The runs folder."""
        return self.base / "runs"

    def write(self, text: str) -> Path:
        """An experiment as a file here."""
        file = self.base / "example.yaml"
        file.write_text(text, encoding="utf-8")
        return file

    def only_run(self) -> RunFolder:
        """The one run that was made here."""
        (path,) = self.runs.iterdir()
        return RunFolder.open(path)

    @property
    def covered(self) -> list[Path]:
        """What the process sees as /tmp, /run and /dev/shm."""
        return [self.base / name for name in _COVERED]

    @property
    def layers(self) -> list[Path]:
        """What was written to the folders that are laid over."""
        return [self._layer(folder) / "upper" for folder in self.laid_over]

    def _layer(self, folder: Path) -> Path:
        return self.base / "layers" / folder.name

    @contextlib.contextmanager
    def start(self, *arguments: str | Path, terminal: bool = False) -> Iterator[Running]:
        """Start ``virtoll ARGUMENTS``; killed at the end if it still runs."""
        token = uuid.uuid4().hex
        if terminal:
            output, theirs = os.openpty()
        else:
            output, theirs = os.pipe()
        command = self.command([*VIRTOLL, *map(str, arguments)], token)
        failures.note_command(["virtoll", *arguments])
        failures.note_place(self.runs)
        process = subprocess.Popen(
            ["setsid", "--ctty", *command] if terminal else command,
            stdin=theirs if terminal else subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            start_new_session=not terminal,
            cwd=ROOT,
        )
        os.close(theirs)
        running = Running(process, token, output, self.note_labs)
        try:
            yield running
        except BaseException as error:
            error.add_note(f"it said: {running.said[-_KEPT_WORDS:]}")
            raise
        finally:
            process.kill()
            process.wait()
            os.close(output)
            machine.thaw(machine.marked_by(token))  # a test that failed may have left some standing still

    def run(self, *arguments: str | Path, silence_seconds: float = SILENCE_SECONDS) -> Running:
        """Run ``virtoll ARGUMENTS`` to its end."""
        with self.start(*arguments) as running:
            failures.note_end(running.end(silence_seconds), running.said)
        return running

    def command(self, argv: Sequence[str], token: str) -> list[str]:
        """The command line that starts ``argv`` as this somebody in this place."""
        inherited = environment() if self.root else {"PATH": "/usr/bin:/bin", "COLUMNS": "200"}
        cache = {key: value for key, value in os.environ.items() if key == "VIRTOLL_CACHE"}
        variables = {
            **inherited,
            **cache,
            machine.TOKEN: token,
            "VIRTOLL_RUNS": str(self.runs),
            "TERM": "xterm",
            "PYTHONPATH": str(ROOT / "src"),
            **({} if self.root else {"HOME": str(self.home)}),
        }
        keep = self.base / "keep"
        mounts = [f"mount --bind {self.base / name} {target}" for name, target in _COVERED.items()]
        if ROOT.is_relative_to("/tmp"):
            mounts = around_the_clone(mounts, keep)
        elif not self.root:
            mounts += opening_mounts(keep)
        if not self.root:
            mounts.append(f"mount --bind {self.base / 'tun'} /dev/net/tun")
        for folder in self.laid_over:
            parts = f"lowerdir={folder},upperdir={self._layer(folder)}/upper,workdir={self._layer(folder)}/work"
            mounts.append(f"mount -t overlay -o {parts} overlay {folder}")
        somebody = [] if self.root else ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--"]
        settings = [f"{key}={value}" for key, value in variables.items()]
        # Whoever runs the tests in the background may have Ctrl-C ignored, and children inherit that.
        return with_mounts(mounts, *somebody, "env", "--default-signal=INT", "--ignore-environment", *settings, *argv)

    def recorded(self) -> set[str]:
        """The ids of the labs that are recorded here now: of which something may still be there."""
        found: set[str] = set()
        for state in (self.base / "run" / "virtoll", self.base / "tmp" / f"virtoll-{USER}"):
            with contextlib.suppress(FileNotFoundError):  # the last lab's end takes the folder away meanwhile
                found |= {folder.name for folder in (state / "labs").glob("virtoll-*")}
        return found

    def note_labs(self) -> None:
        """Look which labs are recorded here now."""
        self.labs |= self.recorded()

    def new_on_host(self, of: machine.Family) -> list[str]:
        """What this place's labs may have made on the host since the playground was made, and a family's interfaces.

        Interfaces and mounts of other kinds are others', and so are folders that do not bear the id of a lab of this
        place: this machine has more users than this test.
        """
        self.note_labs()
        now = machine.snapshot()
        interfaces = {name for name in now.interfaces if name in of.interfaces or _LAB_INTERFACE.match(name)}
        mounts = {name for name in now.mounts if name.startswith((*_MOUNTED, str(self.base)))}
        labs = self.labs | of.labs
        cgroups, disk = ({name for name in found if machine.lab_in(name) in labs} for found in (now.cgroups, now.disk))
        own = machine.Snapshot(*map(frozenset, (interfaces, mounts, cgroups, disk)))
        return own.new_since(self.before)

    def settle(
        self, gone: machine.Family, token: str, deadline_seconds: float = machine.END_SECONDS
    ) -> tuple[list[str], float]:
        """Wait until nothing of a run is left: what is left at the deadline, and how long it took in seconds."""

        def look() -> list[str]:
            kept = {str(self.base / "run" / "mount"), *(str(self.base / "tmp" / part) for part in _kept_parts())}
            files = machine.files_below([*self.covered, *self.layers]) - kept
            new = self.new_on_host(gone)
            return [*machine.left_of(gone, token), *new, *(f"file {name}" for name in sorted(files))]

        started = time.monotonic()
        machine.await_ends(gone.processes, deadline_seconds)
        left, _ = machine.poll_until_empty(look, deadline_seconds)
        return left, time.monotonic() - started

    def check_clean(self, gone: machine.Family, token: str) -> float:
        """As ``settle``, and nothing may be left; gives how long it took in seconds."""
        left, seconds = self.settle(gone, token)
        assert not left, "\n".join(left)
        return seconds


@contextlib.contextmanager
def playground(*, root: bool, laid_over: Sequence[Path] = ()) -> Iterator[Playground]:
    """Make the folders; skips where somebody else than root cannot even start Virtoll from here."""
    base = Path(tempfile.mkdtemp(prefix="virtoll-playground-", dir="/var/tmp"))
    try:
        base.chmod(0o755)
        for name in (*_COVERED, "home", "runs", "keep"):
            (base / name).mkdir()
            (base / name).chmod(0o1777)
        (base / "run" / "mount").mkdir()  # libmount's own, there on every host that has booted
        os.mknod(base / "tun", 0o020666, TUN)
        (base / "tun").chmod(0o666)
        place = Playground(base, root, _home_of_user(), laid_over=tuple(laid_over))
        for folder, upper in zip(laid_over, place.layers, strict=True):
            (upper.parent / "work").mkdir(parents=True)
            upper.mkdir()
            upper.chmod(folder.stat().st_mode & 0o7777)
        if not root:
            _skip_unless_startable(place)
        yield place
    except BaseException:
        failures.look()
        raise
    finally:
        shutil.rmtree(base, ignore_errors=True)


@functools.cache
def _home_of_user() -> Path:
    """Made at its first use, gone with this process."""
    home = Path(tempfile.mkdtemp(prefix="virtoll-playground-home-", dir="/var/tmp"))
    home.chmod(0o1777)
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    return home


def _skip_unless_startable(place: Playground) -> None:
    """Found out once: nothing of it is the place's own."""
    if not _refusals:
        _refusals.append(_why_not_startable(place))
    if _refusals[0] is not None:
        pytest.skip(_refusals[0])


def _why_not_startable(place: Playground) -> str | None:
    for argv in ([sys.executable, "-c", "import virtoll.cli"], ["unshare", "--user", "--map-root-user", "true"]):
        finished = subprocess.run(place.command(argv, "probe"), capture_output=True, text=True, check=False)
        if finished.returncode != 0:
            said = (finished.stderr.splitlines() or ["no message"])[-1]
            return f"an ordinary user cannot run {argv[0]} here: {said}"
    return None


_refusals: list[str | None] = []


def _kept_parts() -> list[str]:
    """The folders that hold a clone below /tmp in its place."""
    parts = ROOT.relative_to("/tmp").parts if ROOT.is_relative_to("/tmp") else ()
    return [str(Path(*parts[: count + 1])) for count in range(len(parts))]


def kill_all(processes: Sequence[machine.Process]) -> None:
    """kill -9, one after the other; one that has ended already is passed over."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
