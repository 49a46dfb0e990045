"""What each column of a report's tables means, its unit, and what its values are: docs/tables.md is made of it.

Main type: `Table`. `TABLES` has the CSV tables in the order of a report, `ROWS` the lists of rows that Python is given,
`SHARED` the columns that mean the same wherever they are. Tests hold them to the tables that the code makes. Must not:
compute anything.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from virtoll.report.compared_table import COMPARED
from virtoll.report.reproduction_tables import PAPER_FIGURES, RUNS
from virtoll.report.sections import SECTIONS
from virtoll.report.table import SHARED, Column, Table, ValueKind

_TEXT: Final = ""  # of a column without a unit: a word or a text; the next ones: what else it may be
_COUNT, _NUMBER, _LIST = "count", "number", "list"
_ANSWER: Final = "0 or 1"
_KINDS: Final[Mapping[str, ValueKind]] = {
    _TEXT: ValueKind.TEXT,
    _COUNT: ValueKind.COUNT,
    _NUMBER: ValueKind.NUMBER,
    _LIST: ValueKind.LIST,
    _ANSWER: ValueKind.ANSWER,
}


@dataclass(frozen=True)
class Described:
    """What a row is, the names of the columns in their order, and those that mean something of their own there."""

    row: str
    names: tuple[str, ...]
    own: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def header(self) -> tuple[str, ...]:
        """The columns' names in their order."""
        return self.names

    @property
    def columns(self) -> tuple[Column[Any], ...]:
        """The columns in their order; ``KeyError`` for one that nobody described."""
        return tuple(self._columns())

    def _columns(self) -> Iterator[Column[Any]]:
        for name in self.names:
            unit, meaning = self.own.get(name) or SHARED[name]
            shown = "" if unit in {_COUNT, _NUMBER, _LIST} else unit
            yield Column(name, shown, meaning, _KINDS.get(unit, ValueKind.NUMBER), _no_value)


def _no_value(_: object) -> None:
    """Of a column that is only described."""


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


_COMPARISONS: Final = Described(
    "a platform and task, against the baseline",
    _names(
        "platform baseline workload parameters metric unit label pairs baseline_median platform_median share low"
        " high times_slower interval_method p_value p_adjusted family verdict at_least margin"
        " smallest_detectable_factor reason caveat unlike_facts"
    ),
    {
        "baseline_median": ("`unit`", "the baseline's median over blocks"),
        "platform_median": ("`unit`", "the platform's median over blocks"),
        "interval_method": (_TEXT, "how the interval was made"),
        "unlike_facts": (_TEXT, "what is not equal between the guests of both, measured inside"),
    },
)

