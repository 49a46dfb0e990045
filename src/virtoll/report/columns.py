"""What each column of a report's CSV tables means, and its unit: docs/tables.md is made of it.

Main function: `columns_of`. `TABLES` has the tables in the order of a report, `SHARED` the columns that mean the same
wherever they are. A test holds both to the tables that the code makes. Must not: compute anything.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

_NO_UNIT: Final = ""


@dataclass(frozen=True)
class Column:
    """A column's name, its unit ('' for a word or a number without one), and what it says."""

    name: str
    unit: str
    meaning: str


@dataclass(frozen=True)
class Table:
    """What a row is, the names of the columns in their order, and those that mean something of their own there."""

    rows: str
    names: tuple[str, ...]
    own: Mapping[str, tuple[str, str]] = field(default_factory=dict)


def columns_of(table: str) -> Iterator[Column]:
    """The columns of a table in their order; ``KeyError`` for one that nobody described."""
    described = TABLES[table]
    for name in described.names:
        yield Column(name, *(described.own.get(name) or SHARED[name]))


def _mbit(what: str, meaning: str) -> dict[str, tuple[str, str]]:
    """The three columns of a mean in Mbit/s (`csv_table.mean_columns`)."""
    unit = "Mbit/s"
    return {
        f"{what}_mean_mbit_per_second": (unit, f"{meaning}, on the wire: the mean over blocks"),
        f"{what}_low_mbit_per_second": (unit, "the low end of its 95 % t interval"),
        f"{what}_high_mbit_per_second": (unit, "the high end of it"),
    }


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


SHARED: Final[Mapping[str, tuple[str, str]]] = {
    "trial": (_NO_UNIT, "the trial's number in the plan, from 0"),
    "block": (_NO_UNIT, "the block's number, from 1; in the run folder it is one less"),
    "platform": (_NO_UNIT, "the platform's label"),
    "baseline": (_NO_UNIT, "the label that platforms are compared with"),
    "workload": (_NO_UNIT, "the workload's name"),
    "parameters": (_NO_UNIT, "its parameters: JSON with sorted keys"),
    "metric": (_NO_UNIT, "the metric's name"),
    "unit": (_NO_UNIT, "the unit of the values of this row"),
    "task": (_NO_UNIT, "workload, parameters and metric in words"),
    "condition": (_NO_UNIT, "what guests beside it did, or how many worked at once; empty: alone"),
    "label": (_NO_UNIT, "workload, parameters and metric in words, as everywhere"),
    "times_slower": ("factor", "1 / share: how many times slower; below 1 it is faster"),
    "status": (_NO_UNIT, "ok, invalid, failed or skipped"),
    "reason": (_NO_UNIT, "why there is no value, or no verdict"),
    "caveat": (_NO_UNIT, "why the platform's numbers are no measurements of speed; empty: they are"),
    "frame_size_bytes": ("bytes", "the frame with its FCS"),
    "sources": (_NO_UNIT, "traffic sources that send at once"),
    "point": (_NO_UNIT, "the point's place in its sweep, from 0"),
    "flat_out": ("0 or 1", "whether the generator sent as fast as it can"),
    "blocks": (_NO_UNIT, "blocks that gave a value"),
    "trials": (_NO_UNIT, "trials that gave a value"),
    "pairs": (_NO_UNIT, "blocks with a value of both, which the comparison rests on"),
    "median": ("`unit`", "the median over blocks"),
    "share": ("share", "performance relative to what it is compared with; 0.5 takes twice as long"),
    "low": ("share", "the low end of the share's own 95 % interval"),
    "high": ("share", "the high end of it"),
    "p_value": ("probability", "of the test for a difference, before the correction"),
    "p_adjusted": ("probability", "after Holm's correction within the family"),
    "family": (_NO_UNIT, "primary, second or A/A: with which comparisons it is corrected"),
    "verdict": (_NO_UNIT, "slower, faster, alike, not known or not measured"),
    "at_least": ("factor", "the least that slower or faster says, together with all others of the family"),
    "margin": ("share", "within how much it is alike"),
    "smallest_detectable_factor": ("factor", "the smallest difference that four of five such runs would find"),
    "guests": (_NO_UNIT, "guests at once"),
    "vcpus": (_NO_UNIT, "virtual CPUs of each guest"),
    "memory_bytes": ("bytes", "memory of each guest"),
    "jain": ("0 to 1", "Jain's fairness index of those that worked at once; 1: all alike"),
    "load": (_NO_UNIT, "what each guest beside did"),
    "affinity": (_NO_UNIT, "on which CPUs: shared, apart or unpinned"),
    "beside": (_NO_UNIT, "the platform of the guests beside"),
    "rate_share": ("share", "of its own maximum that a guest beside was sent; empty: it forwarded nothing"),
    "claim": (_NO_UNIT, "the claim's name"),
    "paper": (_NO_UNIT, "the study"),
    "source": (_NO_UNIT, "where in it"),
    "says": (_NO_UNIT, "the statement"),
    "outcome": (_NO_UNIT, "supported, refuted, not decided or not measured"),
    "under": (_NO_UNIT, "the condition that the ratio is of"),
    "against": (_NO_UNIT, "what the ratio is against"),
    "interval_low": ("as the estimate", "the low end of the interval of this ratio alone"),
    "interval_high": ("as the estimate", "the high end of it"),
}

