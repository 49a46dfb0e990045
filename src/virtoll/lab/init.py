"""PID 1 of the lab: prepares mounts, starts the command, reaps orphans, and dies with the launcher.

Imports only how Python is started, so that it is ready in a few milliseconds. When this process exits the kernel kills
everything else in the PID namespace; that is how a lab ends, in order or not.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

from virtoll.system.python import isolated

SCRATCH = Path("/run/virtoll")
_SIGNALS = {b"I": signal.SIGINT, b"T": signal.SIGTERM}


def main(arguments: list[str]) -> int:
    """``init.py LIFELINE_FD JANITOR_FD ARGUMENTS...``: run ``virtoll ARGUMENTS`` as the lab's one command."""
    lifeline = int(arguments[0])
    announce(int(arguments[1]))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    prepare_mounts()
    silence_ipv6()
    child = os.fork()
    if child == 0:
        os.close(lifeline)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        os.execv(sys.executable, isolated("virtoll", *arguments[2:]))  # noqa: S606 - an argument list
    code = _watch(child, lifeline)
    with contextlib.suppress(OSError):
        os.write(lifeline, bytes([code & 0xFF]))
    return code


def announce(janitor: int) -> None:
    """Hand the janitor a pidfd of this process: by it the janitor knows when the whole PID namespace is dead."""
    with socket.socket(fileno=janitor) as connection, contextlib.suppress(OSError):
        descriptor = os.pidfd_open(os.getpid())
        socket.send_fds(connection, [b"1"], [descriptor])
        os.close(descriptor)


def prepare_mounts() -> None:
    """A private /run (all tools' sockets and temporary files go with it), and the /sys of this network namespace.

    The cgroup hierarchies are carried over, because a fresh /sys hides them. A kernel or container that refuses a fresh
    /sys keeps the old one. Then interface files below /sys/class/net are the host's, and Virtoll reads netlink instead.
    """
    # Without -n mount(8) makes itself a folder in the machine's own /run first, and that would stay.
    _mount("-n", "-t", "tmpfs", "-o", "mode=0755,nosuid,nodev", "tmpfs", "/run", required=True)
    cgroups = SCRATCH / "cgroup"
    for folder in (SCRATCH / "tmp", SCRATCH / "guests", cgroups):
        folder.mkdir(parents=True)
    os.environ["TMPDIR"] = str(SCRATCH / "tmp")
    has_cgroups = Path("/sys/fs/cgroup").is_dir() and _mount("--rbind", "/sys/fs/cgroup", str(cgroups))
    if _mount("-t", "sysfs", "sysfs", "/sys") and has_cgroups:
        _mount("--rbind", str(cgroups), "/sys/fs/cgroup")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True, stdin=subprocess.DEVNULL)


def silence_ipv6() -> None:
    """No IPv6 on interfaces made from now on, unless switched on for one. Else each bridge and each port of it sends
    neighbour discovery and multicast reports into the links that are measured.
    """
    with contextlib.suppress(OSError):  # a kernel without IPv6 is silent anyway
        Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1", encoding="ascii")


def _mount(*arguments: str, required: bool = False) -> bool:
    finished = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if finished.returncode != 0 and required:
        print(f"virtoll: mount {' '.join(arguments)}: {finished.stderr.strip()}", file=sys.stderr)
        sys.exit(1)
    return finished.returncode == 0


def _watch(child: int, lifeline: int) -> int:
    """Reap every orphan until the command ends (its exit code is ours) or the launcher is gone (exit at once)."""
    wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    while True:
        code = _reap(child)
        if code is not None:
            return code
        ready, _, _ = select.select([lifeline, wake_read], [], [])
        if wake_read in ready:
            os.read(wake_read, 4096)
        if lifeline in ready:
            request = os.read(lifeline, 1)
            if not request:
                os._exit(137)
            if request in _SIGNALS:
                os.kill(child, _SIGNALS[request])


def _reap(child: int) -> int | None:
    """Collect every process that has ended; the command's exit code when it is among them."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return 1
        if pid == 0:
            return None
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
