"""Whether a guest is what was asked for: the request against what was measured inside it and what its host says.

Main type: ``Mismatch``. Pure. A mismatch that makes the guest another guest is *fatal*: trials in it
are invalid. A platform that holds no guest to its memory (the host itself) is unlike its request too. That is reported,
but its trials are what it was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from virtoll.host.guest_usage import HostView
from virtoll.platforms.base import GuestRequest
from virtoll.runfolder.facts import Facts

_KERNELS_SHARE = 0.2  # of a small machine's memory its kernel keeps up to a fifth for itself
_ROUNDING = 0.01
_FIRMWARES_SHARE = 0.02


@dataclass(frozen=True)
class Mismatch:
    """One way in which a guest is not what was asked for, in words; ``fatal``: its trials cannot be believed."""

    text: str
    fatal: bool


def compare(request: GuestRequest, facts: Facts, host: HostView) -> list[Mismatch]:
    """Every mismatch. What can be seen neither inside nor, for a guest on the host's kernel, from outside is none."""
    return [*_cpus(request, facts), *_memory(request, facts, host), *_quota(request, facts, host)]


def compare_pre_provisioned(request: GuestRequest, facts: Facts) -> list[Mismatch]:
    """The same for a guest that its user made: reported, never fatal, because nothing there could be made equal."""
    sentence = "is as it was found: its CPUs, memory, kernel and files are its user's choice and were not made equal"
    unpinned = replace(request, cpus=tuple(range(request.vcpus)))
    return [
        Mismatch(sentence, fatal=False),
        *(replace(mismatch, fatal=False) for mismatch in compare(unpinned, facts, HostView())),
    ]


def _cpus(request: GuestRequest, facts: Facts) -> Iterator[Mismatch]:
    """CPUs that may be used inside; not looked at where nothing could be pinned."""
    allowed = facts.cpus_allowed
    allowed = facts.cpus_online if allowed is None else allowed  # gVisor tells no mask
    if request.cpus and allowed is not None and allowed != request.vcpus:
        yield Mismatch(f"CPUs: asked {request.vcpus}, usable inside {allowed}", True)


def _memory(request: GuestRequest, facts: Facts, host: HostView) -> Iterator[Mismatch]:
    """A kernel of its own: what it was given, or else what it has left; the host's kernel: the limit on the guest."""
    requested, total = request.memory_bytes, facts.memory_total_bytes
    outside = host.limits.memory_bytes
    # systemd-nspawn gives its container a boot id of its own, and on cgroup v2 hides the group with the limit from it.
    held = outside is not None and abs(outside - requested) <= _ROUNDING * requested
    shares_kernel = host.boot_id is not None and (facts.boot_id == host.boot_id or held)
    installed = facts.memory_installed_bytes
    if host.boot_id is not None and not shares_kernel and installed is not None and not facts.memory_limit_bytes:
        if not (1 - _FIRMWARES_SHARE) * requested <= installed <= (1 + _ROUNDING) * requested:
            yield Mismatch(f"memory: asked {requested >> 20} MiB, inside {installed >> 20} MiB", True)
        return
    limits = [facts.memory_limit_bytes, outside if shares_kernel else None]
    seen = min((value for value in (total, *limits) if value), default=None)
    if seen is not None and not (1 - _KERNELS_SHARE) * requested <= seen <= (1 + _ROUNDING) * requested:
        unlimited = host.memory_total_bytes is not None and seen >= (1 - _FIRMWARES_SHARE) * host.memory_total_bytes
        yield Mismatch(f"memory: asked {requested >> 20} MiB, inside {seen >> 20} MiB", not unlimited)


def _quota(request: GuestRequest, facts: Facts, host: HostView) -> Iterator[Mismatch]:
    """The tightest quota seen inside or set outside, in CPUs; one that nobody asked for is the whole host's."""
    inside = facts.cpu_quota
    seen = [inside.quota_us / inside.period_us] if inside else []
    seen += [host.limits.cpu_quota] if host.limits.cpu_quota is not None else []
    tightest, quota = min(seen, default=None), request.cpu_quota
    if quota is not None and tightest is not None and abs(tightest - quota) > _ROUNDING * quota:
        yield Mismatch(f"CPU quota: asked {quota:g}, found {tightest:g}", True)
    elif quota is None and tightest is not None and tightest < request.vcpus:
        yield Mismatch(f"CPU quota: none asked, found {tightest:g}", False)
