"""Probes that take long are remembered: a guest is booted once for each boot of the host, not before every run.

The memory is a file in the cache, named after all that the outcome depends on. That is the host's boot, its kernel, the
image, the platform with its parameters, and what the platform itself names. ``virtoll doctor`` always tries anew, and
several at once try together. What took too long is not remembered: it says something of that moment, and nothing of the
host.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform as host_platform
import re
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from virtoll.experiment.model import Parameters, PlatformChoice
from virtoll.image import default_cache, file_digest
from virtoll.lab import interrupts
from virtoll.pipeline.requirements import why_not_there
from virtoll.platforms.base import Platform, Probe
from virtoll.platforms.host import Site
from virtoll.platforms.limits import OwnLimits
from virtoll.runfolder import jsonlines
from virtoll.system.locks import LockBusy, held
from virtoll.system.private import NotPrivate, make_shown_folder, writers_refusal

_OTHERS_SECONDS: Final = 180.0  # longer than a probe takes that is not stuck
_SLOW_SECONDS: Final = 2.0  # a boot that is worth waiting for another process that tries it
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# As every deadline of Virtoll is told, and most of others' programs.
_TOO_LATE = re.compile(r"\b(within|in|after) [0-9.]+ s\b|\btimed? ?-?out\b", re.IGNORECASE)


def probe(driver: Platform[Parameters], choice: PlatformChoice, site: Site, *, since_ns: int | None = None) -> Probe:
    """The platform's probe, from memory where that is slow and nothing has changed; never raises.

    ``since_ns``: what was tried before this time of CLOCK_REALTIME does not count; None: all counts. Of several that
    ask so at once, one tries and the others take its outcome. Another host is always asked.
    """
    if (reason := why_not_there(choice, type(driver), None)) is not None:
        return Probe(False, None, reason)
    if isinstance(choice.parameters, OwnLimits) and (unset := choice.parameters.refusal(site)) is not None:
        return Probe(False, None, unset)
    depends_on = driver.depends_on()
    without = driver.needs_kernel and site.image.machine is None  # quick, and no fact of this host
    if choice.host is not None or without:
        return _tried(driver, site)
    if depends_on is None and (since_ns is None or driver.boot_seconds < _SLOW_SECONDS):
        return _tried(driver, site)
    key = _key(driver.tried_as(choice), site, depends_on or _of_this_moment())
    memory = default_cache().home / "probes" / f"{key}.json"
    if since_ns is None:
        with contextlib.suppress(*_NO_MEMORY):
            return _recall(memory)
        return _stored(driver, site, memory)
    with _alone(memory):
        with contextlib.suppress(*_NO_MEMORY):
            if memory.stat().st_mtime_ns >= since_ns:
                return _read(memory)[0]
        return _stored(driver, site, memory)


_NO_MEMORY = (OSError, ValueError, TypeError, KeyError)  # of a file that is not there, or damaged


def _of_this_moment() -> str:
    """What another process must have in common with this one whose probe names nothing that its outcome depends on."""
    return f"tried now by {os.geteuid()}, programs of {os.environ.get('PATH', '')}"


@contextlib.contextmanager
def _alone(memory: Path) -> Iterator[None]:
    """One process at a time for each outcome; without a lock if it cannot be had, or another process takes too long."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError, NotPrivate, LockBusy):
            make_shown_folder(memory.parent)
            folder = os.open(memory.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, folder)
            stack.enter_context(held(f"{memory.stem}.lock", folder, _OTHERS_SECONDS))
        yield


def _stored(driver: Platform[Parameters], site: Site, memory: Path) -> Probe:
    """Tried now, and remembered if it would be the same in a moment."""
    outcome = _tried(driver, site)
    with contextlib.suppress(OSError, NotPrivate):
        if _is_lasting(outcome):
            _remember(memory, outcome)
        else:
            memory.unlink(missing_ok=True)
    return outcome


def _tried(driver: Platform[Parameters], site: Site) -> Probe:
    outcome = driver.probe(site)
    interrupts.check()  # before it is stored: the probe may have failed of it
    return outcome


def _is_lasting(outcome: Probe) -> bool:
    """Whether the outcome would be the same in a moment when the host has less to do."""
    return outcome.available or _TOO_LATE.search(outcome.reason or "") is None


def _key(choice: PlatformChoice, site: Site, depends_on: str) -> str:
    parts = [
        _BOOT_ID.read_text(encoding="ascii").strip(),
        host_platform.release(),
        site.image.digest,
        site.image.machine.kernel.sha256 if site.image.machine is not None else "no kernel",
        choice.platform,
        choice.parameters.model_dump_json(),
        depends_on,
        *(f"{name} {file_digest(file)}" for name, file in site.builds.items()),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def _recall(memory: Path) -> Probe:
    outcome, tried = _read(memory)
    if outcome.reason is None:
        return outcome
    return Probe(False, outcome.version, f"{outcome.reason} (tried {tried}; 'virtoll doctor' tries again)")


def _read(memory: Path) -> tuple[Probe, str]:
    """The outcome that another process stored, and when it tried."""
    if (refusal := writers_refusal(memory.parent)) is not None:
        raise PermissionError(refusal)
    stored = json.loads(memory.read_text(encoding="utf-8"))
    tried: str = stored.pop("tried")
    return Probe(**{**stored, "install": tuple(stored["install"])}), tried


def _remember(memory: Path, outcome: Probe) -> None:
    make_shown_folder(memory.parent)
    tried = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    jsonlines.replace_text(memory, json.dumps({**asdict(outcome), "tried": tried}))
