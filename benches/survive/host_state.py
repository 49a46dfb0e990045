"""What of this machine a run must leave as it was, beside what ``tests.support.machine`` sees.

Packet filters, kernel settings, network cards with addresses and routes, loop and mapped devices, System V memory, the
cgroups' own settings at the root. Main type: ``HostState``. Only read here, and nothing is changed.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.machine import lab_in

_SETTINGS = ("net", "kernel", "vm")
# What the kernel counts or draws there by itself, and the settings of hosts that others have spoken with.
_MOVING = re.compile(
    r"^(kernel/(random/|ns_last_pid|pty/nr|perf_event_max_sample_rate|hung_task_detect_count|(msg|sem|shm)_next_id)"
    r"|net/netfilter/nf_conntrack_count|net/ipv[46]/neigh/)"
)
_FILTERS = (("iptables-save",), ("ip6tables-save",), ("nft", "list", "ruleset"))
_NETWORK = (("ip", "-details", "link"), ("ip", "address"), ("ip", "route"), ("ip", "-6", "route"), ("ip", "rule"))
_CARD = ("--show-features", "--show-ring", "--show-channels", "--show-coalesce", "--show-pause")
_COUNTED = re.compile(r"\[\d+:\d+\]|^#.*$|(valid|preferred)_lft \S+|expires \S+|\bused \d+|\bage \S+", re.MULTILINE)
_SECONDS = 60.0


@dataclass(frozen=True)
class HostState:
    """What was found, by what it is of."""

    found: Mapping[str, str]

    def differences(self, later: HostState, labs: Collection[str]) -> list[str]:
        """What is otherwise later, with both values, in a line each; what bears the id of another lab is left out."""
        changed = []
        for name in sorted({*self.found, *later.found}):
            before, after = (_without_others(state.found.get(name), labs) for state in (self, later))
            if before != after:
                changed.append(f"{name}: {before!r}, then {after!r}"[:400])
        return changed


def _without_others(text: str | None, labs: Collection[str]) -> str | None:
    """A loop device, such as this, is in the list for as long as somebody else's lab needs it."""
    if text is None:
        return None
    return "\n".join(line for line in text.splitlines() if lab_in(line) in (None, *labs))


def host_state() -> HostState:
    """This machine now."""
    return HostState(dict(_all()))


def _all() -> Iterator[tuple[str, str]]:
    for command in (*_FILTERS, *_NETWORK, ("losetup", "--list", "--noheadings"), ("ipcs", "-m")):
        yield " ".join(command), _told(*command)
    for card in sorted(one.name for one in Path("/sys/class/net").iterdir()):
        for what in _CARD:
            yield f"ethtool {what} {card}", _told("ethtool", what, card)
    mapped = Path("/dev/mapper")
    if mapped.is_dir():
        yield "devices of the device mapper", " ".join(sorted(one.name for one in mapped.iterdir()))
    for top in _SETTINGS:
        for folder, _, files in os.walk(f"/proc/sys/{top}"):
            for name in files:
                setting = str(Path(folder, name).relative_to("/proc/sys"))
                if not _MOVING.match(setting):
                    yield setting, _value(Path(folder, name))


def _told(*command: str) -> str:
    """What a program prints; empty where it is not installed."""
    if shutil.which(command[0]) is None:
        return ""
    finished = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
    return _COUNTED.sub("", finished.stdout)


def _value(file: Path) -> str:
    with contextlib.suppress(OSError):
        return file.read_text(encoding="utf-8", errors="replace")
    return ""
