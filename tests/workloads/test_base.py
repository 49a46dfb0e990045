"""What all workloads share: tags, check values, and what a bench without a disk or a link has."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from tests.support.benches import channel_bench
from tests.support.facts import assert_facts, refused
from tests.support.workload_trials import ProgramGuest, measure, trial_bench

from virtoll.errors import GuestCannot
from virtoll.lab.network import GuestNetwork
from virtoll.runfolder.records import Check
from virtoll.workloads.base import DataDirectory, compared


def test_a_tag_has_16_bits() -> None:
    bench = replace(trial_bench(ProgramGuest()), tags=itertools.count(2**16 - 1))
    assert [bench.next_tag() for _ in range(3)] == [65535, 0, 1]


def test_without_a_disk_files_are_in_memory_and_have_no_state() -> None:
    bench = channel_bench(ProgramGuest())
    assert bench.data == DataDirectory("/tmp", "tmpfs", "the guest's memory")
    assert (bench.data_state(True), bench.repeats, bench.vcpus) == ({}, 1, 1)


def test_a_guest_without_links_has_no_traffic() -> None:
    guest = ProgramGuest()
    bench = replace(trial_bench(guest, ProgramGuest()), network=GuestNetwork(()))
    with refused("NIC", error=GuestCannot):
        measure("tcp-stream", bench)
    assert guest.asked == []


@pytest.mark.parametrize(
    ("value", "expected", "problem", "right"),
    [("1", "1", None, True), ("1", None, None, True), ("1", "2", None, False), ("1", "2", "late", False)],
)
def test_a_check_value_is_what_is_expected(value: str, expected: str | None, problem: str | None, right: bool) -> None:
    check, wrong = compared(value, expected, problem)
    assert check == Check(value, expected, right)
    assert (wrong is None) == right


def test_a_wrong_value_is_a_problem_that_names_both() -> None:
    assert compared("1", "1", "late") == (Check("1", "1", True), "late")
    _, problem = compared("x" * 81, "y" * 81, "late")
    assert problem is not None
    assert_facts(problem, repr("x" * 80), repr("y" * 80))


def test_a_job_without_marks_is_a_problem_though_its_value_is_right() -> None:
    guest = ProgramGuest(run={"result": {}, "check": "7"})
    guest.marks = ()
    measured = measure("forkwait", guest, processes=7)
    assert measured.check is not None
    assert measured.check.ok
    assert_facts(measured.problem or "", "duration")
