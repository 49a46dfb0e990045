"""The start of one guest: its agent is asked what the guest is, both ends of its network are set up, it is parked.

Main type: ``GuestStarts``. Must not: decide which guest is started, which ``fleet.py`` does.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from virtoll.agent.client import PROTOCOL, TrafficAgents
from virtoll.agent.links import network_request, peer_request
from virtoll.agent.operations.session import FactsRequest, HelloRequest
from virtoll.agent.path_counters import HopReader
from virtoll.agent.timekeeper import Timekeeper, await_path
from virtoll.errors import GuestError, LabError
from virtoll.experiment.model import Parameters, PlatformChoice
from virtoll.host.guest_usage import read_footprint
from virtoll.lab import interrupts
from virtoll.lab.data import DataVolume
from virtoll.lab.network import GuestNetwork, Link, with_found_macs
from virtoll.pipeline.data_directory import DataKeeper, find_data_volume
from virtoll.pipeline.guest_check import compare, compare_pre_provisioned
from virtoll.pipeline.guest_pool import GuestPool, end_guest
from virtoll.pipeline.guest_request import GuestRequests
from virtoll.pipeline.live_guest import LiveGuest, Placement, Slot
from virtoll.pipeline.overhead import OverheadMeter
from virtoll.platforms.base import Guest, GuestRequest, GuestStartError, Platform
from virtoll.platforms.host import Site
from virtoll.platforms.kernel_settings import why_not_in_force
from virtoll.runfolder.guest_records import FootprintRecord
from virtoll.runfolder.store import RunFolder

if TYPE_CHECKING:
    from virtoll.pipeline.drafts import BootDraft

_FACTS_DEADLINE_SECONDS = 60.0  # an emulated guest reads and hashes all its files


@dataclass(frozen=True)
class GuestStarts:
    """Starts guests of a block; ``boots`` counts the starts of each platform in each block, over the whole run."""

    block: int
    folder: RunFolder
    platforms: Mapping[str, type[Platform[Parameters]]]
    boots: Counter[tuple[str, int]]
    requests: GuestRequests
    pool: GuestPool
    overhead: OverheadMeter = field(default_factory=OverheadMeter)

    def start(self, choice: PlatformChoice, site: Site, slot: Slot) -> LiveGuest:
        """Start a guest, measure what it is, park it, and write its boot record; ``GuestError`` if that fails."""
        from virtoll.pipeline.drafts import BootDraft

        self.boots[choice.label, self.block] += 1
        attempt = self.boots[choice.label, self.block]
        boot = f"{choice.label}/{self.block}" + (f"/{attempt}" if attempt > 1 else "")
        self.pool.progress.message(f"starting {boot}")
        draft = BootDraft(boot, choice, self.block, attempt, slot)
        try:
            live = self._boot(choice, site, draft, slot, self.boots.total())
        except (GuestError, LabError) as error:
            evidence = error.evidence if isinstance(error, GuestStartError) else {}
            draft.failed(str(error), self.folder.keep_evidence(boot.replace("/", "-"), evidence))
            interrupts.check()  # before it is stored: the start may have failed of it
            self.folder.append(draft.record)
            raise GuestError(f"{slot.words} could not be started: {error}") from error
        self.folder.append(draft.record)
        return live

    def append_footprint(self, live: LiveGuest, when: Literal["idle", "after-work"]) -> None:
        """Store what a guest holds of the host's memory; nothing for a model."""
        processes = live.guest.host_processes()
        if processes is None:
            return
        held = read_footprint(processes, live.site.this_machine.cgroup)
        self.folder.append(
            FootprintRecord(
                boot=live.boot,
                platform=live.label,
                block=self.block,
                when=when,
                monotonic_ns=held.monotonic_ns,
                processes=held.processes,
                shared=held.shared,
                charged_bytes=held.charged_bytes,
                files_bytes=held.files_bytes,
            )
        )

    def _boot(self, choice: PlatformChoice, site: Site, draft: BootDraft, slot: Slot, start: int) -> LiveGuest:
        """Start one guest; its record's draft gets what was asked for and what was found, as far as it comes.

        ``start``: its number among all starts of the run. Whatever ends the start early ends the guest and gives its
        room back; a ``GuestError`` carries the evidence.
        """
        boot, kind = draft.record.boot, self.platforms[choice.platform]
        with contextlib.ExitStack() as undo:
            volume, no_data = self._data_volume(kind, site, slot)
            if volume is not None:
                undo.callback(volume.remove)
            owners = {link.owner for other in self.pool.everyone() for link in other.network.links}
            request = self.requests.request(choice, boot, site, volume, slot, owners)
            draft.asked(request, request.network)
            guest = kind.with_parameters(choice.parameters).start(request, site)
            undo.callback(end_guest, guest, site, None, self.pool.progress)
            draft.started(guest)
            try:
                network = _with_macs(guest, guest.network or request.network)
                draft.asked(request, network)
                identifier = (os.getpid() + start) % 2**16
                timekeeper, hops = self._connect(guest, network, site, identifier, counters=choice.counters)
                if site.network.local is not None and network.sources:
                    # Guests side by side that are not pinned are not on the sender's CPU either, but on any.
                    unpinned = self.requests.pinning.usable if slot.affinity == "unpinned" else ()
                    draft.receives_on(site.network.local.receive_on(network, request.cpus or unpinned))
                self._examine(guest, request, draft, choice)
                room = guest.data or volume
                live = LiveGuest(
                    boot=boot,
                    guest=guest,
                    network=network,
                    timekeeper=timekeeper,
                    hops=hops,
                    wire=_wire(guest, site),
                    site=site,
                    label=choice.label,
                    place=Placement(request.cpus, request.vcpus, request.memory_bytes),
                    unlike=draft.record.fatal,
                    data=DataKeeper(guest.agent, room, guest.flushes) if room is not None else None,
                    no_data=no_data,
                    receives_apart=draft.receives_apart,
                    instance=slot.instance,
                )
                if slot.instance == 0 and slot.group is None:
                    self.append_footprint(live, "idle")
                guest.park()
            except GuestError as error:
                raise GuestStartError(str(error), guest.evidence()) from error
            undo.pop_all()
        return live

    def _data_volume(
        self, kind: type[Platform[Parameters]], site: Site, slot: Slot
    ) -> tuple[DataVolume | None, str | None]:
        """As ``find_data_volume``."""
        needed_bytes = self.requests.data_bytes(slot)
        if slot.group is not None:
            promised = slot.instance * needed_bytes  # all are started at the same time
        else:
            promised = sum(live.data.volume.size_bytes for live in self.pool.everyone() if live.data is not None)
        if site.programs_volume is not None:
            promised += site.programs_volume.size_bytes
        return find_data_volume(kind, site, needed_bytes, promised)

    def _examine(self, guest: Guest, request: GuestRequest, draft: BootDraft, choice: PlatformChoice) -> None:
        """Measure what the guest is and compare it with what was asked for.

        ``GuestError`` if its kernel lacks a setting that its platform's parameters ask for.
        """
        hello = guest.agent.ask(HelloRequest(protocol=PROTOCOL))
        facts = guest.agent.ask(FactsRequest(), _FACTS_DEADLINE_SECONDS)
        host = guest.host_view()
        if choice.parameters.pre_provisioned:
            unlike = compare_pre_provisioned(request, facts)
        else:
            unlike = compare(request, facts, host)
        draft.examined(facts, unlike, hello, host, guest.limits_held)
        if (refusal := why_not_in_force(choice.parameters, facts, data=request.data is not None)) is not None:
            raise GuestError(refusal)

    def _connect(
        self, guest: Guest, network: GuestNetwork, site: Site, identifier: int, *, counters: bool
    ) -> tuple[Timekeeper, HopReader]:
        """Set the network up on both sides, each by its own agent; then the timekeeper listens on the guest's link."""
        wire = _wire(guest, site)
        _set_up_far_ends(guest, network, wire)
        configured = guest.agent.ask(network_request(network))
        names = {interface.mac: interface.name for interface in configured.interfaces if interface.mac is not None}
        link = network.marks
        for each in network.links:
            await_path(guest.peer if _is_near(each) else wire.at(each.role, each.place), each)
        name, measuring = names[link.guest_mac] if link else "", self.overhead.measuring
        timekeeper = Timekeeper(guest.agent, guest.peer, link, name, identifier, measuring=measuring)
        sink_hosts = (wire.of_sink or (wire.sink,)) if len(wire.agents) > 1 else ()
        return timekeeper, HopReader(
            peer=wire.generator,
            guest=guest.agent,
            lab=site.counters,
            network=network,
            guest_names=names,
            endpoints=site.network.endpoint_interfaces(network),
            of_sink=sink_hosts,
            of_source=wire.of_source,
            enabled=counters,
        )


def _with_macs(guest: Guest, network: GuestNetwork) -> GuestNetwork:
    """The network with the addresses that a guest's own cards have."""
    if network.attachment != "passthrough":
        return network
    interfaces = guest.agent.ask(FactsRequest(), _FACTS_DEADLINE_SECONDS).interfaces
    return with_found_macs(network, [interface.mac for interface in interfaces if interface.mac is not None])


def _is_near(link: Link) -> bool:
    """Whether the guest's peer has the other end of a link."""
    return link.trunk is None or link.role == "marks"


def _set_up_far_ends(guest: Guest, network: GuestNetwork, wire: TrafficAgents) -> None:
    guest.peer.ask(peer_request(GuestNetwork(tuple(filter(_is_near, network.links)))))
    trunked = [link for link in network.links if not _is_near(link)]
    for agent in wire.agents if trunked else ():
        agent_links = tuple(link for link in trunked if wire.at(link.role, link.place) is agent)
        agent.ask(peer_request(GuestNetwork(agent_links)))


def _wire(guest: Guest, site: Site) -> TrafficAgents:
    """Who generates and counts for a guest: its peer, or the testbed's other hosts."""
    return site.far.ends if site.far else TrafficAgents.of_one(guest.peer)
