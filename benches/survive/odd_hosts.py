"""Hosts over SSH that behave oddly: a run whose generator is such a host ends by one sentence, and leaves nothing.

The hosts are two network namespaces with a real sshd each (``tests/support/ssh_hosts.py``). Every command on them goes
through a script that is changed from case to case. Main function: ``odd_hosts``.
"""

from __future__ import annotations

import re
import resource
import subprocess
import tempfile
import time
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml
from tests.support import machine
from tests.support.ssh_hosts import SshHosts, ssh_hosts

PLAIN: Final = 'exec sh -c "$SSH_ORIGINAL_COMMAND"\n'
_FLOOD: Final = "head -c 100000000 /dev/zero | tr '\\0' x"
BEHAVIOURS: Final[Mapping[str, tuple[str, str]]] = {
    "as it should": (PLAIN, r"has no interface nothing0"),
    "words before the output": ("echo Welcome to alpha\n" + PLAIN, r"its shell prints 'Welcome to alpha' before"),
    "steering letters before the output": (
        "printf '\\033[2J\\033]0;owned\\007'\n" + PLAIN,
        r"its shell prints .*x1b\[2J.* before",
    ),
    "no UTF-8 before the output": ("printf '\\377\\376\\n'\n" + PLAIN, r"its shell prints .* before"),
    "100 MB before the output": (f"{_FLOOD}\n" + PLAIN, r"printed more than 64 MiB"),
    "output without end": ("exec yes\n", r"printed more than 64 MiB"),
    "one line without end": ("exec cat /dev/zero\n", r"printed more than 64 MiB"),
    "100 MB of complaints": (f"{_FLOOD} >&2\n" + PLAIN, r"has no interface nothing0"),
    "steering complaints": (
        "printf '\\033[2J\\033]0;owned\\007\\n' >&2\nexit 3\n",
        r"ended with 3: .*x1b\[2J",
    ),
    "complaints of one long line": (f"{_FLOOD} >&2\nexit 3\n", r"ended with 3: x+"),
    "another version": (
        'case "$SSH_ORIGINAL_COMMAND" in *--version) echo virtoll-agent 9.9.9;; *) ' + PLAIN.strip() + ";; esac\n",
        r"runs agent 'virtoll-agent 9.9.9', this machine 'virtoll-agent",
    ),
    "no JSON of the agent": (
        'case "$SSH_ORIGINAL_COMMAND" in *peer*) cat >/dev/null; echo hello;; *) ' + PLAIN.strip() + ";; esac\n",
        r"did not tell its interfaces, but 'hello'",
    ),
    "deep JSON of the agent": (
        'case "$SSH_ORIGINAL_COMMAND" in *peer*) cat >/dev/null; head -c 200000 /dev/zero | tr "\\0" "[";; *) '
        + PLAIN.strip()
        + ";; esac\n",
        r"did not tell its interfaces, but '\[",
    ),
    "an account that may not log in": ("echo This account is currently not available.\nexit 1\n", r"ended with 1"),
    "a restricted shell": ('exec bash -r -c "$SSH_ORIGINAL_COMMAND"\n', r"restricted|ended with"),
    "a shell that is none": ('exec python3 -c "$SSH_ORIGINAL_COMMAND"\n', r"ended with 1|prints"),
    "no dd": (
        'case "$SSH_ORIGINAL_COMMAND" in dd*) exit 127;; *) ' + PLAIN.strip() + ";; esac\n",
        r"dd: not found on ssh alpha",
    ),
    "a connection that is closed": ("kill -9 $PPID\n", r"cannot be reached|ended with 255"),
    "no room in /tmp": (
        'case "$SSH_ORIGINAL_COMMAND" in dd*) mount -t tmpfs -o size=4k none /tmp;; esac\n' + PLAIN,
        r"ended with 1: .*No space left",
    ),
    "a noexec /tmp": (
        'case "$SSH_ORIGINAL_COMMAND" in dd*) mount -t tmpfs -o noexec none /tmp;; esac\n' + PLAIN,
        r"ended with 126: .*Permission denied|Permission denied",
    ),
    "a read-only /tmp": (
        'case "$SSH_ORIGINAL_COMMAND" in dd*) mount -t tmpfs -o ro none /tmp;; esac\n' + PLAIN,
        r"ended with 1: .*Read-only",
    ),
}
"""What a host does with every command, and what the sentence says then."""
SLOW: Final[Mapping[str, tuple[str, str]]] = {
    "silence": ("exec sleep 1000\n", r"'true' did not end within 120 s"),
    "complaints without end": ("exec yes >&2\n", r"'true' did not end within 120 s"),
}
"""The same for those that cost a deadline."""
EXPERIMENT: Final = {
    "name": "odd-host",
    "question": "Is it so?",
    "platforms": ["native"],
    "workloads": ["forward"],
    "testbed": {
        "generator": {"host": {"ssh": "alpha"}, "interfaces": ["nothing0"]},
        "sink": {"host": {"ssh": "alpha"}, "interfaces": ["nothing0"]},
        "hypervisor": {"host": "local", "interfaces": ["way0", "lo"]},
    },
}


