"""Platforms with a caveat: their ratios are reported, never tested, and change nothing about the others."""

from dataclasses import replace

from tests.support.facts import assert_facts
from tests.support.synthetic_run import REALISTIC, Truth, records, run_data

from virtoll.experiment.topology import FUNCTIONAL_ONLY
from virtoll.report.sections.forwarding.losses import loss_values
from virtoll.runfolder.records import BootRecord, Manifest, PlatformEntry, TrialRecord
from virtoll.runfolder.store import parse_record
from virtoll.stats.analysis import RunData, analyse
from virtoll.stats.caveats import caveats_of, hosts_of, why_other_host
from virtoll.stats.compare import Verdict

COSTS = REALISTIC | {"xen": {"packet path": 200.0, "cpu": 30.0, "memory": 0.5}}
NESTED = {"xen": ("nested xen", FUNCTIONAL_ONLY)}


def without(data: RunData, label: str) -> RunData:
    """The same records as if that platform had never been asked for."""
    manifest = data.manifest
    plan = manifest.plan.replace(trials=tuple(one for one in manifest.plan.trials if one.platform != label))
    platforms = tuple(one for one in manifest.platforms if one.label != label)
    return replace(
        data,
        manifest=manifest.replace(plan=plan, platforms=platforms),
        trials=tuple(one for one in data.trials if one.platform != label),
        boots=tuple(one for one in data.boots if one.platform != label),
    )


def test_the_others_are_judged_as_if_it_were_not_there() -> None:
    data = run_data(Truth(COSTS, caveats=NESTED, blocks=5))
    one, other = analyse(data), analyse(without(data, "xen"))
    assert [c for c in one.comparisons if c.platform != "xen"] == list(other.comparisons)
    assert (one.family, one.detectable, one.control) == (other.family, other.detectable, other.control)
    assert one.drift is not None
    assert other.drift is not None
    assert one.drift.p_value == other.drift.p_value
    plain = analyse(run_data(Truth(COSTS, blocks=5)))
    assert plain.family == one.family + len(one.tasks)
    assert {c.verdict for c in plain.comparisons if c.platform == "xen"} & {Verdict.SLOWER, Verdict.FASTER}


def test_cautions_and_the_sum_of_losses_are_of_results_alone() -> None:
    """xen loses nearly all; the other platform of this run loses nothing at a paced rate."""
    found = analyse(
        run_data(Truth({"native": {}, "xen": {"packet path": 200.0}}, control=None, wired=True, caveats=NESTED))
    )
    assert any(row.lost_frames and not row.flat_out for row in found.losses if row.platform == "xen")
    assert not any("xen" in one.concerns for one in found.cautions)
    plain = analyse(run_data(Truth({"native": {}, "xen": {"packet path": 200.0}}, control=None, wired=True)))
    lost = {row.platform: row.lost_frames for row in plain.losses if not row.flat_out}
    summary = loss_values(found)["summary"]
    assert lost["xen"] > 0
    assert summary != loss_values(plain)["summary"]
    native = sum(row.lost_frames for row in found.losses if row.platform == "native" and not row.flat_out)
    assert_facts(summary, native)


def test_records_of_before_are_read_and_have_none() -> None:
    manifest, lines = records(Truth(REALISTIC, blocks=1))
    for one in (*manifest["platforms"], *lines["boots"], *lines["trials"]):
        del one["host"], one["caveat"]
    trial, boot = parse_record(TrialRecord, lines["trials"][0]), parse_record(BootRecord, lines["boots"][0])
    entry = parse_record(Manifest, manifest).platforms[0]
    assert [(one.host, one.caveat) for one in (trial, boot, entry)] == [(None, None)] * 3


def test_a_platforms_caveat_is_its_first_and_unnamed_hosts_are_alike() -> None:
    """By the manifest, then by its starts, then by its trials, whichever was first in the order of records."""
    plain = run_data(Truth(COSTS, blocks=1))

    def entry(label: str, host: str | None, caveat: str | None) -> PlatformEntry:
        return plain.manifest.platforms[0].replace(label=label, host=host, caveat=caveat)

    entries = entry("a", "here", "of a"), entry("b", None, None), entry("c", "there", None), entry("d", "here", None)
    manifest = plain.manifest.replace(platforms=entries)
    boots = [plain.boots[0].replace(platform=label, caveat=caveat) for label, caveat in (("b", "of b"), ("a", "late"))]
    trials = [
        plain.trials[0].replace(platform=label, caveat=caveat) for label, caveat in (("c", "of c"), ("b", "late"))
    ]
    assert caveats_of(manifest, boots, trials) == {"a": "of a", "b": "of b", "c": "of c"}
    hosts = hosts_of(manifest)
    assert hosts == {"a": "here", "c": "there", "d": "here"}
    assert [why_other_host(hosts, label, "a") for label in ("a", "b", "d")] == [None] * 3
    assert why_other_host(hosts, "a", "b") is None
    assert_facts(why_other_host(hosts, "c", "a") or "", "c", "there", "a", "here")
