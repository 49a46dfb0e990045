"""Caveats of platforms: what was measured on a host whose numbers are no results, such as a nested host.

A caveat is text from the records, `nested: functional only`. A platform is marked with a caveat when its entry in the
manifest or any of its boots or trials is. One record with a caveat is enough, because nobody can take it out of a
median again. Pure.
"""

from collections.abc import Iterable, Mapping

from virtoll.runfolder.records import BootRecord, Manifest, TrialRecord


def caveats_of(manifest: Manifest, boots: Iterable[BootRecord], trials: Iterable[TrialRecord]) -> dict[str, str]:
    """The caveat of each platform that has one, by label, in the order found; platforms without one are missing."""
    caveats: dict[str, str] = {}
    named = [(entry.label, entry.caveat) for entry in manifest.platforms]
    named += [(boot.platform, boot.caveat) for boot in boots]
    named += [(trial.platform, trial.caveat) for trial in trials]
    for label, caveat in named:
        if caveat is not None:
            caveats.setdefault(label, caveat)
    return caveats


def hosts_of(manifest: Manifest) -> dict[str, str]:
    """Where each platform's guests live, in words; a platform of an older record is missing."""
    return {entry.label: entry.host for entry in manifest.platforms if entry.host is not None}


def why_other_host(hosts: Mapping[str, str], platform: str, baseline: str) -> str | None:
    """Why a platform must not be compared with the baseline at all: they ran on different hosts."""
    mine, theirs = hosts.get(platform), hosts.get(baseline)
    if mine is None or theirs is None or mine == theirs:
        return None
    return f"not comparable: {platform} ran on {mine}, {baseline} on {theirs}"
