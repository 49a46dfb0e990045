"""Synthetic runs of every kind that a report may be of: whole, troubled, cut short, nested, of a paper's design."""

from functools import cache

from tests.support.synthetic_run import REALISTIC, Truth, run_data

from virtoll.experiment.topology import FUNCTIONAL_ONLY
from virtoll.stats.analysis import Analysis, analyse

KVM = {"qemu-kvm": "/dev/kvm does not exist on <this> host"}
RUNS = {
    "rounds": Truth(REALISTIC, rounds=3, margin=0.25, frame_sizes=(64, 1500)),
    "whole": Truth(REALISTIC, clock_error={"qemu-tcg-e1000": -0.002}),
    "troubled": Truth(
        REALISTIC | {"qemu-kvm": {}},
        unavailable=KVM,
        outlier=("netns", "superpi", 2),
        failures={("runc", "masr", 1): "failed", ("netns", "superpi", 0): "invalid"},
    ),
    "many blocks": Truth({"native": {}, "native-again": {}, "other": {"cpu": 1.3}}, blocks=7, hypervisor=None),
    "interrupted": Truth(REALISTIC, stop_after=30, state="interrupted"),
    "nothing run": Truth(REALISTIC, stop_after=0, state="interrupted"),
    "all failed": Truth(REALISTIC, all_fail=True),
    "one block": Truth(REALISTIC, blocks=1),
    "no baseline": Truth(REALISTIC, baseline=None, control=None),
    "no control": Truth({"native": {}, "runc": {}}, control=None),
    "control differs": Truth({"native": {}, "native-again": {"cpu": 1.5}, "runc": {}}, noise=0.005),
    "nested": Truth(
        REALISTIC | {"xen": {"packet path": 300.0, "cpu": 40.0}},
        wired=True,
        weighed=True,
        caveats={"xen": ("nested xen", FUNCTIONAL_ONLY)},
        clock_error={"xen": 0.01},
        study="schlosser2011",
    ),
    "as a paper": Truth(
        REALISTIC,
        blocks=4,
        summary="median-drop-first",
        order="paper",
        failures={
            ("runc", "masr", 0): "failed",
            ("netns", "masr", 0): "failed",
            ("netns", "masr", 1): "failed",
            ("netns", "masr", 2): "failed",
        },
    ),
    "listed rates": Truth(
        REALISTIC | {"xen": {"packet path": 300.0}},
        frame_sizes=(68, 1504),
        rates_mbit_per_second=(10.0, 100.0, 400.0, 1000.0),
        sources=(1, 2, 3),
        caveats={"xen": ("nested xen", FUNCTIONAL_ONLY)},
    ),
    "one platform": Truth({"native": {}}, control=None, frame_sizes=(64,)),
    "swept": Truth(
        REALISTIC | {"xen": {"memory": 3.0}},
        threads=(1, 2, 4),
        summary="mean-t95",
        caveats={"xen": ("nested xen", FUNCTIONAL_ONLY)},
    ),
}


@cache
def analysis_of(name: str) -> Analysis:
    """The analysis of one of them."""
    return analyse(run_data(RUNS[name]))
