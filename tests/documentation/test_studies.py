"""What each item of the papers has come to follows from drivers and carried runs, and docs/studies.md has it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from tools import studies, tables
from tools.studies import Item, State, items, state_of

from virtoll.reference.published import study_names

FORWARD = {"workload": "forward"}


def item(**given: Any) -> Item:
    """An item of a paper with these keys."""
    return Item(item="An item", here="what there is", **given)


@pytest.mark.parametrize(
    ("given", "state"),
    [
        ({"platform": "native"}, State.COMPLETE),
        ({"platform": "native", "lacking": True}, State.IN_PART),
        # One ran in nested hosts, one against a stand-in, one against a simulator.
        *(({"platform": name, "lacking": True}, State.NEVER_MEASURED) for name in ("qemu-kvm", "vserver", "esxi")),
        ({"run": {}}, State.COMPLETE),
        ({"run": FORWARD}, State.COMPLETE),
        ({"run": FORWARD, "lacking": True}, State.IN_PART),
        ({"run": {**FORWARD, "where": {"frame_size_bytes": 504, "guests": 1}}}, State.COMPLETE),
        ({"run": {**FORWARD, "where": {"frame_size_bytes": 505}}}, State.NEVER_MEASURED),
        ({"run": {"workload": "povray"}}, State.NEVER_MEASURED),
        ({"run": {"where": {"neighbour_load": "heavy"}}}, State.NEVER_MEASURED),
        ({"run": {"where": {"vcpus": 1}}}, State.COMPLETE),
        ({"run": {"preset": "schlosser-of-nobody"}}, State.NEVER_MEASURED),
        ({"run": {"preset": "mattos2012", "workload": "zfg"}}, State.COMPLETE),
        ({"run": {"experiment": {"blocks": {"at_least": 2}}}}, State.COMPLETE),
        ({"run": {"experiment": {"blocks": {"at_least": 1000}}}}, State.NEVER_MEASURED),
        ({"discontinued": True}, State.DISCONTINUED),
        ({"drawing": True}, None),
    ],
    ids=str,
)
def test_a_state_follows_from_a_driver_or_a_carried_run(given: dict[str, Any], state: State | None) -> None:
    assert state_of("schlosser2011", item(**given)) is state


@pytest.mark.parametrize("given", [{}, {"platform": "native", "run": {}}, {"run": {"wear": {}}}], ids=str)
def test_an_item_has_one_witness(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        item(**given)


def test_the_page_has_the_items_of_every_study_with_their_states() -> None:
    page = tables.ROOT / "docs" / "studies.md"
    assert set(items()) == set(studies.TITLES) == set(study_names())
    assert page.read_text(encoding="utf-8") == tables.rewritten(page), "run 'make tables'"
