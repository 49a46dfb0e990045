"""Synthetic runs of which a paper takes over figures, tables and methods."""

from tests.support.synthetic_run import REALISTIC, Truth

from virtoll.experiment.topology import FUNCTIONAL_ONLY

_NESTED = Truth(
    REALISTIC | {"xen": {"packet path": 300.0, "cpu": 40.0}},
    weighed=True,
    frame_sizes=(68,),
    caveats={"xen": ("nested xen", FUNCTIONAL_ONLY)},
    clock_error={"xen": 0.01},
)
RUNS = {
    "plain": Truth(REALISTIC, weighed=True, frame_sizes=(68, 1504)),
    "nested": _NESTED,
    "swept": Truth(REALISTIC, threads=(1, 2, 4), summary="mean-t95", frame_sizes=(68,)),
}
