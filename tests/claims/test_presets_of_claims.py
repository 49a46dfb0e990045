"""The presets of each paper plan what its claims ask for."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping

import pytest
from tests.support import claims_camargos, claims_mattos, claims_suresh
from tests.support.commands import in_process
from tests.support.planned_runs import Platforms, answered, every_test

from virtoll.reference.published import load_study, study_names

OF_MATTOS = ("native", "runc", "runc-routed", "qemu-kvm", "qemu-kvm-e1000", "xen", "xen-routed", "xen-sriov")
MATTOS = {label: claims_mattos.PLATFORMS[label] for label in OF_MATTOS}
OF_CAMARGOS = ("native", "vserver", "openvz", "xen", "kvm_e1000", "virtualbox")
CAMARGOS = {label: claims_camargos.PLATFORMS[label] for label in OF_CAMARGOS}
PRESETS = {
    "camargos2008": ("camargos2008", "camargos2008-scale", "camargos2008-builds"),
    "mattos2012": ("mattos2012",),
    "suresh2014": ("suresh2014", "suresh2014-cores", "suresh2014-neighbours"),
}


@pytest.mark.parametrize(
    ("paper", "preset", "size", "platforms", "whole", "parts"),
    [
        ("schlosser2011", "schlosser2011", "quick", None, "S01 S02 S03 S04 S05 S06 S07 S08", ""),
        ("schlosser2011", "schlosser2011", "paper", None, "S01 S02 S03 S04 S05 S06 S07 S08 S14", ""),
        ("schlosser2011", "schlosser2011-neighbours", "quick", None, "S01 S02 S06 S07 S08 S09 S10 S11 S12 S13", ""),
        (
            *("schlosser2011", "schlosser2011-neighbours", "paper", None),
            *("S01 S02 S05 S06 S07 S08 S09 S10 S11 S12 S13", ""),
        ),
        ("mattos2012", "mattos2012", "quick", MATTOS, "M01 M02 M03 M04 M05 M06 M07 M08 M09 M10 M11 M12", ""),
        ("mattos2012", "mattos2012", "paper", MATTOS, "M01 M02 M03 M04 M05 M06 M07 M08 M09 M10 M11 M12", ""),
        ("mattos2012", "routes", None, MATTOS, "M07 M10 M11", ""),
        # The paper's Section V without what its claims ask for: routers are swept, transmitters have a NIC each.
        ("mattos2012", "virtual-routers", None, MATTOS, "", ""),
    ],
)
def test_a_preset_plans_what_its_claims_ask_for(
    paper: str, preset: str, size: str | None, platforms: Platforms | None, whole: str, parts: str
) -> None:
    tests = Counter(claim for claim, _ in every_test(paper))
    planned = Counter(claim for claim, _ in answered(paper, preset, size, platforms))
    assert sorted(claim for claim in planned if planned[claim] == tests[claim]) == whole.split()
    assert sorted(claim for claim in planned if planned[claim] < tests[claim]) == parts.split()


@pytest.mark.parametrize(
    ("paper", "size", "platforms", "stands_for", "lacking"),
    [
        # Not with 32 builds at once.
        ("camargos2008", "quick", CAMARGOS, None, {("C09", 2)}),
        ("camargos2008", "paper", CAMARGOS, None, set()),
        ("camargos2008", "paper", None, None, set()),
        # Xen with SR-IOV needs the addresses of a user's own virtual functions.
        ("mattos2012", "paper", None, None, {("M10", 0)}),
        (
            "suresh2014",
            "paper",
            claims_suresh.PLATFORMS,
            {"native": "native", "qemu-kvm": "kvm", "virtualbox": "virtualbox"},
            set(),
        ),
        # At quick size no platform is hardware-assisted, builds, databases and pictures that take minutes are not
        # measured on an emulated CPU (K04, K15, K16), and one virtual CPU has one thread (K13).
        (
            *("suresh2014", "quick", claims_suresh.PLATFORMS),
            {"native": "native", "runc": "kvm", "qemu-tcg": "virtualbox"},
            {("K04", 0), ("K04", 1), ("K13", 0), ("K15", 0), ("K15", 1), ("K16", 0)},
        ),
    ],
)
def test_the_presets_of_a_paper_together_plan_what_its_claims_ask_for(
    paper: str,
    size: str,
    platforms: Platforms | None,
    stands_for: Mapping[str, str] | None,
    lacking: set[tuple[str, int]],
) -> None:
    planned = [answered(paper, preset, size, platforms, stands_for) for preset in PRESETS[paper]]
    assert every_test(paper) - set().union(*planned) == lacking


def test_the_quick_size_of_camargos_has_an_emulated_nic() -> None:
    """On QEMU without KVM, which most hosts can hold; C06 asks for KVM."""
    of_emulated_nics = {test for test in every_test("camargos2008") if test[0] == "C05"}
    assert of_emulated_nics <= answered("camargos2008", "camargos2008", "quick")


def test_most_claims_that_need_no_assisted_cpu_can_be_decided_quickly() -> None:
    """By the quick presets' own platforms, which a host without KVM can hold.

    A load that forwards needs a third CPU (S11, S12, S13), and guests apart from it a fourth (S10).
    """
    decided, refuted = set(), set()
    for study in study_names():
        planned = [answered(study, preset, "quick") for preset in load_study(study).presets]
        tests = Counter(claim for claim, _ in every_test(study))
        measured = Counter(claim for claim, _ in set().union(*planned))
        decided |= {claim for claim in measured if measured[claim] == tests[claim]}
        refuted |= {claim for claim in measured if measured[claim] < tests[claim]}
    assert " ".join(sorted(decided - {"S10"})) == (
        "C02 C05 C08 C11 C12 M01 M04 M05 M07 M08 M09 M11 M12 S01 S02 S03 S04 S05 S06 S07 S08 S09 S11 S12 S13"
    )
    # Of these some tests are measured: they can be refuted.
    assert " ".join(sorted(refuted)) == "C01 C03 C06 C09 M02 M03 M06"


@pytest.mark.parametrize("study", study_names())
def test_a_study_is_repeated_in_half_an_hour(study: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At quick size by plan, on a host of two CPUs: what needs more is skipped."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1})
    plans = [json.loads(in_process("plan", preset, "--json").stdout) for preset in load_study(study).presets]
    assert sum(plan["estimated_seconds"] for plan in plans) <= 1800