TABLES: Final[Mapping[str, Table]] = {
    "cells": Table(
        "a trial and metric, with a value or not: nothing that was tried is missing",
        _names(
            "trial block position platform condition workload parameters metric unit label status value flagged_outlier"
            " reason caveat"
        ),
        {
            "position": (_NO_UNIT, "the trial's place in the order measured, from 0"),
            "value": ("`unit`", "the value; empty: none"),
            "flagged_outlier": ("0 or 1", "whether it stands out of its cell; it counts all the same"),
        },
    ),
    "comparisons": Table(
        "a platform and task, against the baseline",
        _names(
            "platform baseline workload parameters metric unit label pairs baseline_median platform_median share low"
            " high times_slower interval_method p_value p_adjusted family verdict at_least margin"
            " smallest_detectable_factor reason caveat unlike_facts"
        ),
        {
            "baseline_median": ("`unit`", "the baseline's median over blocks"),
            "platform_median": ("`unit`", "the platform's median over blocks"),
            "interval_method": (_NO_UNIT, "how the interval was made"),
            "unlike_facts": (_NO_UNIT, "what is not equal between the guests of both, measured inside"),
        },
    ),
    "points": Table(
        "a point of a sweep: the books of its frames",
        _names(
            "trial block platform frame_size_bytes point flat_out intended_rate_frames_per_second duration_ns"
            " offered_rate_frames_per_second forwarded_rate_frames_per_second intended_frames offered_frames"
            " unsent_frames forwarded_frames lost_frames duplicate_frames reordered_frames foreign_frames"
            " late_trial_frames kernel_dropped_frames loss_share caveat"
        ),
        {
            "intended_rate_frames_per_second": ("frames/s", "the rate that was asked for; empty: flat out"),
            "duration_ns": ("ns", "for how long it was to be sent"),
            "offered_rate_frames_per_second": ("frames/s", "the rate that was really sent"),
            "forwarded_rate_frames_per_second": ("frames/s", "the rate that arrived, first to last arrival"),
            "intended_frames": ("frames", "offered + unsent"),
            "offered_frames": ("frames", "sent; forwarded + lost"),
            "unsent_frames": ("frames", "that the generator was too late for"),
            "forwarded_frames": ("frames", "that arrived, each once"),
            "lost_frames": ("frames", "that never arrived"),
            "duplicate_frames": ("frames", "that arrived once more"),
            "reordered_frames": ("frames", "that arrived after one with a larger number"),
            "foreign_frames": ("frames", "at the sink that are no test frames"),
            "late_trial_frames": ("frames", "of an earlier trial"),
            "kernel_dropped_frames": ("frames", "that the sink's kernel dropped in front of it"),
            "loss_share": ("share", "lost / offered"),
        },
    ),
    "listed_rates": Table(
        "a platform and a rate of a list",
        _names(
            "platform workload parameters frame_size_bytes sources target_mbit_per_second flat_out blocks"
            " offered_mean_mbit_per_second offered_low_mbit_per_second offered_high_mbit_per_second"
            " forwarded_mean_mbit_per_second forwarded_low_mbit_per_second forwarded_high_mbit_per_second caveat"
        ),
        {
            "target_mbit_per_second": ("Mbit/s", "the rate of the list, of all sources; empty: flat out"),
            **_mbit("offered", "what was sent"),
            **_mbit("forwarded", "what arrived"),
        },
    ),
    "sources": Table(
        "a platform and a number of sources",
        _names(
            "platform workload parameters frame_size_bytes sources blocks forwarded_at_most_mean_mbit_per_second"
            " forwarded_at_most_low_mbit_per_second forwarded_at_most_high_mbit_per_second caveat"
        ),
        _mbit("forwarded_at_most", "the maximum of the sweep"),
    ),
    "pause_frames": Table(
        "an interface and point, where its driver counts pause frames",
        _names(
            "trial block platform workload parameters point flat_out role where interface source received_frames"
            " sent_frames caveat"
        ),
        {
            "role": (_NO_UNIT, "generator, sink or the guest's"),
            "where": (_NO_UNIT, "the agent that read its counters"),
            "interface": (_NO_UNIT, "the interface's name"),
            "source": (_NO_UNIT, "the traffic source whose way it is on"),
            "received_frames": ("frames", "pause frames that it received"),
            "sent_frames": ("frames", "pause frames that it sent"),
        },
    ),
    "clock": Table(
        "a trial that the outside clock and the guest's own clock timed",
        _names(
            "trial block platform workload method outside_ns guest_ns error_estimate_ns relative_error"
            " relative_estimate within_estimate caveat"
        ),
        {
            "method": (_NO_UNIT, "icmp: marks on their own link; channel: the agent's"),
            "outside_ns": ("ns", "the duration by the outside clock"),
            "guest_ns": ("ns", "the same by the guest's clock"),
            "error_estimate_ns": ("ns", "how wrong the outside duration may be"),
            "relative_error": ("share", "(guest - outside) / outside; positive: the guest's clock runs fast"),
            "relative_estimate": ("share", "error estimate / outside"),
            "within_estimate": ("0 or 1", "whether the difference is within the estimate"),
        },
    ),
    "guests": Table(
        "a guest's start",
        _names(
            "boot platform block status ready_ns spawn_ns kernel_ns init_ns harness_ns idle_bytes after_work_bytes"
            " idle_charged_bytes idle_files_bytes idle_shared_bytes caveat"
        ),
        {
            "boot": (_NO_UNIT, "the start's name in the run folder"),
            "ready_ns": ("ns", "from the start until the agent answers"),
            "spawn_ns": ("ns", "of it, all before the guest's own kernel or first program: monitor, firmware, engine"),
            "kernel_ns": (
                "ns",
                "of it, the guest's own kernel until its first program; empty on the host's kernel",
            ),
            "init_ns": ("ns", "of it, the agent's own way"),
            "harness_ns": ("ns", "of it, Virtoll's own; the column is there where it was measured"),
            "idle_bytes": ("bytes", "memory (PSS and page tables) of the guest's processes, when ready"),
            "after_work_bytes": ("bytes", "the same at the block's end"),
            "idle_charged_bytes": ("bytes", "what the guest's cgroup was charged, when ready"),
            "idle_files_bytes": ("bytes", "of it, files in the page cache"),
            "idle_shared_bytes": ("bytes", "memory of daemons that serve several guests"),
        },
    ),
    "host-cpu": Table(
        "a trial around which the CPU time of the guest's processes was read",
        _names("trial block platform workload status used_ns forwarded_frames caveat"),
        {
            "used_ns": ("ns", "CPU time of the guest's processes on the host"),
            "forwarded_frames": ("frames", "forwarded meanwhile; empty: no frames were sent"),
        },
    ),
    "consolidation": Table(
        "a step of a consolidation series: one idle guest more",
        _names(
            "platform step status guests available_before_bytes available_bytes processes_bytes shared_bytes reason"
            " caveat"
        ),
        {
            "step": (_NO_UNIT, "from 1"),
            "status": (_NO_UNIT, "ok, failed or stopped"),
            "available_before_bytes": ("bytes", "the host's available memory before the start"),
            "available_bytes": ("bytes", "the same after it"),
            "processes_bytes": ("bytes", "memory of all guests' processes"),
            "shared_bytes": ("bytes", "memory of daemons that serve several guests"),
        },
    ),
    "equivalence": Table(
        "a fact, measured inside each guest; a column for each platform, by its label, follows",
        _names("fact equal"),
        {
            "fact": (_NO_UNIT, "what was measured"),
            "equal": ("0 or 1", "whether it is the same in all"),
        },
    ),
    "isolation": Table(
        "a guest under a condition, against itself alone",
        _names(
            "platform condition load affinity guests beside rate_share workload parameters metric unit label pairs"
            " alone_median median share low high times_slower p_value p_adjusted family verdict at_least margin"
            " smallest_detectable_factor reason caveat"
        ),
        {"guests": (_NO_UNIT, "guests beside it"), "alone_median": ("`unit`", "the median of the guest alone")},
    ),
    "neighbours": Table(
        "what the guests beside did under a condition",
        _names(
            "platform workload parameters condition beside trials maximum_frames_per_second"
            " asked_rate_frames_per_second offered_rate_frames_per_second forwarded_rate_frames_per_second"
            " lost_share skipped_share cpus"
        ),
        {
            "maximum_frames_per_second": ("frames/s", "what it forwards at most, beside an idle guest"),
            "asked_rate_frames_per_second": ("frames/s", "what was to be sent to it"),
            "offered_rate_frames_per_second": ("frames/s", "what was sent to it"),
            "forwarded_rate_frames_per_second": ("frames/s", "what it forwarded"),
            "lost_share": ("share", "of the offered frames that it lost"),
            "skipped_share": ("share", "of the asked frames that the generator was too late for"),
            "cpus": ("CPUs", "CPU time of its load by wall time, by that guest's clock"),
        },
    ),
    "routers_beside": Table(
        "a platform as a router, a condition and frames, as Schlosser et al. 2011 print it",
        _names(
            "platform condition load rate_share workload parameters frame_size_bytes sources blocks"
            " alone_mean_mbit_per_second alone_low_mbit_per_second alone_high_mbit_per_second"
            " beside_mean_mbit_per_second beside_low_mbit_per_second beside_high_mbit_per_second change change_low"
            " change_high into_other_mean_mbit_per_second into_other_low_mbit_per_second"
            " into_other_high_mbit_per_second out_of_other_mean_mbit_per_second out_of_other_low_mbit_per_second"
            " out_of_other_high_mbit_per_second caveat"
        ),
        {
            **_mbit("alone", "the maximum alone"),
            **_mbit("beside", "the maximum beside other guests"),
            "change": ("share", "beside / alone - 1: the mean over blocks"),
            "change_low": ("share", "the low end of its 95 % t interval"),
            "change_high": ("share", "the high end of it"),
            **_mbit("into_other", "what was sent to the guest beside"),
            **_mbit("out_of_other", "what that guest forwarded"),
        },
    ),
    "scale": Table(
        "a platform, task and number of guests at once",
        _names(
            "platform guests vcpus memory_bytes workload parameters metric unit label trials each together"
            " together_unit speedup jain slowest_to_fastest skew_share finished_ns cpu_ns_per_guest share low high"
            " times_slower pairs p_adjusted verdict at_least margin smallest_detectable_factor reason caveat"
        ),
        {
            "each": ("`unit`", "one guest's value: the median"),
            "together": ("`together_unit`", "what all do together"),
            "together_unit": (_NO_UNIT, "the unit of it"),
            "speedup": ("factor", "together, against one guest of that size in the same block"),
            "slowest_to_fastest": ("factor", "how many times slower the slowest guest is than the fastest"),
            "skew_share": ("share", "from the first job's begin to the last one's, of the shortest job"),
            "finished_ns": ("ns", "from the first job's begin to the last one's end"),
            "cpu_ns_per_guest": ("ns", "CPU time of a guest's processes on the host"),
            "share": ("share", "performance relative to as many processes of the host"),
        },
    ),
    "groups": Table(
        "a platform and number of guests that were started at the same time",
        _names(
            "platform guests vcpus memory_bytes starts failed fastest_start_ns slowest_start_ns all_up_ns"
            " held_bytes_per_guest taken_bytes_per_guest"
        ),
        {
            "starts": (_NO_UNIT, "how often they were started"),
            "failed": (_NO_UNIT, "of these, how often not all came up"),
            "fastest_start_ns": ("ns", "the first guest's time to ready"),
            "slowest_start_ns": ("ns", "the last one's"),
            "all_up_ns": ("ns", "from the first start asked for until all could be used"),
            "held_bytes_per_guest": ("bytes", "what a guest's own processes hold"),
            "taken_bytes_per_guest": ("bytes", "what the host has less, for each guest; it may be negative"),
        },
    ),
    "scaling": Table(
        "a platform and a size of what a router has to hold: routes, routers, transmitters",
        _names(
            "platform factor size parameters blocks rate_frames_per_second rate_low rate_high share_of_smallest"
            " share_low share_high load_ns jain caveat"
        ),
        {
            "factor": (_NO_UNIT, "what has sizes"),
            "size": (_NO_UNIT, "how many"),
            "rate_frames_per_second": ("frames/s", "the maximum forwarding rate: the median"),
            "rate_low": ("frames/s", "the smallest of the blocks"),
            "rate_high": ("frames/s", "the largest of the blocks"),
            "share_of_smallest": ("share", "of the rate at the smallest size, by blocks"),
            "share_low": ("share", "the smallest of the blocks"),
            "share_high": ("share", "the largest of the blocks"),
            "load_ns": ("ns", "how long loading the routes took, by the outside clock; empty: none"),
        },
    ),
    "curves": Table(
        "a platform and a value of a numeric parameter, where there are three or more",
        _names("platform workload metric unit parameter value others condition blocks median low high coverage caveat"),
        {
            "parameter": (_NO_UNIT, "which parameter"),
            "value": (_NO_UNIT, "its value, in the parameter's own unit"),
            "others": (_NO_UNIT, "the other parameters, which are the same along a curve"),
            "low": ("`unit`", "the low end of the median's order-statistic interval"),
            "high": ("`unit`", "the high end of it"),
            "coverage": ("share", "the confidence that the interval really has"),
        },
    ),
    "conditional_throughput": Table(
        "a search and goal (NDR, PDR)",
        _names(
            "platform parameters goal loss_ratio exceed_ratio relative_width sum_seconds ended"
            " conditional_throughput_frames_per_second lower_frames_per_second lower_trial_ns lower_trials"
            " upper_frames_per_second upper_trial_ns upper_trials"
        ),
        {
            "goal": (_NO_UNIT, "ndr or pdr"),
            "loss_ratio": ("share", "of frames that may be lost"),
            "exceed_ratio": ("share", "of trials that may lose more"),
            "relative_width": ("share", "how far apart the bounds may be at the end"),
            "sum_seconds": ("s", "how long a bound's trials take together"),
            "ended": (_NO_UNIT, "why the search ended"),
            "conditional_throughput_frames_per_second": ("frames/s", "what the lower bound forwards at the least"),
            "lower_frames_per_second": ("frames/s", "the highest rate that keeps to the goal"),
            "lower_trial_ns": ("ns", "how long each of its trials took"),
            "lower_trials": (_NO_UNIT, "how many"),
            "upper_frames_per_second": ("frames/s", "the lowest rate that does not"),
            "upper_trial_ns": ("ns", "how long each of its trials took"),
            "upper_trials": (_NO_UNIT, "how many"),
        },
    ),
    "delay_below_pdr": Table(
        "a platform and a share of its partial drop rate: the delay of all frames",
        _names("platform parameters share_of_pdr rate p50_ns p90_ns p99_ns p99_9_ns samples lost_frames"),
        {
            "share_of_pdr": ("share", "of the partial drop rate that was sent"),
            "rate": ("frames/s", "the rate that this is"),
            "p50_ns": ("ns", "half of the frames took no longer"),
            "p90_ns": ("ns", "90 % of them"),
            "p99_ns": ("ns", "99 % of them"),
            "p99_9_ns": ("ns", "99.9 % of them"),
            "samples": ("frames", "whose delay was measured"),
            "lost_frames": ("frames", "that never arrived"),
        },
    ),
    "then_and_now": Table(
        "a number that a paper prints, and a platform of the run beside it",
        _names(
            "paper source what paper_platform paper_share_low paper_share_high paper_relation paper_words"
            " paper_values paper_note platform stands_for_it_as task under against blocks share interval_low"
            " interval_high interval_method reason caveat"
        ),
        {
            "what": (_NO_UNIT, "what the number says"),
            "paper_platform": (_NO_UNIT, "the paper's platform"),
            "paper_share_low": ("share", "the published share, or the low end of it"),
            "paper_share_high": ("share", "the same, or the high end"),
            "paper_relation": (_NO_UNIT, "equal, at least, at most or about"),
            "paper_words": (_NO_UNIT, "the text's own words, where it prints no number"),
            "paper_values": (_NO_UNIT, "the printed numbers that the share is of"),
            "paper_note": (_NO_UNIT, "what must be known of them"),
            "stands_for_it_as": (_NO_UNIT, "the same product, its successor, or what is here in its place"),
            "interval_method": (_NO_UNIT, "how the interval was made"),
        },
    ),
    "claims": Table(
        "a claim",
        _names("claim paper source says bounds inferred outcome"),
        {
            "bounds": (_NO_UNIT, "printed: the source prints the numbers that its tests ask for; ours: it does not"),
            "inferred": ("0 or 1", "whether it follows from the source, which does not say it"),
        },
    ),
    "claims_findings": Table(
        "a ratio or value that a claim's test rests on",
        _names(
            "claim test says at_least at_most test_outcome platform task under against unit blocks estimate"
            " interval_low interval_high simultaneous_low simultaneous_high method caveat outcome reason"
        ),
        {
            "test": (_NO_UNIT, "the test's number within the claim, from 0"),
            "at_least": ("as the estimate", "the bound from below that is asked for"),
            "at_most": ("as the estimate", "the bound from above"),
            "test_outcome": (_NO_UNIT, "of the whole test"),
            "unit": (_NO_UNIT, "of the estimate: share, or a metric's unit"),
            "estimate": ("`unit`", "the ratio or the value"),
            "simultaneous_low": ("`unit`", "the low end of the interval that holds with all others of the claim"),
            "simultaneous_high": ("`unit`", "the high end of it"),
            "method": (_NO_UNIT, "how the intervals were made"),
        },
    ),
    "paper_summary": Table(
        "a platform and task, summed up as the paper did whose summary the experiment names",
        _names(
            "platform workload parameters metric unit label summary values dropped centre low high share_of_baseline"
            " share_low share_high caveat"
        ),
        {
            "summary": (_NO_UNIT, "the summary's name"),
            "values": (_NO_UNIT, "values that it is of"),
            "dropped": (_NO_UNIT, "values that it leaves out"),
            "centre": ("`unit`", "the mean or median"),
            "low": ("`unit`", "the low end of its spread; empty: it has none"),
            "high": ("`unit`", "the high end of it"),
            "share_of_baseline": ("share", "of the baseline's performance"),
            "share_low": ("share", "the low end of the share"),
            "share_high": ("share", "the high end of it"),
        },
    ),
    "explanation": Table(
        "a counter of an observed workload on a platform",
        _names(
            "platform workload parameters counter whose unit per value baseline_value difference_mean"
            " difference_low difference_high trials caveat"
        ),
        {
            "counter": (_NO_UNIT, "what was counted, in words"),
            "whose": (_NO_UNIT, "of which processes or CPUs"),
            "per": (_NO_UNIT, "job or frame: what every value is of"),
            "value": ("`unit`", "of the platform, a job or frame"),
            "baseline_value": ("`unit`", "of the baseline"),
            "difference_mean": ("`unit`", "what the platform has more"),
            "difference_low": ("`unit`", "the low end of its interval; empty: one trial"),
            "difference_high": ("`unit`", "the high end of it"),
        },
    ),
    "plan": Table(
        "a trial as it was planned, in that order",
        _names("trial block round warm_up platform workload parameters condition guests vcpus memory_bytes caveat"),
        {
            "round": (_NO_UNIT, "the round within the block, from 1; in the run folder it is one less"),
            "warm_up": ("0 or 1", "whether it is a warm-up, which is no result"),
        },
    ),
    "commands": Table(
        "a command line that the run executed",
        _names("realtime_ns role exit command"),
        {
            "realtime_ns": ("ns", "when it was started, since 1970 (UTC)"),
            "role": (_NO_UNIT, "what it was for"),
            "exit": (_NO_UNIT, "its exit code; empty: it did not end by itself"),
            "command": (_NO_UNIT, "as a shell takes it"),
        },
    ),
    "runs": Table(
        "a run of a reproduction (`virtoll reproduce`)",
        _names("run experiment study size state virtoll host cpu kernel"),
        {
            "run": (_NO_UNIT, "the run's name"),
            "experiment": (_NO_UNIT, "its experiment"),
            "study": (_NO_UNIT, "the study that this names"),
            "size": (_NO_UNIT, "quick or paper"),
            "state": (_NO_UNIT, "how far it came"),
            "virtoll": (_NO_UNIT, "the version that measured it"),
            "host": (_NO_UNIT, "the host's fingerprint"),
            "cpu": (_NO_UNIT, "its CPU's model"),
            "kernel": (_NO_UNIT, "its kernel"),
        },
    ),
    "paper_figures": Table(
        "a value of a paper's figure drawn again (`virtoll reproduce`)",
        _names(
            "figure part shows panel x_of x who run platform task value low high unit relation blocks reason caveat"
        ),
        {
            "figure": (_NO_UNIT, "the figure in the paper"),
            "part": (_NO_UNIT, "which part of it"),
            "shows": (_NO_UNIT, "what it shows"),
            "panel": (_NO_UNIT, "which panel of the part"),
            "x_of": (_NO_UNIT, "what the axis is of"),
            "x": (_NO_UNIT, "the place on it"),
            "who": (_NO_UNIT, "then: the paper; now: a run"),
            "run": (_NO_UNIT, "the run; empty: the paper"),
            "value": ("`unit`", "the value; empty: a range, or none"),
            "low": ("`unit`", "the low end"),
            "high": ("`unit`", "the high end"),
            "relation": (_NO_UNIT, "equal, at least, at most or about"),
        },
    ),
}