TABLES: Final[Mapping[str, Described | Table[Any]]] = {
    "cells": Described(
        "a trial and metric, with a value or not: nothing that was tried is missing",
        _names(
            "trial block position platform condition workload parameters metric unit label status value flagged_outlier"
            " reason caveat"
        ),
        {
            "position": (_COUNT, "the trial's place in the order measured, from 0"),
            "value": ("`unit`", "the value; empty: none"),
            "flagged_outlier": (_ANSWER, "whether it stands out of its cell; it counts all the same"),
        },
    ),
    "comparisons": _COMPARISONS,
    "points": Described(
        "a point of a sweep: the books of its frames",
        _names(
            "trial block platform frame_size_bytes point flat_out intended_rate_frames_per_second duration_ns"
            " offered_rate_frames_per_second forwarded_rate_frames_per_second intended_frames offered_frames"
            " unsent_frames forwarded_frames lost_frames duplicate_frames reordered_frames foreign_frames"
            " late_trial_frames forged_frames kernel_dropped_frames loss_share caveat"
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
            "forged_frames": ("frames", "with a wrong tag, in no other count; empty: frames had no tags"),
            "kernel_dropped_frames": ("frames", "that the sink's kernel dropped in front of it"),
            "loss_share": ("share", "lost / offered"),
        },
    ),
    "listed_rates": Described(
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
    "sources": Described(
        "a platform and a number of sources",
        _names(
            "platform workload parameters frame_size_bytes sources blocks forwarded_at_most_mean_mbit_per_second"
            " forwarded_at_most_low_mbit_per_second forwarded_at_most_high_mbit_per_second caveat"
        ),
        _mbit("forwarded_at_most", "the maximum of the sweep"),
    ),
    "pause_frames": Described(
        "an interface and point, where its driver counts pause frames",
        _names(
            "trial block platform workload parameters point flat_out role where interface source received_frames"
            " sent_frames caveat"
        ),
        {
            "role": (_TEXT, "generator, sink or the guest's"),
            "where": (_TEXT, "the agent that read its counters"),
            "interface": (_TEXT, "the interface's name"),
            "source": (_TEXT, "the traffic source whose way it is on"),
            "received_frames": ("frames", "pause frames that it received"),
            "sent_frames": ("frames", "pause frames that it sent"),
        },
    ),
    "clock": Described(
        "a trial that the outside clock and the guest's own clock timed",
        _names(
            "trial block platform workload method outside_ns guest_ns error_estimate_ns relative_error"
            " relative_estimate within_estimate caveat"
        ),
        {
            "method": (_TEXT, "icmp: marks on their own link; channel: the agent's"),
            "outside_ns": ("ns", "the duration by the outside clock"),
            "guest_ns": ("ns", "the same by the guest's clock"),
            "error_estimate_ns": ("ns", "how wrong the outside duration may be"),
            "relative_error": ("share", "(guest - outside) / outside; positive: the guest's clock runs fast"),
            "relative_estimate": ("share", "error estimate / outside"),
            "within_estimate": (_ANSWER, "whether the difference is within the estimate"),
        },
    ),
    "guests": Described(
        "a guest's start",
        _names(
            "boot platform block status ready_ns spawn_ns kernel_ns init_ns harness_ns idle_bytes after_work_bytes"
            " idle_charged_bytes idle_files_bytes idle_shared_bytes caveat"
        ),
        {
            "boot": (_TEXT, "the start's name in the run folder"),
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
    "host-cpu": Described(
        "a trial around which the CPU time of the guest's processes was read",
        _names("trial block platform workload status used_ns forwarded_frames caveat"),
        {
            "used_ns": ("ns", "CPU time of the guest's processes on the host"),
            "forwarded_frames": ("frames", "forwarded meanwhile; empty: no frames were sent"),
        },
    ),
    "consolidation": Described(
        "a step of a consolidation series: one idle guest more",
        _names(
            "platform step status guests available_before_bytes available_bytes processes_bytes shared_bytes reason"
            " caveat"
        ),
        {
            "step": (_COUNT, "from 1"),
            "status": (_TEXT, "ok, failed or stopped"),
            "available_before_bytes": ("bytes", "the host's available memory before the start"),
            "available_bytes": ("bytes", "the same after it"),
            "processes_bytes": ("bytes", "memory of all guests' processes"),
            "shared_bytes": ("bytes", "memory of daemons that serve several guests"),
        },
    ),
    "equivalence": Described(
        "a fact, measured inside each guest; a column for each platform, by its label, follows",
        _names("fact equal"),
        {
            "fact": (_TEXT, "what was measured"),
            "equal": (_ANSWER, "whether it is the same in all"),
        },
    ),
    "hosts": Described(
        "a host of a merged run and a ratio, or a value of the bare host, against the other hosts",
        _names("host fingerprint blocks platform workload parameters metric label factor p_adjusted stands_out"),
        {
            "host": (_TEXT, "the host's stand-in name in this run"),
            "fingerprint": (_TEXT, "what identifies host, kernel and CPU, as a hash"),
            "blocks": (_COUNT, "blocks that it measured"),
            "platform": (_TEXT, "whose ratio to the baseline it is; empty: the bare host's own performance"),
            "factor": ("factor", "its performance by the mean of the others; below 1 it is slower"),
            "p_adjusted": ("probability", "that the others predict it, after Bonferroni; empty: fewer than 4 hosts"),
            "stands_out": (_ANSWER, "whether that is below 1 %; the host counts all the same"),
        },
    ),
    "host_variation": Described(
        "a comparison of a run that was merged of several hosts",
        _names("platform workload parameters metric label hosts between_hosts_share between_blocks_share"),
        {
            "hosts": (_COUNT, "hosts that have it"),
            "between_hosts_share": ("share", "one standard deviation of the ratio from host to host; empty: not known"),
            "between_blocks_share": ("share", "the same between blocks of one host"),
        },
    ),
    **{table.name: table for section in SECTIONS for table in section.tables},
    "scale": Described(
        "a platform, task and number of guests at once",
        _names(
            "platform guests vcpus memory_bytes workload parameters metric unit label trials each together"
            " together_unit speedup jain slowest_to_fastest skew_share finished_ns cpu_ns_per_guest share low high"
            " times_slower pairs p_adjusted verdict at_least margin smallest_detectable_factor reason caveat"
        ),
        {
            "each": ("`unit`", "one guest's value: the median"),
            "together": ("`together_unit`", "what all do together"),
            "together_unit": (_TEXT, "the unit of it"),
            "speedup": ("factor", "together, against one guest of that size in the same block"),
            "slowest_to_fastest": ("factor", "how many times slower the slowest guest is than the fastest"),
            "skew_share": ("share", "from the first job's begin to the last one's, of the shortest job"),
            "finished_ns": ("ns", "from the first job's begin to the last one's end"),
            "cpu_ns_per_guest": ("ns", "CPU time of a guest's processes on the host"),
            "share": ("share", "performance relative to as many processes of the host"),
        },
    ),
    "groups": Described(
        "a platform and number of guests that were started at the same time",
        _names(
            "platform guests vcpus memory_bytes starts failed fastest_start_ns slowest_start_ns all_up_ns"
            " held_bytes_per_guest taken_bytes_per_guest"
        ),
        {
            "starts": (_COUNT, "how often they were started"),
            "failed": (_COUNT, "of these, how often not all came up"),
            "fastest_start_ns": ("ns", "the first guest's time to ready"),
            "slowest_start_ns": ("ns", "the last one's"),
            "all_up_ns": ("ns", "from the first start asked for until all could be used"),
            "held_bytes_per_guest": ("bytes", "what a guest's own processes hold"),
            "taken_bytes_per_guest": ("bytes", "what the host has less, for each guest; it may be negative"),
        },
    ),
    "scaling": Described(
        "a platform and a size of what a router has to hold: routes, routers, transmitters",
        _names(
            "platform factor size parameters blocks rate_frames_per_second rate_low rate_high share_of_smallest"
            " share_low share_high load_ns jain caveat"
        ),
        {
            "factor": (_TEXT, "what has sizes"),
            "size": (_COUNT, "how many"),
            "rate_frames_per_second": ("frames/s", "the maximum forwarding rate: the median"),
            "rate_low": ("frames/s", "the smallest of the blocks"),
            "rate_high": ("frames/s", "the largest of the blocks"),
            "share_of_smallest": ("share", "of the rate at the smallest size, by blocks"),
            "share_low": ("share", "the smallest of the blocks"),
            "share_high": ("share", "the largest of the blocks"),
            "load_ns": ("ns", "how long loading the routes took, by the outside clock; empty: none"),
        },
    ),
    "curves": Described(
        "a platform and a value of a numeric parameter, where there are three or more",
        _names("platform workload metric unit parameter value others condition blocks median low high coverage caveat"),
        {
            "parameter": (_TEXT, "which parameter"),
            "value": (_NUMBER, "its value, in the parameter's own unit"),
            "others": (_TEXT, "the other parameters, which are the same along a curve"),
            "low": ("`unit`", "the low end of the median's order-statistic interval"),
            "high": ("`unit`", "the high end of it"),
            "coverage": ("share", "the confidence that the interval really has"),
        },
    ),
    "conditional_throughput": Described(
        "a search and goal (NDR, PDR)",
        _names(
            "platform parameters goal loss_ratio exceed_ratio relative_width sum_seconds ended"
            " conditional_throughput_frames_per_second lower_frames_per_second lower_trial_ns lower_trials"
            " upper_frames_per_second upper_trial_ns upper_trials"
        ),
        {
            "goal": (_TEXT, "ndr or pdr"),
            "loss_ratio": ("share", "of frames that may be lost"),
            "exceed_ratio": ("share", "of trials that may lose more"),
            "relative_width": ("share", "how far apart the bounds may be at the end"),
            "sum_seconds": ("s", "how long a bound's trials take together"),
            "ended": (_TEXT, "why the search ended"),
            "conditional_throughput_frames_per_second": ("frames/s", "what the lower bound forwards at the least"),
            "lower_frames_per_second": ("frames/s", "the highest rate that keeps to the goal"),
            "lower_trial_ns": ("ns", "how long each of its trials took"),
            "lower_trials": (_COUNT, "how many"),
            "upper_frames_per_second": ("frames/s", "the lowest rate that does not"),
            "upper_trial_ns": ("ns", "how long each of its trials took"),
            "upper_trials": (_COUNT, "how many"),
        },
    ),
    "delay_below_pdr": Described(
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
    "explanation": Described(
        "a counter of an observed workload on a platform",
        _names(
            "platform workload parameters counter whose unit per value baseline_value difference_mean"
            " difference_low difference_high trials caveat"
        ),
        {
            "counter": (_TEXT, "what was counted, in words"),
            "whose": (_TEXT, "of which processes or CPUs"),
            "per": (_TEXT, "job or frame: what every value is of"),
            "value": ("`unit`", "of the platform, a job or frame"),
            "baseline_value": ("`unit`", "of the baseline"),
            "difference_mean": ("`unit`", "what the platform has more"),
            "difference_low": ("`unit`", "the low end of its interval; empty: one trial"),
            "difference_high": ("`unit`", "the high end of it"),
        },
    ),
    "plan": Described(
        "a trial as it was planned, in that order",
        _names("trial block round warm_up platform workload parameters condition guests vcpus memory_bytes caveat"),
        {
            "round": (_COUNT, "the round within the block, from 1; in the run folder it is one less"),
        },
    ),
    "commands": Described(
        "a command line that the run executed",
        _names("realtime_ns role exit command"),
        {
            "realtime_ns": ("ns", "when it was started, since 1970 (UTC)"),
            "role": (_TEXT, "what it was for"),
            "exit": (_COUNT, "its exit code; empty: it did not end by itself"),
            "command": (_TEXT, "as a shell takes it"),
        },
    ),
    **{table.name: table for table in (RUNS, PAPER_FIGURES, COMPARED)},
}

ROWS: Final[Mapping[str, Described]] = {
    "medians": Described(
        "a platform and task that has values",
        _names(
            "platform workload parameters metric unit label median low low_open high high_open coverage_share blocks"
            " values flagged_trials generator_bound lower_bound caveat"
        ),
        {
            "low": ("`unit`", "the low end of the median's order-statistic interval"),
            "high": ("`unit`", "the high end of it"),
            "coverage_share": ("probability", "the confidence that the interval really has"),
            "values": (_COUNT, "values that it is of, several of a block in rounds"),
            "flagged_trials": (_LIST, "numbers of trials that stand out of it; they count all the same"),
            "generator_bound": (_ANSWER, "whether it came within 10 % of what the instrument can do"),
            "lower_bound": (_ANSWER, "whether the true value may be larger: the generator's limit"),
        },
    ),
    "comparisons": Described(
        _COMPARISONS.row,
        tuple(
            one
            for name in _COMPARISONS.names
            for one in ((name, f"{name}_open") if name in {"low", "high"} else (name,))
        ),
        _COMPARISONS.own,
    ),
    "trials": Described(
        "a trial that has ended", _names("trial block platform workload parameters warm_up status reason")
    ),
}
"""The rows of `virtoll.load(run).rows` and `.frame`; those of the first two are also in the report as JSON."""
