"""A guest's data directory: emptied for each trial, in the guest and on its host."""

from __future__ import annotations

from tests.support.agents import OperationAgent

from virtoll.agent.operations.programs import DataRequest
from virtoll.lab.data import DataVolume
from virtoll.pipeline.data_directory import DataKeeper

MIB = 2**20


class Disk(DataVolume):
    """A guest's disk, part of which is in its host's memory until it is evicted."""

    disk_path = None
    in_memory = 4096

    def resident(self) -> int:
        return self.in_memory

    def evict(self) -> int:
        self.in_memory = 0
        return 0

    def remove(self) -> None:
        raise AssertionError("it stays as long as its guest")


def test_emptied_it_is_in_no_page_cache() -> None:
    agent, disk = OperationAgent(data={"resident_bytes": 0}), Disk(MIB, "ext4")
    keeper = DataKeeper(agent, disk)
    assert keeper.state(evict=False)["page_cache"] == "warm on the host"
    keeper.empty()
    (_, emptied) = agent.asked
    assert isinstance(emptied, DataRequest)
    assert (emptied.empty, emptied.evict, emptied.trim) == (True, True, True)
    assert disk.resident() == 0
    assert keeper.state(evict=False)["page_cache"] == "cold"
