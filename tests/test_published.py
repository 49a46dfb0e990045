"""What the studies published: the files are whole, travel with the package, and ratios of their numbers are right."""

import tomllib
from fnmatch import fnmatch
from importlib.resources import files
from pathlib import Path

import pytest
from tests.support import experiments

from virtoll.errors import UsageError
from virtoll.reference.published import claims, load_study, published_values, study_names

PROJECT = Path(__file__).resolve().parents[1]


def test_the_numbers_are_those_of_the_tables() -> None:
    values = published_values()
    assert len(values) == 286
    assert len(set(map(repr, values))) == 286
    reported = {(v.source, v.platform, v.scenario, v.parameters.get("frame"), v.metric): v.value for v in values}
    assert reported["Table 1", "openvz", "neighbour-heavy", "64", "throughput_change"] == -18.2
    assert reported["Table 3", "virtualbox", "neighbour-forward-95", "500", "neighbour_throughput"] == 40.2


def test_every_claim_is_of_a_paper_that_has_numbers() -> None:
    assert len(claims()) == len({claim.id for claim in claims()}) == 46
    assert {claim.paper for claim in claims()} == {value.paper for value in published_values()}


def test_a_share_is_the_range_of_the_ratios_to_the_papers_own_bare_host() -> None:
    study = load_study("schlosser2011")
    kvm = study.share("kvm", 68)
    assert kvm is not None
    assert kvm.low == pytest.approx(37.1 / 153.1)
    assert kvm.high == pytest.approx(72.1 / 274.9)
    assert study.share("kvm", 504) is None
    large = study.share("virtualbox", 1504)
    assert large is not None
    assert (large.low, large.words) == (None, "less than raw")
    assert {one.platform for one in study.shares} == {one.key for one in study.platforms}


def test_the_package_carries_the_files() -> None:
    patterns = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["virtoll"]
    folder = files("virtoll").joinpath("reference")
    carried = [one for one in folder.iterdir() if one.name.endswith((".csv", ".yaml"))]
    assert {one.name for one in carried} == {"published.csv", "claims.yaml", "studies.yaml"}
    for one in carried:
        assert any(fnmatch(f"reference/{one.name}", pattern) for pattern in patterns), one.name
    assert (PROJECT / "reference" / "published.csv").is_file()


def test_an_experiment_names_a_study_that_there_is() -> None:
    assert experiments.parsed(study="schlosser2011").study in study_names()
    assert experiments.parsed().study is None
    with pytest.raises(UsageError, match=r"key 'study': 'schloser' is not known; allowed: schlosser2011"):
        experiments.parsed(study="schloser")
    with pytest.raises(UsageError, match=r"choose one of: schlosser2011"):
        load_study("schloser")
