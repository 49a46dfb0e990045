"""What every platform declares, and that a platform takes no other's parameters."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from pydantic import ValidationError
from tests.support.facts import Command, assert_facts

from virtoll.experiment.model import Parameters
from virtoll.experiment.registry import Registry
from virtoll.host import packages
from virtoll.platforms import PLATFORMS
from virtoll.platforms.base import Platform
from virtoll.platforms.fake.site import model_site
from virtoll.workloads.base import FEATURES

KINDS = pytest.mark.parametrize("kind", PLATFORMS.values(), ids=PLATFORMS.keys())


def test_a_platform_is_loaded_when_it_is_looked_up() -> None:
    loaded = []

    def load(name: str) -> str:
        loaded.append(name)
        return name.upper()

    registry = Registry({name: partial(load, name) for name in ("a", "b")})
    lengths = registry.each(len)
    assert (list(lengths), len(lengths), "b" in lengths, "c" in lengths) == (["a", "b"], 2, True, False)
    assert loaded == []
    assert (registry["b"], lengths["a"], loaded) == ("B", 1, ["b", "a"])
    with pytest.raises(KeyError):
        lengths["c"]


def test_each_platform_has_the_name_that_it_is_found_by() -> None:
    assert [kind.name for kind in PLATFORMS.values()] == list(PLATFORMS)


@KINDS
def test_a_platform_declares_what_tables_and_plans_need(kind: type[Platform[Parameters]]) -> None:
    assert PLATFORMS[kind.name] is kind
    assert all((kind.family, kind.title))
    assert kind.boot_seconds >= 0
    assert kind.slowdown >= 0
    assert kind.validation != "not stated"
    assert set(kind.lacks) <= set(FEATURES)
    assert kind.control_of is None or kind.control_of in PLATFORMS


@KINDS
def test_a_platform_takes_its_own_parameters_and_no_others(kind: type[Platform[Parameters]]) -> None:
    own = kind.parameter_model()
    assert kind.with_parameters(own).parameters == own
    assert kind.with_parameters({}).parameters == own

    class Other(Parameters):
        """Of no platform."""

    with pytest.raises(ValidationError):
        kind.with_parameters(Other())
    with pytest.raises(ValidationError):
        kind.with_parameters({"no such key": 1})


def test_a_product_is_installed_from_packages_or_says_how() -> None:
    bare = {name for name, kind in PLATFORMS.items() if kind.needs_lab and not (kind.remedy or kind.install)}
    assert bare == {
        *("native", "native-again", "netns", "esxi", "ssh"),  # the host itself, or what a user names
        "kqemu",  # a record
    }
    assert [name for name, kind in PLATFORMS.items() if kind.packages and not (kind.remedy or kind.install)] == []
    known = {one.name for machine in packages.EMULATORS for one in packages.needed(machine, platforms=True, tools=True)}
    assert {package for kind in PLATFORMS.values() for package in kind.install} <= known


@pytest.mark.parametrize(("name", "lacking"), [("esxi", "ESXi host"), ("ssh", "guest")])
def test_a_platform_without_its_keys_names_the_command_that_lists_them(name: str, lacking: str) -> None:
    found = PLATFORMS[name](PLATFORMS[name].parameter_model()).probe(model_site())
    assert not found.available
    assert_facts(found.remedy or "", Command(f"virtoll show platform {name}"))
    assert_facts(found.why or "", lacking)
    assert "virtoll" not in (found.why or "")


@pytest.mark.parametrize("name", ["cloud-hypervisor", "firecracker"])
def test_another_binary_in_the_same_place_is_probed_anew(name: str, tmp_path: Path) -> None:
    binary = tmp_path / name
    binary.touch(0o755)
    platform = PLATFORMS[name](PLATFORMS[name].parameter_model.model_validate({"binary": str(binary)}))
    before = platform.depends_on()
    assert platform.depends_on() == before
    binary.write_text("another")
    assert platform.depends_on() != before
