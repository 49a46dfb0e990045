"""Records of what is still going on: a guest that is being started, a trial that has not been run.

Main types: ``BootDraft``. A record is a frozen value: what becomes known makes the next one. Imported where a record is
made, for the same reason as the records themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from virtoll.experiment.model import PlatformChoice
from virtoll.experiment.plan import Trial
from virtoll.runfolder.facts import Facts
from virtoll.runfolder.guest_records import AgentClock, Forwarding, LimitsSeen
from virtoll.runfolder.records import BootRecord, Requested, TrialRecord

if TYPE_CHECKING:
    from virtoll.agent.operations.session import HelloReply
    from virtoll.host.guest_usage import HostView
    from virtoll.lab.network import GuestNetwork
    from virtoll.lab.receiving import ReceivingCpus
    from virtoll.pipeline.guest_check import Mismatch
    from virtoll.pipeline.live_guest import Slot
    from virtoll.platforms.base import Guest, GuestRequest
    from virtoll.workloads.base import Measurement


class BootDraft:
    """The record of a guest's start, as far as it has come: ``record`` is what is stored, whatever ends the start."""

    def __init__(self, boot: str, choice: PlatformChoice, block: int, attempt: int, slot: Slot) -> None:
        where = choice.whereabouts
        self.record = BootRecord(
            boot=boot,
            platform=choice.label,
            block=block,
            attempt=attempt,
            status="ok",
            reason=None,
            spawn_monotonic_ns=None,
            ready_monotonic_ns=None,
            facts=None,
            requested=None,
            mismatches=(),
            attachment=None,
            evidence=(),
            host=where["host"],
            caveat=where["caveat"],
            instance=slot.instance,
            scale=slot.group,
        )

    def asked(self, request: GuestRequest, network: GuestNetwork) -> None:
        """What the guest was to be; ``network`` may be another than the request's, once it is there."""
        macs = tuple(link.guest_mac for link in network.links)
        disk = request.own.disk
        requested = Requested(
            request.vcpus,
            request.memory_bytes,
            tuple(request.cpus),
            request.cpu_quota,
            macs,
            cpu_weight=request.own.cpu_weight,
            disk=None if disk is None else disk.device,
            disk_bytes_per_second=None if disk is None else disk.bytes_per_second,
        )
        self.record = self.record.replace(requested=requested)

    def started(self, guest: Guest) -> None:
        """The guest's agent has said that it is ready."""
        self.record = self.record.replace(
            attachment=guest.attachment,
            spawn_monotonic_ns=guest.spawned_monotonic_ns,
            ready_monotonic_ns=guest.ready_monotonic_ns,
            executed_monotonic_ns=guest.executed_monotonic_ns,
        )

    def examined(
        self,
        facts: Facts,
        unlike: Sequence[Mismatch],
        hello: HelloReply,
        host: HostView,
        held: Mapping[str, str],
    ) -> None:
        """What the guest is, by its agent's ``facts`` and ``hello`` and by its host; ``held``: limits of its own."""
        self.record = self.record.replace(
            facts=facts,
            mismatches=tuple(mismatch.text for mismatch in unlike),
            fatal=tuple(mismatch.text for mismatch in unlike if mismatch.fatal),
            agent_clock=_agent_clock(hello),
            host_boot_id=host.boot_id,
            limits_seen=LimitsSeen(host.limits.memory_bytes, host.limits.cpu_quota, dict(held)),
            host_process=host.process,
        )

    def receives_on(self, receiving: ReceivingCpus) -> None:
        """On which CPUs of the host its frames are worked off."""
        self.record = self.record.replace(forwarding=Forwarding(receiving.cpus, receiving.means, receiving.reason))

    @property
    def receives_apart(self) -> bool:
        """Whether its links queue frames for threads of the kernel, and do not work them off as they are sent."""
        return self.record.forwarding is not None and self.record.forwarding.by_threads

    def failed(self, reason: str, evidence: tuple[str, ...]) -> None:
        """The start came to nothing."""
        self.record = self.record.replace(status="failed", reason=reason, evidence=evidence)


def _agent_clock(hello: HelloReply) -> AgentClock | None:
    """When the agent was started and ready, by its own kernel's clocks; None if it does not report them."""
    reported = (hello.started_monotonic_ns, hello.started_boottime_ns, hello.ready_monotonic_ns)
    known = [value for value in reported if value is not None]
    return AgentClock(*known) if len(known) == len(reported) else None


def skipped_trial(trial: Trial, attempt: int, reason: str | None = None) -> TrialRecord:
    """A trial of which nothing was measured."""
    where = trial.platform.whereabouts
    return TrialRecord(
        trial=trial.number,
        block=trial.block,
        platform=trial.platform.label,
        workload=trial.workload.workload,
        parameters=trial.workload.parameters.model_dump(mode="json"),
        boot=None,
        attempt=attempt,
        status="skipped",
        reason=reason,
        started_realtime_ns=None,
        ended_realtime_ns=None,
        clock=None,
        result=None,
        check=None,
        points=None,
        evidence=(),
        host=where["host"],
        caveat=where["caveat"],
        round=trial.round,
        warm_up=trial.warm_up,
        condition=trial.condition,
        scale=trial.scale,
    )


def with_outcome(record: TrialRecord, outcome: Measurement) -> TrialRecord:
    """The record with what its workload measured."""
    return record.replace(
        clock=outcome.clock,
        result=outcome.result,
        check=outcome.check,
        points=None if outcome.points is None else tuple(outcome.points),
        cpu_points=None if outcome.cpu_points is None else tuple(outcome.cpu_points),
    )
