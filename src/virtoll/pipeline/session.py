"""What all guests of a run stand on: lab, image, network peer, pinning, and the record of every command line.

Main types: ``RunSession``. Opened once a run, before the first guest; closed after the last.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from virtoll.agent.client import Caller
from virtoll.errors import GuestError, LabError
from virtoll.experiment.model import PlatformChoice
from virtoll.experiment.topology import Testbed
from virtoll.hosts.remote_peer import remote_peer
from virtoll.image import GuestImage, prepare_image, with_kernel_if_there
from virtoll.lab.data import LocalVolume
from virtoll.lab.inside import Lab, this_lab
from virtoll.pipeline.overhead import OverheadMeter
from virtoll.pipeline.peer import far_programs, lab_agent, load_peer, network_peer, peer_programs
from virtoll.pipeline.pinning import LoadCpus, Pinning
from virtoll.pipeline.progress import Progress
from virtoll.pipeline.requirements import SMALLEST_IMAGE, has_smallest_image
from virtoll.pipeline.sites import Sites
from virtoll.platforms.fake.site import model_site
from virtoll.platforms.host import Site
from virtoll.runfolder.records import CommandRecord
from virtoll.runfolder.store import RunFolder


@dataclass
class CommandLog:
    """The record of every command line: into the run folder, once there is one; before, they are held back."""

    folder: RunFolder | None = None
    _held: list[CommandRecord] = field(default_factory=list)

    def record(self, role: str, argv: Sequence[str], code: int | None) -> None:
        """Keep one command line."""
        entry = CommandRecord(time.time_ns(), role, tuple(argv), code)
        if self.folder is None:
            self._held.append(entry)
        else:
            self.folder.append(entry)

    def record_into(self, folder: RunFolder) -> None:
        """From now on command lines go to this folder, those held back first."""
        self.folder = folder
        for entry in self._held:
            folder.append(entry)
        self._held.clear()


@dataclass
class RunSession:
    """What all guests of a run stand on: this machine's site (a model's for models alone), pinning, frames' tags.

    ``attempts`` counts the records of each trial,
    ``boots`` the starts of each platform in each block, over all sessions of the run. ``overhead`` reads
    what the controller and the agents of this machine use. ``load_peer``: the agent that sends to guests beside the
    measured one, on ``load_cpus``; None where there are none, or models alone.
    """

    site: Site
    pinning: Pinning
    tags: Iterator[int]
    commands: CommandLog
    sites: Sites | None = None
    attempts: Counter[int] = field(default_factory=Counter)
    boots: Counter[tuple[str, int]] = field(default_factory=Counter)
    overhead: OverheadMeter = field(default_factory=OverheadMeter)
    load_peer: Caller | None = None
    load_cpus: LoadCpus = field(default_factory=LoadCpus)

    def site_of(self, choice: PlatformChoice) -> Site:
        """The site of a platform's guests: its host's, or this machine's; a ``GuestError`` where it is unavailable.

        Its image is the run's, or one that is small enough for a platform which copies it.
        """
        if self.sites is None:
            site = self.site
        else:
            site = self.sites.at(choice.host) if choice.build is None else self.sites.with_build(choice.build)
        small = site.image.needs_disk and has_smallest_image(choice)
        return replace(site, image=self.smallest_image) if small else site

    @cached_property
    def smallest_image(self) -> GuestImage:
        """Made before the lab was entered, as the run's own (``requirements.images_of``)."""
        made = prepare_image(SMALLEST_IMAGE, offline=True)
        return made if self.site.image.machine is None else with_kernel_if_there(made, offline=True)

    def refuse_dead_agent(self, error: GuestError) -> None:
        """Without one of the lab's own agents a trial cannot be measured, whatever its guest.

        That ends the run, and is not booked on the guest; ``resume`` starts them all anew.
        """
        agents = {
            "the network peer": self.site.peer,
            "the lab's agent": self.site.counters,
            "the agent for programs of the peer": self.site.programs,
            "the network peer of guests beside the measured one": self.load_peer,
        }
        gone = next((who for who, agent in agents.items() if agent is not None and agent.ended), None)
        if gone is None and self.site.far is not None and self.site.far.ended is not None:
            gone = f"the agent on {self.site.far.ended}"
        if gone is not None:
            raise LabError(f"{gone} ended; what was finished is stored: continue it with 'virtoll resume'") from error


@contextlib.contextmanager
def open_run_session(
    pinning: Pinning,
    progress: Progress,
    image: str = "tiny",
    testbed: Testbed | None = None,
    *,
    kernel: bool = True,
    neighbour_traffic: bool = False,
    peer_data_bytes: int = 0,
) -> Iterator[RunSession]:
    """Lab, image, network peer, and the testbed's other hosts; ``neighbour_traffic``: a peer for neighbours too.

    ``kernel``: with what machines need, if it is in the cache; else their probes say why it is not.
    ``peer_data_bytes``: room on a disk for the files of the peer's programs, 0 where no workload needs it.

    The image was made, and the other hosts' agents started, before the lab was entered: there is no way out of here.
    """
    commands = CommandLog()
    lab = this_lab(commands.record)
    made = prepare_image(image, offline=True, progress=progress.message)
    if kernel:
        made = with_kernel_if_there(made, offline=True)
    lab.agent = made.agent
    with (
        network_peer(lab, made) as (peer, network),
        lab_agent(lab, made) as (counters, counters_pid),
        remote_peer(testbed, network) as far,
        contextlib.ExitStack() as stack,
    ):
        programs: Caller | None = None
        volume = None
        if made.tools is not None and far is None:
            if peer_data_bytes:
                volume = _peer_volume(lab, peer_data_bytes, progress)
            if volume is not None:
                stack.callback(volume.remove)
            folder = None if volume is None else volume.folder
            programs = stack.enter_context(peer_programs(lab, made, network, pinning.generator_cpu, folder))
        elif made.tools is not None and testbed is not None:
            programs = stack.enter_context(far_programs(testbed, lab, made))
        site = Site(lab, made, peer, network, counters, far, programs=programs, programs_volume=volume)
        stack.callback(site.shared.close)
        overhead = OverheadMeter({"peer": network.peer_pid, "counters": counters_pid})
        sites = Sites(site, lab, network, testbed, stack)
        session = RunSession(site, pinning, itertools.count(1), commands, sites, overhead=overhead)
        if neighbour_traffic:
            session.load_cpus = pinning.of_load()
            session.load_peer = stack.enter_context(load_peer(lab, made, network))
        yield session


def _peer_volume(lab: Lab, size_bytes: int, progress: Progress) -> LocalVolume | None:
    """Room for files of the peer's programs; None where there is none, which costs the trials that need it alone."""
    try:
        return lab.data_volume("folder", size_bytes)
    except GuestError as error:
        progress.message(f"files of the peer: {error}")
        return None


def model_session(pinning: Pinning) -> RunSession:
    """Nothing but numbers: enough for platforms that are models."""
    return RunSession(model_site(), pinning, itertools.count(1), CommandLog())
