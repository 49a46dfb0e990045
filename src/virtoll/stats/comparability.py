"""What may be compared with what: the same host, the same agent build, the same unit. Everything else is refused."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from virtoll.runfolder.records import BootRecord


@dataclass(frozen=True)
class Identity:
    """What has to be equal between two things that are compared; None: not known, which is not a difference."""

    host_fingerprint: str | None
    agent_sha256: str | None
    unit: str | None


def why_incomparable(identity: Identity, other: Identity) -> str | None:
    """The first reason why two results must not be compared, or None when they may."""
    pairs = (
        ("other host", identity.host_fingerprint, other.host_fingerprint),
        ("other build of the agent", identity.agent_sha256, other.agent_sha256),
        ("other unit", identity.unit, other.unit),
    )
    for what, mine, theirs in pairs:
        if mine is not None and theirs is not None and mine != theirs:
            return f"not comparable: {what} ({mine[:12]} against {theirs[:12]})"
    return None


def machine_of(host: Mapping[str, Any]) -> tuple[str, ...]:
    """What stays the same of a manifest's host when its kernel or its mitigations are renewed.

    The fingerprint has these too. A history is of one machine, over its kernels: it has the name, the CPUs and what is
    below them. Of a host without a name (an old record) it is the fingerprint.
    """
    if host.get("hostname_hash") is None:
        return (str(host["fingerprint"]),)
    return tuple(str(host.get(key)) for key in ("hostname_hash", "cpu_model", "cpus", "hypervisor"))


def agents_by_platform(boots: Iterable[BootRecord]) -> dict[str, frozenset[str]]:
    """Hashes of the agent's binary as measured inside the guests, by platform."""
    agents: dict[str, set[str]] = {}
    for boot in boots:
        hashes = agents.setdefault(boot.platform, set())
        if boot.facts is not None and boot.facts.agent_sha256 is not None:
            hashes.add(boot.facts.agent_sha256)
    return {platform: frozenset(hashes) for platform, hashes in agents.items()}


def why_platform_incomparable(agents: dict[str, frozenset[str]], platform: str, baseline: str) -> str | None:
    """Why a platform of one run must not be compared with the baseline: it, or both, ran another agent."""
    mine, theirs = agents.get(platform, frozenset()), agents.get(baseline, frozenset())
    for name, hashes in ((platform, mine), (baseline, theirs)):
        if len(hashes) > 1:
            return f"not comparable: {name} ran {len(hashes)} different builds of the agent"
    agent, other = next(iter(mine), None), next(iter(theirs), None)
    return why_incomparable(Identity(None, agent, None), Identity(None, other, None))


_MUST_BE_EQUAL = ("CPUs", "CPU quota", "memory")


def unlike_facts(boots: Iterable[BootRecord], platform: str, baseline: str) -> tuple[str, ...]:
    """Which of CPUs, CPU quota and memory one of both has not as it was asked for, and the other has.

    A baseline that limits no memory is not told: the bare host never does. None where one of both was never started.
    """
    mismatches: dict[str, set[str]] = {}
    for boot in boots:
        mismatches.setdefault(boot.platform, set()).update(text.partition(":")[0] for text in boot.mismatches)
    if platform not in mismatches or baseline not in mismatches:
        return ()
    facts, base = mismatches[platform], mismatches[baseline]
    return tuple(name for name in _MUST_BE_EQUAL if name in facts - base or (name != "memory" and name in base - facts))
