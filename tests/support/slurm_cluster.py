"""A real Slurm cluster on this machine: Debian's packages, a controller and four nodes, in namespaces of its own.

``SlurmCluster.started(folder)`` is a context. All of it lives in network, mount, PID, IPC and UTS namespaces, which the
kernel ends with it and with the process that started it. Each node is a PID and UTS namespace more: it has a name of
its own, so that Virtoll takes it for a host of its own, and ``lose`` ends it as a loss of power does. Programs run in
the cluster by ``run``. Nothing of the host is changed, and no service of its own is used. It needs root.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.support.commands import environment
from tests.support.repository import ROOT

NODES: Final = ("n1", "n2", "n3", "n4")
PROGRAMS: Final = ("slurmctld", "slurmd", "sbatch", "squeue", "munged")
HOLDS: Final = """
import contextlib, os, sys
from pathlib import Path
HOLDS, seen, folders = Path(os.environ["TEST_HOLDS"]), [], []
def hold(event, arguments):
    if event == "open" and arguments[2] & os.O_DIRECTORY:
        folders[:] = [Path(os.fsdecode(arguments[0]))]  # that a name is opened below
    if event == "open" and arguments[2] & os.O_APPEND and arguments[0] == "trials.jsonl":
        seen.append(arguments[0])
        held = HOLDS / folders[0].name
        if len(seen) == 3 and held.exists():
            held.with_suffix(".at").write_text(os.uname().nodename)
            try:
                with contextlib.suppress(FileNotFoundError):  # it was released meanwhile
                    os.close(os.open(held, os.O_RDONLY))
            finally:
                held.unlink(missing_ok=True)
sys.addaudithook(hold)
"""
"""A module of ``holding_python``: a task of a block for which there is a FIFO in ``TEST_HOLDS`` opens it before its
third trial is stored, which lasts until the test opens it too; it writes where it waits."""
_ADDRESS = "10.9.0.1"
DEADLINE_SECONDS = 600.0
"""For what is awaited: a bound on a hang, and no expectation of any machine."""
_LOOK_SECONDS = 0.3
_LIVES_AS_LONG = ("setpriv", "--pdeathsig", "KILL", "--")
# With the loopback alone Slurm resolves no address, not even one in figures (AI_ADDRCONFIG): hence a pair of veth.
_HEAD = f"""
set -e
hostname head
ip link set lo up
ip link add d0 type veth peer name d1
ip addr add {_ADDRESS}/24 dev d0
ip link set d0 up
ip link set d1 up
echo ready
exec cat
"""
# As PID 1 of its node a shell reaps what its jobs leave; slurmd would not.
_NODE = 'hostname "$1" && mount -t proc proc /proc && shift && { "$@" & wait; }'


def missing_programs() -> str | None:
    """Why there can be no cluster here, in one sentence; None: there can."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"Slurm is not installed here ({', '.join(missing)}): run 'make setup-dev'" if missing else None


def holding_python(folder: Path) -> str:
    """A Python with this one's packages, made in a folder, which runs ``HOLDS`` at its start.

    A virtual environment: what Virtoll starts ignores variables such as PYTHONPATH.
    """
    subprocess.run([sys.executable, "-I", "-m", "venv", "--without-pip", folder / "holding"], check=True)
    (packages,) = (folder / "holding/lib").glob("python*/site-packages")
    (packages / "hold_blocks.py").write_text(HOLDS)
    places = [str(ROOT / "src"), sysconfig.get_path("purelib")]
    (packages / "hold_blocks.pth").write_text("".join(f"{line}\n" for line in [*places, "import hold_blocks"]))
    return str(folder / "holding/bin/python")


