"""What holds for all commands: exit codes and environment variables, as data.

``virtoll help exit-codes`` and ``virtoll help environment``, the manual page and docs/commands.md are made of it. A
test holds it to the code: each code of ``errors``, and each variable that the source names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class ExitCode:
    """A number that a command ends with, and when."""

    code: int
    meaning: str


@dataclass(frozen=True)
class Variable:
    """An environment variable that a person may set, what it is for, and what holds without it."""

    name: str
    meaning: str
    without: str


EXIT_CODES: Final = (
    ExitCode(0, "What was asked for is done."),
    ExitCode(
        1,
        "It could not be done, and one sentence says why. Also what doctor, selftest and verify end with where "
        "something does not work, is not found or has changed.",
    ),
    ExitCode(2, "The input was wrong: a file, a key, a setting or an option. Nothing was started, and nothing lost."),
    ExitCode(
        3,
        "The run missed a threshold, of its experiment or of --fail-if. It is complete, and reported. Of compare "
        "and history with --fail-if-slower: a platform became slower.",
    ),
    ExitCode(
        4,
        "The run cannot tell whether a threshold is met, or its A/A control differs. It is complete, and reported. Of "
        "compare and history with --fail-if-slower: it is not known whether a platform became slower.",
    ),
    ExitCode(130, "Interrupted. What was measured is stored: 'virtoll resume' continues."),
)

ENVIRONMENT: Final = (
    Variable("VIRTOLL_RUNS", "The folder of runs.", "'runs' in the current folder"),
    Variable(
        "VIRTOLL_CACHE",
        "The folder of guest images and whatever else is built once.",
        "/var/cache/virtoll for root, else virtoll in $XDG_CACHE_HOME",
    ),
    Variable(
        "VIRTOLL_STATE",
        "The folder of what a run or a tuning must undo, also after a crash; no other user may write to it.",
        "/run/virtoll for root, else virtoll in $XDG_RUNTIME_DIR or a private folder in /tmp",
    ),
    Variable("VIRTOLL_AGENT", "The agent's program.", "build/virtoll-agent of a clone, else the package's own"),
    Variable(
        "VIRTOLL_KERNEL",
        "The guest kernel: apt, the path of a .deb file, or URL#sha256=HEX.",
        "the one in the cache, else the package's list (docs/image.md)",
    ),
    Variable(
        "VIRTOLL_NODES",
        "Which hosts the nodes of a testbed are: LABEL=ssh:HOST, with commas between several.",
        "an experiment whose testbed has nodes is not measured",
    ),
    Variable("NO_COLOR", "Set to anything: neither colours nor other escapes (https://no-color.org).", "colours"),
    Variable("SUDO_USER", "Set by sudo: root's own browser is then not opened by --open.", "a browser is opened"),
    Variable("XDG_CACHE_HOME", "The user's cache folder.", "~/.cache"),
    Variable("XDG_RUNTIME_DIR", "The user's folder of what does not outlive the session.", "a private folder in /tmp"),
    Variable(
        "XDG_CONFIG_HOME",
        "Where the key of anonymous packed runs is, and Go's settings, when gVisor's runsc is built.",
        "~/.config",
    ),
    Variable("GOENV", "The file of Go's settings, when gVisor's runsc is built.", "go/env in $XDG_CONFIG_HOME"),
    Variable("PATH", "Where programs are looked for, before the system's folders (/usr/sbin, ...).", "these alone"),
    Variable("OPENBLAS_NUM_THREADS", "Threads of the statistics' linear algebra.", "1"),
    Variable(
        "PYDANTIC_DISABLE_PLUGINS",
        "Which plug-ins of pydantic's are left out; looking for them makes every start slower.",
        "all of them",
    ),
)
INTERNAL: Final = frozenset(
    {
        "VIRTOLL_HOST_PROC",
        "VIRTOLL_LAB",
        "VIRTOLL_QUIET",
        "VIRTOLL_VERBOSE",
        "VIRTOLL_NO_KERNEL",
        "VIRTOLL_LAB_RECORD",
        "VIRTOLL_LAUNCHER",
        "VIRTOLL_OUTSIDE",
        "VIRTOLL_PINNER",
        "VIRTOLL_TESTBED",
        "VIRTOLL_TUNED",
        "SLURM_ARRAY_JOB_ID",
        "SLURM_ARRAY_TASK_ID",
        "SLURM_RESTART_COUNT",
    }
)
"""What Virtoll gives itself in a lab, and Slurm its tasks: to set one by hand has no use."""

TOPICS: Final = {"environment": "Environment variables", "exit-codes": "Exit codes"}


def lines(topic: str) -> list[tuple[str, str]]:
    """A topic as terms with what they mean; ``KeyError`` where there is no such topic."""
    if topic == "environment":
        return [(variable.name, f"{variable.meaning} Without it: {variable.without}.") for variable in ENVIRONMENT]
    if topic == "exit-codes":
        return [(str(exit_code.code), exit_code.meaning) for exit_code in EXIT_CODES]
    raise KeyError(topic)
