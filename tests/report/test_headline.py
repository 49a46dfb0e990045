"""The result in sentences: each has the numbers that it rests on, and many workloads are put together."""

from __future__ import annotations

import re
from dataclasses import replace

from rich.cells import cell_len
from tests.support.analyses import with_parts
from tests.support.facts import Command, assert_facts
from tests.support.report_runs import analysis_of
from tests.support.synthetic_run import Truth, run_data
from tests.support.terminal import answer_text

from virtoll.report.answer import notes, rankings
from virtoll.report.headline import (
    DECIDES_WITHIN,
    control_line,
    decides,
    decides_line,
    detectable_line,
    detects_words,
    family_line,
    platform_words,
    resemblance_line,
    states_line,
)
from virtoll.stats.analysis import Analysis, analyse
from virtoll.stats.compare import Verdict
from virtoll.stats.detectable import Detectable
from virtoll.stats.resemblance import Resemblance
from virtoll.stats.states import TwoStates


def limited(*limits: float, primary: bool = True) -> Analysis:
    """The run of rounds with these smallest detectable factors alone."""
    analysis = analysis_of("rounds")
    metric = next(task.metric for task in analysis.tasks if task.metric.primary)
    of = metric.replace(primary=primary)
    return with_parts(
        analysis,
        detectable=tuple(Detectable(f"f{place}", of, one, 1.0, 900.0, 4) for place, one in enumerate(limits)),
    )


def test_a_limit_above_half_as_much_again_is_not_good() -> None:
    good = limited(1.04, DECIDES_WITHIN)
    assert decides(good)
    assert_facts(decides_line(good), "1.5")
    assert_facts(detects_words(good), "1.04", "1.5")
    for limits, above in (((1.04, 1.51), "1 of 2"), ((1.04, 2, 3), "2 of 3"), ((2.19, 2.19), "1.5")):
        assert not decides(limited(*limits))
        assert_facts(decides_line(limited(*limits)), above, "1.5")
    assert re.findall(r"[\d.]+", detects_words(limited(2.19, 2.19))) == ["2.2"]
    for nothing in (limited(), limited(1.04, primary=False)):
        assert (decides(nothing), decides_line(nothing), detects_words(nothing)) == (False, "", "")
    assert not decides(with_parts(analysis_of("control differs"), detectable=analysis_of("rounds").detectable))


def test_the_host_against_itself_has_its_shares_and_what_differs() -> None:
    assert_facts(control_line(analysis_of("rounds")), "native-again", "native")
    shown = analysis_of("control differs")
    alarm = control_line(shown)
    assert [one.task.label for one in shown.alarms if one.task.label not in alarm] == []
    assert re.search(r"Super Pi 16384 digits \D*(1\.5|\d\d %)", alarm)


def test_what_a_run_can_detect_is_told_by_family_and_resource() -> None:
    analysis = analysis_of("rounds")
    primary = next(task.metric for task in analysis.tasks if task.workload == "forward")
    second = primary.replace(name="cpu_per_frame", primary=False)
    both = (
        Detectable("os-level", primary, 1.14, 1.1, 1.2, 4),
        Detectable("emulated", primary, 1.5, 1.4, 3.0, 4),
        Detectable("os-level", second, 3.5, 2.0, 9.0, 4),
    )
    first, _, rest = detectable_line(with_parts(analysis, detectable=both)).partition("emulated")
    assert_facts(first, "os-level", "packet path", "1.14")
    assert_facts(rest, "packet path", "1.5")
    assert "3.5" not in rest
    assert detectable_line(with_parts(analysis, detectable=both[2:])) == ""
    assert_facts(family_line(analysis), "3 blocks", "3 rounds", "Holm", analysis.family, "5 %")
    assert analysis.family == 20