@dataclass(frozen=True)
class Told:
    """One host: how it behaved, how ``run`` ended, and what is wrong with that. ``memory_bytes``: of all so far."""

    behaviour: str
    code: int
    said: str
    seconds: float
    memory_bytes: int
    wrong: tuple[str, ...]


def odd_hosts(behaviours: Mapping[str, tuple[str, str]]) -> Iterator[Told]:
    """One after the other, each with a run that uses the host; root's."""
    with (
        tempfile.TemporaryDirectory(prefix="virtoll-inputs-hosts-", dir="/var/tmp") as name,
        ssh_hosts(Path(name), ("alpha",), PLAIN) as hosts,
    ):
        folder = Path(name)
        (folder / "odd.yaml").write_text(yaml.safe_dump(EXPERIMENT), encoding="utf-8")
        for behaviour, (script, sentence) in behaviours.items():
            yield _told(hosts, folder, behaviour, script, sentence)


def _told(hosts: SshHosts, folder: Path, behaviour: str, script: str, sentence: str) -> Told:
    on_host = Path(f"/proc/{hosts.hosts['alpha']}/root")
    (on_host / "run/keys/behaviour").write_text(script, encoding="utf-8")
    begun = time.monotonic()
    code, said = hosts.virtoll("run", folder / "odd.yaml", "--into", folder / "run", runs=folder)
    seconds = time.monotonic() - begun
    (on_host / "run/keys/behaviour").write_text(PLAIN, encoding="utf-8")
    wrong = list(_wrong(code, said, sentence))
    left, _ = machine.poll_until_empty(lambda: [*hosts.copies("alpha"), *map(str, hosts.agents("alpha"))])
    wrong += [f"left on the host: {one}" for one in left]
    if (folder / "run").exists():
        wrong.append("a run folder was made")
    unmounted = ["nsenter", f"--target={hosts.hosts['alpha']}", "--mount", "--", "umount", "/tmp"]  # noqa: S108
    while _mounts(on_host) > 1 and subprocess.run(unmounted, capture_output=True, check=False).returncode == 0:
        pass
    held = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10
    return Told(behaviour, code, said, seconds, held, tuple(wrong))


def _mounts(on_host: Path) -> int:
    """How many file systems are mounted on the host's /tmp."""
    lines = (on_host.parent / "mountinfo").read_text(encoding="utf-8").splitlines()
    return sum(line.split()[4] == "/tmp" for line in lines)  # noqa: S108


def _wrong(code: int, said: str, sentence: str) -> Iterator[str]:
    lines = said.rstrip("\n").split("\n")
    if code != 2:
        yield f"exit code {code}"
    if not re.search(sentence, lines[-1]):
        yield f"its sentence is {lines[-1][:300]!r}"
    if "Traceback" in said:
        yield "traceback"
    steering = {one for one in said if one not in "\n\t" and unicodedata.category(one) == "Cc"}
    if steering:
        yield f"control characters: {sorted(steering)}"
    if len(said) > 100_000:
        yield f"{len(said)} characters of complaint"


def table(told: Sequence[Told]) -> str:
    """All of them as Markdown."""
    head = "| host over SSH | exit code | seconds | wrong |\n| --- | ---: | ---: | --- |"
    rows = (f"| {one.behaviour} | {one.code} | {one.seconds:.1f} | {'; '.join(one.wrong) or '–'} |" for one in told)
    most = max((one.memory_bytes for one in told), default=0) / 2**20
    return "\n".join([head, *rows, "", f"Most memory of a process: {most:.0f} MiB."])
