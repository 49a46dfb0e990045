"""Commands that are started in a folder that was deleted, or without standard streams."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support import experiments
from tests.support.commands import VIRTOLL, environment, in_process, opening_mounts, with_mounts
from tests.support.experiments import fake
from tests.support.facts import assert_facts
from tests.support.made_up_folder import write_small_run

from virtoll.runfolder.overview import overview

USER = 12345
FULL = Path("/dev/full")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_small_run(tmp_path / "run")


def shell(script: str, *arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A shell's script of which "$@" is virtoll with these arguments."""
    argv = ["sh", "-c", script, "sh", *VIRTOLL, *map(str, arguments)]
    return subprocess.run(argv, env=environment(), cwd=cwd, capture_output=True, text=True, check=False)


@pytest.fixture
def deleted_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder of this process was deleted."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()


@pytest.mark.usefixtures("deleted_folder")
@pytest.mark.parametrize("command", [["verify"], ["claims"], ["report", "--quiet"], ["query", "select 1"]])
def test_a_path_leads_to_its_run_from_a_deleted_folder(run: Path, command: Sequence[str]) -> None:
    finished = in_process(*command, run)
    assert (finished.returncode, finished.stderr) == (0, "")


def test_an_experiment_is_measured_from_a_deleted_folder(tmp_path: Path) -> None:
    """Started there: Python begins without a current folder too."""
    file = experiments.write(tmp_path, platforms=[fake("model"), fake("other")], baseline="model", blocks=2)
    (tmp_path / "gone").mkdir()
    words = ("run", file, "--into", tmp_path / "made", "--quiet")
    finished = shell('rmdir "$PWD"; exec "$@"', *words, cwd=tmp_path / "gone")
    page = tmp_path / "made" / "report" / "index.html"
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, f"{page}\n", "")
    assert overview(tmp_path / "made").state == "complete"


@pytest.mark.usefixtures("deleted_folder")
def test_an_experiment_is_planned_from_a_deleted_folder(tmp_path: Path) -> None:
    assert in_process("plan", experiments.write(tmp_path)).returncode == 0


@pytest.mark.usefixtures("deleted_folder")
@pytest.mark.parametrize("command", [["list", "runs"], ["history"], ["report", "latest"], ["compare", "a", "b"]])
def test_a_command_that_needs_the_current_folder_says_so(command: Sequence[str]) -> None:
    finished = in_process(*command)
    assert (finished.returncode, finished.stdout, finished.stderr.count("\n")) == (2, "", 1)
    assert_facts(finished.stderr, "current folder")


@pytest.mark.parametrize(
    ("closed", "command", "code"),
    [
        (">&-", ["list", "platforms"], 0),
        ("2>&-", ["plan", "/no/such/file"], 2),
        ("<&-", ["verify"], 0),
        (">&- 2>&-", ["plan", "/no/such/file"], 2),
        ("<&- >&- 2>&-", ["verify"], 0),
    ],
)
def test_closed_streams_change_no_outcome(run: Path, closed: str, command: Sequence[str], code: int) -> None:
    """Each stream once where it is used, and together."""
    finished = shell(f'"$@" {closed}', *command, *([run] if command == ["verify"] else []))
    assert finished.returncode == code
    assert "Traceback" not in finished.stderr


def test_no_file_gets_the_number_of_a_closed_stream(run: Path) -> None:
    """Else what is printed would be written into it."""
    finished = shell('"$@" >&- 2>&-', "report", run)
    assert finished.returncode == 0
    made = [path for path in (run / "report").rglob("*") if path.is_file()]
    assert made
    assert not [path for path in made if b"report: " in path.read_bytes()]


@pytest.mark.skipif(not FULL.exists(), reason="this host has no /dev/full")
@pytest.mark.parametrize("command", [("plan", "/no/such/file"), ("plan", "--no-such-option"), ("no-such-command",)])
def test_a_full_standard_error_keeps_the_exit_code(command: Sequence[str]) -> None:
    assert shell('"$@" 2>/dev/full', *command).returncode == 2


@pytest.mark.root
@pytest.mark.lab
def test_a_host_that_hides_processes_is_no_lab_to_an_ordinary_user() -> None:
    """/proc with hidepid, as hardened hosts mount it: nobody but root reads what their first process is."""
    hidden = ["mount -t proc -o hidepid=invisible proc /proc"]
    become = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--"]
    environ = {**environment(), "HOME": "/nonexistent"}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o1777)
        environ["XDG_RUNTIME_DIR"] = f"{folder}/run"
        script = f'mkdir -m 0700 {folder}/run && cd / && exec "$@"'
        argv = [*become, "sh", "-c", script, "sh", *VIRTOLL, "doctor", "--json", "netns"]
        finished = subprocess.run(
            with_mounts([*opening_mounts("/mnt"), *hidden], *argv),
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
    assert finished.returncode == 0, finished
    assert [one["available"] for one in json.loads(finished.stdout)["platforms"]] == [True]


def test_a_second_interrupt_while_python_ends_prints_nothing() -> None:
    program = """
import atexit, os, signal
from virtoll import cli
def interrupted(**_):
    raise KeyboardInterrupt
cli.app = interrupted
atexit.register(os.kill, os.getpid(), signal.SIGINT)
cli.main()
"""
    ended = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (130, "virtoll: interrupted\n")