def test_blocks_that_resemble_their_neighbours_are_told_first() -> None:
    analysis = analysis_of("rounds")
    assert resemblance_line(analysis) == ""
    found = with_parts(analysis, resemblance=Resemblance(0.41, 0.0005, 12))
    assert_facts(resemblance_line(found), "0.41", "12 blocks", "not independent")
    assert resemblance_line(found) in notes(found)
    assert resemblance_line(with_parts(analysis, resemblance=Resemblance(0.1, 0.2, 12))) == ""


def test_a_host_of_two_speeds_is_told_with_both() -> None:
    analysis = analysis_of("rounds")
    assert states_line(analysis) == ""
    task = next(task for task in analysis.tasks if task.workload == "superpi")
    unsteady = replace(analysis, two_states=(TwoStates(task, 1.45, 0.3),))
    assert_facts(states_line(unsteady), "Super Pi 16384 digits", "30 %", "45 %")
    assert "runc" not in states_line(unsteady)
    same = replace(analysis, two_states=(TwoStates(task, 1.45, 0.3, frozenset({"runc"})),))
    assert_facts(states_line(same), "runc", "same speeds")
    disturbed = states_line(replace(analysis, two_states=(TwoStates(task, 3.5, 0.2),)))
    assert_facts(disturbed, "disturbed", "Super Pi 16384 digits", "20 %", "3.5")
    assert "two speeds" not in disturbed
    many = replace(analysis, two_states=tuple(TwoStates(task, 1.1 + n / 10, 0.3) for n in range(9)))
    furthest, _, others = states_line(many).partition("30 %")[2].partition("30 %")
    assert_facts(furthest, "1.9")
    assert_facts(others, 5)
    assert states_line(many).count(task.label) == 4


def test_many_workloads_stay_readable() -> None:
    """Twelve sizes of a metric are one phrase of the verdict, and one line each of the terminal's table."""
    analysis = analysis_of("one block")
    task = analysis.tasks[0]
    tasks = tuple(replace(task, size=f"size {number}") for number in range(12))
    platform = analysis.comparisons[0].platform
    some = next(one for one in analysis.comparisons if (one.platform, one.verdict) == (platform, Verdict.UNKNOWN))
    found = replace(
        analysis,
        tasks=tasks,
        comparisons=tuple(replace(some, task=one, share=0.5 + number / 10) for number, one in enumerate(tasks)),
    )
    (phrase,) = platform_words(found)[platform]
    assert_facts(phrase, task.metric.title, "12 sizes", "2.0", "slower", "1.6", "faster")
    titled = [replace(one, metric=one.metric.replace(title=f"metric {number}")) for number, one in enumerate(tasks)]
    comparisons = zip(found.comparisons, titled, strict=True)
    many = replace(found, comparisons=tuple(replace(one, task=task) for one, task in comparisons))
    (phrase,) = platform_words(many)[platform]
    assert_facts(phrase, "12 comparisons", "2.0", "1.6")
    other = replace(task, workload="another")
    wide = replace(found, tasks=tuple(replace(other, workload=f"another-{number}") for number in range(9)))
    wide = replace(wide, comparisons=tuple(replace(some, task=task) for task in wide.tasks))
    assert len(rankings(wide)) == 9
    assert max(map(cell_len, answer_text(wide).splitlines())) <= 80


def test_two_lower_bounds_have_no_verdict() -> None:
    costs = {"native": {"packet path": 0.4}, "netns": {"packet path": 0.5}, "qemu-tcg": {"packet path": 5.0}}
    analysis = analyse(run_data(Truth(costs, control=None, frame_sizes=(64,))))
    task = next(task for task in analysis.tasks if task.workload == "forward")
    lossless, lossy = analysis.comparison("netns", task), analysis.comparison("qemu-tcg", task)
    assert lossless is not None
    assert lossy is not None
    assert (lossless.verdict, lossless.p_value, lossless.caveat) == (Verdict.UNKNOWN, None, "two lower bounds")
    assert lossy.verdict is Verdict.SLOWER
    assert_facts(answer_text(analysis), Command("netns: no verdict (two lower bounds)"))