@dataclass
class SlurmCluster:
    """The running cluster. ``folder`` holds its configuration, logs and states; ``pid``: its first process, as here."""

    folder: Path
    pid: int
    settings: Mapping[str, str]
    nodes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    controller: subprocess.Popen[bytes] | None = None

    @classmethod
    @contextmanager
    def started(cls, folder: Path, **settings: str) -> Iterator[SlurmCluster]:
        """A cluster whose nodes are all idle; ``settings``: lines of ``slurm.conf`` in the place of its own."""
        for name in ("state", "spool", "log"):
            (folder / name).mkdir(parents=True)
        namespaces = ["--mount", "--net", "--ipc", "--uts", "--pid", "--fork", "--kill-child=KILL", "--mount-proc"]
        command = [*_LIVES_AS_LONG, "unshare", *namespaces, "--propagation", "private", "--", "sh", "-c", _HEAD]
        with ExitStack() as stack:
            outer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            stack.callback(_ended, outer)
            assert outer.stdout is not None
            assert outer.stdout.readline() == b"ready\n"
            cluster = cls(folder, _children(outer.pid)[0], settings)
            stack.callback(cluster._end)
            cluster._start_munge()
            (folder / "slurm.conf").write_text(cluster._configuration())
            cluster.start_controller()
            for node in NODES:
                cluster.start(node)
            cluster.until(lambda: cluster.idle() == set(NODES), "all nodes are idle")
            yield cluster

    def run(self, *argv: str | Path, **changed: str) -> subprocess.CompletedProcess[str]:
        """Run a program in the cluster, on its head, to its end."""
        return subprocess.run(
            self.inside(*argv),
            env=environment(SLURM_CONF=str(self.folder / "slurm.conf"), **changed),
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )

    def output(self, *argv: str | Path) -> str:
        """What a program prints that must succeed."""
        done = self.run(*argv)
        assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
        return done.stdout

    def inside(self, *argv: str | Path) -> list[str]:
        """The command that runs ``argv`` in the cluster."""
        return _within(self.pid, *argv)

    def idle(self) -> set[str]:
        """The nodes that are idle."""
        shown = self.run("sinfo", "--noheader", "--Node", "--format=%N %T").stdout.split("\n")
        return {line.split()[0] for line in shown if line.endswith(" idle")}

    def state(self, node: str) -> str:
        """What the controller says of a node, such as ``down*``."""
        return self.run("sinfo", "--noheader", "--nodes", node, "--format=%T").stdout.strip()

    def start_controller(self) -> None:
        """Start the controller, which goes on with the states on its disk."""
        self.controller = self._daemon("slurmctld", "slurmctld", "-D", "-f", self.folder / "slurm.conf")

    def end_controller(self) -> None:
        """End the controller, as a restart of its service does; nodes and their jobs go on."""
        assert self.controller is not None
        self.run("pkill", "-TERM", "-x", "slurmctld")
        self.controller.communicate(timeout=DEADLINE_SECONDS)

    def start(self, node: str) -> None:
        """Switch a node on."""
        own = ["unshare", "--pid", "--uts", "--mount", "--fork", "--kill-child=KILL", "--propagation", "private", "--"]
        daemon = ["slurmd", "-D", "-N", node, "-f", str(self.folder / "slurm.conf")]
        self.nodes[node] = self._daemon(node, *own, "sh", "-c", _NODE, "sh", node, *daemon)

    def on(self, node: str, *argv: str | Path) -> None:
        """Run a program on a node, where its own mounts are; it must succeed."""
        (unshare,) = _children(self.nodes[node].pid)
        (first,) = _children(unshare)
        done = subprocess.run(_within(first, *argv), capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{argv}: {done.stderr}"

    def allow(self, task: str, minutes: int) -> None:
        """Give a task, such as ``7_1``, another time limit, which it keeps when it is requeued."""
        given = ("scontrol", "update", f"JobId={task}", f"TimeLimit={minutes}")
        self.until(lambda: self.run(*given).returncode == 0, f"task {task} has another time limit")

    def lose(self, node: str) -> None:
        """Switch a node off: its daemon, its jobs and all of their processes are gone at once."""
        outer = self.nodes.pop(node)
        for child in _children(outer.pid):  # its unshare, which takes all of the node along
            os.kill(child, signal.SIGKILL)
        outer.communicate()

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait until something holds; after the deadline the logs are the evidence."""
        end = time.monotonic() + DEADLINE_SECONDS
        while not holds():
            assert time.monotonic() < end, f"awaited: {what}\n{self.evidence()}"
            time.sleep(_LOOK_SECONDS)

    def evidence(self) -> str:
        """What the queue, the nodes and the ends of the logs say."""
        shown = [self.run(*argv).stdout for argv in (("squeue", "--array"), ("sinfo", "--Node", "--long"))]
        logs = [self.folder / "log/controller", *(self.folder / "log" / node for node in NODES)]
        return "\n".join([*shown, *(f"{log.name}:\n{log.read_text(errors='replace')[-1500:]}" for log in logs)])

    def _start_munge(self) -> None:
        """Who a message of Slurm's is from: munge, with a key of this cluster's alone."""
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        files = {"key-file": key, "socket": self.folder / "munge.socket", "pid-file": self.folder / "munge.pid"}
        files |= {"log-file": self.folder / "log/munge", "seed-file": self.folder / "munge.seed"}
        self._daemon(
            "munged", "munged", "--foreground", "--force", *(f"--{name}={path}" for name, path in files.items())
        )
        self.until(files["socket"].exists, "munge's socket")

    def _configuration(self) -> str:
        folder = self.folder
        lines = {
            "ClusterName": "virtoll",
            "SlurmctldHost": f"head({_ADDRESS})",
            "SlurmctldPort": "7002",
            "AuthType": "auth/munge",
            "AuthInfo": f"socket={folder}/munge.socket,cred_expire=8",
            "SlurmUser": "root",
            "SlurmdUser": "root",
            "StateSaveLocation": f"{folder}/state",
            "SlurmdSpoolDir": f"{folder}/spool/%n",
            "SlurmctldLogFile": f"{folder}/log/controller",
            "SlurmctldPidFile": f"{folder}/slurmctld.pid",
            "SlurmdPidFile": f"{folder}/slurmd-%n.pid",
            "ProctrackType": "proctrack/linuxproc",
            "TaskPlugin": "task/none",
            "SelectType": "select/cons_tres",
            "SelectTypeParameters": "CR_Core",
            "SchedulerParameters": "sched_min_interval=0,bf_interval=1",
            "PreemptType": "preempt/partition_prio",
            "PreemptMode": "REQUEUE",
            "ReturnToService": "2",
            "SlurmdTimeout": "20",
            "KillWait": "30",
            "InactiveLimit": "0",
            "MaxArraySize": "24",
            "MpiDefault": "none",
            "JobAcctGatherType": "jobacct_gather/none",
            "AccountingStorageType": "accounting_storage/none",
            "SlurmdParameters": "config_overrides",
            **self.settings,
        }
        nodes = [
            f"NodeName={node} NodeHostname={node} NodeAddr={_ADDRESS} Port={17000 + number} CPUs=2 RealMemory=1000"
            for number, node in enumerate(NODES)
        ]
        partitions = [
            f"PartitionName={name} Nodes={','.join(NODES)} MaxTime=60 State=UP {more}"
            for name, more in {"all": "Default=YES PriorityTier=1", "urgent": "PriorityTier=10"}.items()
        ]
        return "\n".join([*(f"{key}={value}" for key, value in lines.items()), *nodes, *partitions, ""])

    def _daemon(self, name: str, *argv: str | Path) -> subprocess.Popen[bytes]:
        with (self.folder / "log" / name).open("ab") as log:
            return subprocess.Popen(
                self.inside(*argv),
                env=environment(SLURM_CONF=str(self.folder / "slurm.conf")),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _end(self) -> None:
        for process in (*self.nodes.values(), *([self.controller] if self.controller else [])):
            _ended(process)


class Bench:
    """The cluster, and Virtoll in it; ``hold`` has a block's task wait before its third trial is stored."""

    def __init__(self, cluster: SlurmCluster, folder: Path) -> None:
        self.cluster = cluster
        self.holds = folder / "holds"
        self.holds.mkdir()
        self.python = holding_python(folder)

    def virtoll(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run ``virtoll ARGUMENTS`` on the cluster's head."""
        return self.cluster.run(self.python, "-m", "virtoll", *arguments, TEST_HOLDS=str(self.holds))

    def output(self, *arguments: str | Path) -> str:
        """What a command of Virtoll's prints, which must succeed."""
        done = self.virtoll(*arguments)
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def status(self, folder: Path) -> dict[str, Any]:
        """What `campaign status` prints as JSON."""
        shown: dict[str, Any] = json.loads(self.output("campaign", "status", folder, "--json"))
        return shown

    def hold(self, *blocks: int) -> None:
        """Tasks of these blocks wait from now on."""
        for block in blocks:
            os.mkfifo(self.holds / f"block-{block}")

    def release(self, block: int) -> None:
        """It goes on; who comes later does not wait."""
        hold = self.holds / f"block-{block}"
        # A FIFO that is opened for both waits for nobody. It stays open for a task that is about to open it.
        os.open(hold, os.O_RDWR)
        hold.unlink(missing_ok=True)  # the task may have been faster

    def interrupted(self, block: int) -> None:
        """Wait until a signal has ended its waiting."""
        self.cluster.until(lambda: not (self.holds / f"block-{block}").exists(), f"block {block} is interrupted")

    def held(self, block: int) -> str:
        """The node where a block's task waits, once it does."""
        at = self.holds / f"block-{block}.at"
        self.cluster.until(at.exists, f"block {block} is held")
        self.cluster.until(lambda: bool(at.read_text()), f"block {block} says where")
        return at.read_text()

    def jobs(self) -> list[str]:
        """The numbers of all jobs that are in Slurm's queue, in their order."""
        return sorted(set(self.cluster.output("squeue", "--noheader", "--format=%F").split()), key=int)

    def await_end(self) -> None:
        """Wait until Slurm's queue is empty."""
        self.cluster.until(lambda: self.cluster.run("squeue", "--noheader").stdout == "", "all tasks have ended")


def _within(pid: int, *argv: str | Path) -> list[str]:
    """The command that runs ``argv`` in the namespaces of a process."""
    spaces = ["--mount", "--net", "--ipc", "--uts", "--pid"]
    return [*_LIVES_AS_LONG, "nsenter", "--target", str(pid), *spaces, "--", *map(str, argv)]


def _children(pid: int) -> list[int]:
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def _ended(process: subprocess.Popen[bytes]) -> None:
    """Kill a process, which takes what is below it along, and wait for it."""
    process.kill()
    process.communicate()
