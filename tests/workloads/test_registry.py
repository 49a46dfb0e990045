"""Every workload of the registry says what it is and what it needs, and takes no other workload's parameters."""

from __future__ import annotations

import re

import pytest
from pydantic import ValidationError
from tests.support.facts import refused
from tests.support.guests import JOBS

from virtoll.errors import ImageError
from virtoll.experiment.model import Parameters, WorkloadChoice
from virtoll.image import FULL, RECIPES
from virtoll.image.licences import Installed, refuse_other_components
from virtoll.workloads import WORKLOADS, workload_of
from virtoll.workloads.forward import Forward, ForwardParameters
from virtoll.workloads.programs import ProgramWorkload
from virtoll.workloads.superpi import SuperPi, SuperPiParameters
from virtoll.workloads.transmitters import Transmitters, TransmittersParameters
from virtoll.workloads.virtual_routers import VirtualRouters, VirtualRoutersParameters

# In the image for workloads that are planned (docs/experiments.md) and for who looks into a guest.
OTHER_PACKAGES = {"iperf3", "iproute2", "stress", "stress-ng"}


class Unknown(Parameters):
    """The model of no workload."""


@pytest.mark.parametrize("name", WORKLOADS)
def test_each_says_what_it_is_and_runs_with_its_defaults(name: str) -> None:
    kind = WORKLOADS[name]
    assert kind.name == name
    assert re.fullmatch(r"[a-z0-9-]+", name)
    assert kind.title
    assert kind.resource
    assert {metric.better for metric in kind.metrics} <= {"higher", "lower"}
    assert len({metric.name for metric in kind.metrics}) == len(kind.metrics) > 0
    workload = kind.with_parameters({})
    assert type(workload.parameters) is kind.parameter_model
    assert workload.estimate_seconds(1.0) > 0
    assert workload.needs().guests >= 1


def test_what_may_be_repeated_is_repeated_on_every_platform() -> None:
    """By ``tests/platforms/test_guests.py``."""
    assert {name for name in WORKLOADS if WORKLOADS[name].repeatable} <= set(JOBS)


@pytest.mark.parametrize("name", WORKLOADS)
def test_none_takes_parameters_that_are_not_its_own(name: str) -> None:
    with pytest.raises(ValidationError, match=WORKLOADS[name].parameter_model.__name__):
        WORKLOADS[name].with_parameters(Unknown())


def test_an_experiments_entry_is_its_workload_with_its_parameters() -> None:
    parameters = SuperPiParameters(digits=100)
    found = workload_of(WorkloadChoice("superpi", parameters))
    assert isinstance(found, SuperPi)
    assert found.parameters is parameters
    with pytest.raises(ValidationError, match="SuperPiParameters"):
        workload_of(WorkloadChoice("superpi", ForwardParameters()))


@pytest.mark.parametrize("name", WORKLOADS)
def test_what_it_runs_is_in_its_image(name: str) -> None:
    kind = WORKLOADS[name]
    recipe = RECIPES.get(kind.image)
    assert set(kind.packages) <= set(recipe.packages if recipe else ())
    assert bool(kind.packages) == (kind.image != "tiny")
    if issubclass(kind, ProgramWorkload):
        assert kind.packages, "its program is in no package"
    if kind.image == "full-non-free":
        assert not set(kind.packages) <= set(FULL.packages), "the image full holds all that it runs"


def test_the_image_holds_nothing_that_nobody_runs() -> None:
    used = {package for kind in WORKLOADS.values() for package in kind.packages}
    assert set(RECIPES["full-non-free"].packages) - used <= OTHER_PACKAGES


def test_only_what_was_asked_for_by_name_is_not_of_main() -> None:
    packages = (Installed("bzip2", "bzip2", "utils"), Installed("netperf", "netperf", "non-free/net"))
    refuse_other_components(packages, RECIPES["full-non-free"].components)
    with refused("main", "netperf", "non-free/net", error=ImageError, without=("bzip2",)):
        refuse_other_components(packages, RECIPES["full"].components)
    assert not {"lmbench", "netperf"} & set(RECIPES["full"].packages)
    named = {name for name, workload in WORKLOADS.items() if workload.image == "full-non-free"}
    assert named == {"lmbench", "netperf-tcp-stream", "netperf-tcp-rr"}


@pytest.mark.parametrize(
    ("name", "image"), [("bzip2", "full"), ("sysbench-cpu", "full"), ("forward", "tiny"), ("superpi", "tiny")]
)
def test_a_workload_needs_the_smallest_image_with_its_tools(name: str, image: str) -> None:
    assert WORKLOADS[name].image == image


def test_links_are_as_many_and_as_large_as_frames_need() -> None:
    forward = Forward(ForwardParameters(sources=3, frame_size_bytes=1518)).needs()
    assert (forward.sources, forward.sinks, forward.mtu_bytes) == (3, 1, 1500)
    each = [Forward(ForwardParameters(sources=sources, egress="each")).needs() for sources in (1, 2, 3)]
    assert [(one.sources, one.sinks) for one in each] == [(1, 1), (2, 2), (3, 3)]
    tagged = Forward(ForwardParameters(frame_size_bytes=1518, vlan=5)).needs()
    assert (tagged.sources, tagged.mtu_bytes) == (1, 1496)
    routers = VirtualRouters(VirtualRoutersParameters(routers=4, mix="imix")).needs()
    assert (routers.guests, routers.sources, routers.mtu_bytes) == (4, 1, 1500)
    sending = Transmitters(TransmittersParameters(transmitters=3, frame_size_bytes=1518)).needs()
    assert (sending.guests, sending.sources, sending.mtu_bytes) == (3, 1, 1500)
    assert not sending.shared_nic
    assert Transmitters(TransmittersParameters(nic="shared")).needs().shared_nic
    superpi = SuperPi(SuperPiParameters()).needs()
    assert (superpi.sources, superpi.mtu_bytes) == (1, 0)
