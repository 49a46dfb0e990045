"""The manifest of a run: what was asked, planned, found and used, as ``docs/run-folder.md`` lays it out.

Built once, before the first guest starts. It must not measure anything.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

from virtoll import units
from virtoll.agent.client import PROTOCOL
from virtoll.agent.operations.session import HelloRequest
from virtoll.errors import ImageError, UsageError
from virtoll.experiment.model import Experiment, PlatformChoice
from virtoll.experiment.plan import Plan
from virtoll.host.fingerprint import describe_host
from virtoll.hosts.nodes import VARIABLE, node_words
from virtoll.image import GuestImage, made_forms
from virtoll.nested import NESTED_HOSTS, prepare_nested_host
from virtoll.pipeline.pinning import Pinning
from virtoll.pipeline.preview import planned_trial
from virtoll.pipeline.requirements import has_smallest_image
from virtoll.platforms import EVERY_PLATFORM, PLATFORMS
from virtoll.platforms.base import VALIDATION_WORDS, Probe
from virtoll.platforms.host import Site
from virtoll.runfolder.records import AgainstRecord, Manifest, MetricRecord, PlanRecord, PlatformEntry
from virtoll.runfolder.store import FORMAT
from virtoll.version import __version__
from virtoll.workloads import WORKLOADS
from virtoll.workloads.base import Metric


def build(
    run: str,
    command: list[str],
    experiment: Experiment,
    plan: Plan,
    *,
    estimated_seconds: float,
    probes: Mapping[str, Probe],
    site: Site,
    pinning: Pinning,
    smallest: GuestImage | None = None,
    against: AgainstRecord | None = None,
) -> Manifest:
    """The manifest of a run that is about to begin.

    ``smallest``: the image of platforms that copy one as a whole, where the run's is larger. ``against``: what is
    measured against what, if anything is.
    """
    return Manifest(
        format=FORMAT,
        run=run,
        created_realtime_ns=time.time_ns(),
        virtoll=__version__,
        experiment=_experiment(experiment),
        command=tuple(command),
        baseline=experiment.baseline,
        control=experiment.control,
        platforms=tuple(_platform(choice, probes[choice.label]) for choice in experiment.platforms),
        metrics=metric_records(dict.fromkeys(choice.workload for choice in experiment.workloads)),
        plan=PlanRecord(plan.seed, estimated_seconds, tuple(map(planned_trial, plan.trials))),
        host=dict(describe_host({"libc6", *(package for kind in PLATFORMS.values() for package in kind.packages)})),
        image=_images(experiment, site, smallest),
        agent=_agent(site),
        pinning=pinning.record(),
        testbed=experiment.testbed.model_dump(mode="json") if experiment.testbed else None,
        nested=None if site.is_model else nested_hosts(experiment),
        against=against,
        nodes=node_words(experiment.testbed.nodes) or None if experiment.testbed else None,
    )


def _experiment(experiment: Experiment) -> dict[str, object]:
    return {
        "name": experiment.name,
        "question": experiment.question,
        "file": str(experiment.file),
        "text": experiment.text,
        "scenario": experiment.scenario,
        "conditions": [condition.label for condition in experiment.conditions],
        "scale": [point.to_json() for point in experiment.scale.points] if experiment.scale else None,
        "blocks": experiment.blocks,
        "rounds": experiment.rounds,
        "looks": experiment.looks.plan if experiment.looks else None,
        "seed": experiment.seed,
        "study": experiment.study,
        "size": experiment.size,
        "selection": experiment.selection.as_record(),
        "order": experiment.order,
        "boot": experiment.boot,
        "summary": experiment.summary,
        "margin": experiment.margin,
        "needs": list(experiment.needs),
        "thresholds": list(experiment.thresholds),
        "guest": {"vcpus": experiment.vcpus, "memory_bytes": experiment.memory_bytes, "marks": experiment.marks},
    }


def refuse_other_host(manifest: Manifest, experiment: Experiment, site: Site, action: str = "resume") -> None:
    """Samples of one run come from one host and one agent: refuse to mix in another's. ``action``: what was asked."""
    here = describe_host()
    if manifest.host["fingerprint"] != here["fingerprint"]:
        raise UsageError(
            f"run {manifest.run} was begun on another host or kernel ({_unlike(manifest.host, here)}); {action} it "
            f"there, or start a new run of {experiment.name}"
        )
    refuse_other_nodes(manifest, action)
    agent = _agent(site)
    if (manifest.agent or {}).get("sha256") != (agent or {}).get("sha256"):
        raise UsageError(
            f"run {manifest.run} was begun with another build of the agent; start a new run of {experiment.name}"
        )
    if not site.is_model and (manifest.image or {}).get("digest") != site.image.digest:
        raise UsageError(
            f"run {manifest.run} was begun with another image {site.image.name} (its packages differ, or Virtoll's "
            f"version); start a new run of {experiment.name}"
        )
    begun_with = ((manifest.image or {}).get("kernel") or {}).get("sha256")
    here_with = site.image.machine.kernel.sha256 if site.image.machine is not None else None
    if begun_with is not None and begun_with != here_with:
        why = site.image.why_no_kernel if here_with is None else "another one is in the cache"
        raise UsageError(
            f"run {manifest.run} was begun with a guest kernel that is not here ({why}); start a new run of "
            f"{experiment.name}"
        )


def refuse_other_nodes(manifest: Manifest, action: str) -> None:
    """UsageError where the nodes of a run's testbed are other hosts here than when it was begun."""
    begun = manifest.nodes or {}
    for label, now in node_words(begun).items():
        if begun[label] != now:
            raise UsageError(
                f"run {manifest.run} was begun with {begun[label]} as node {label!r}, and {VARIABLE} has {now}; "
                f"{action} it with that host, or start a new run"
            )


def _unlike(then: Mapping[str, object], here: Mapping[str, object]) -> str:
    """What of two hosts differs, of what identifies one: the first is told, as it was and as it is."""
    for key in ("kernel", "cpu_model", "cpus", "hypervisor", "mitigations"):
        if key in then and then[key] != here[key]:
            was, now = then[key], here[key]
            if isinstance(was, Mapping) and isinstance(now, Mapping):
                names = sorted(name for name in {*was, *now} if was.get(name) != now.get(name))
                return f"its mitigations of {', '.join(names)} differ"
            return f"{key.replace('_', ' ')}: {was}, here {now}"
    return f"fingerprint {str(then['fingerprint'])[:12]}, here {str(here['fingerprint'])[:12]}"


def _caveat(choice: PlatformChoice) -> str | None:
    """What everything measured of it is marked with: its host's caveat, or that its driver never met the product."""
    return choice.whereabouts["caveat"] or VALIDATION_WORDS.get(EVERY_PLATFORM[choice.platform].validation)


def _platform(choice: PlatformChoice, probe: Probe) -> PlatformEntry:
    return PlatformEntry(
        label=choice.label,
        platform=choice.platform,
        family=EVERY_PLATFORM[choice.platform].family,
        parameters=choice.parameters.model_dump(mode="json"),
        available=probe.available,
        reason=probe.reason,
        version=probe.version,
        host=choice.whereabouts["host"],
        caveat=_caveat(choice),
        stands_for=choice.stands_for,
        counters=choice.counters,
        vcpus=choice.vcpus,
        memory_bytes=choice.memory_bytes,
    )


def metric_records(names: Iterable[str]) -> tuple[MetricRecord, ...]:
    """The metrics of these workloads, the first of each as its primary one."""
    return tuple(
        MetricRecord(
            workload=name,
            **asdict(metric),
            title=_title(name, metric),
            resource=WORKLOADS[name].resource,
            primary=place == 0,
        )
        for name in names
        for place, metric in enumerate(WORKLOADS[name].metrics)
    )


def _title(name: str, metric: Metric) -> str:
    """The workload's, and of which of its metrics, where it has several: else two rows of a table would have one
    name."""
    workload = WORKLOADS[name]
    return workload.title if len(workload.metrics) == 1 else f"{workload.title}: {units.metric_words(metric.name)}"


def _images(experiment: Experiment, site: Site, smallest: GuestImage | None) -> dict[str, object] | None:
    if site.is_model:
        return None
    described = _image(site.image)
    if smallest is not None:
        whose = [choice.label for choice in experiment.platforms if has_smallest_image(choice)]
        described["smallest"] = {**_image(smallest), "platforms": whose}
    return described


def _image(image: GuestImage) -> dict[str, object]:
    parts = image.machine
    more: Mapping[str, str] = {} if parts is None else parts.digests
    described: dict[str, object] = {
        "name": image.name,
        "digest": image.digest,
        "forms": dict(image.digests) | dict(more) | {form.name: form.digest for form in made_forms(image)},
    }
    if parts is not None:
        kernel = parts.kernel
        described["kernel"] = {
            "package": kernel.package,
            "version": kernel.version,
            "sha256": kernel.sha256,
            "source": kernel.source,
            "package_sha256": kernel.package_sha256,
        }
    if image.tools is not None:
        described["tools"] = dict(image.tools)
    return described


def nested_hosts(experiment: Experiment) -> dict[str, object] | None:
    """By kind of nested host, the packages that are in it and those of what emulates it; None where it names none.

    One whose files could not be made is not among them: its platforms are unavailable.
    """
    hosts: dict[str, object] = {}
    for name in experiment.nested_hosts:
        with contextlib.suppress(KeyError, ImageError):
            made = prepare_nested_host(NESTED_HOSTS[name], offline=True)
            emulator = made.emulator
            hosts[name] = {
                "packages": made.versions,
                "emulator": emulator.versions,
                "emulator_mended": emulator.mended,
            }
    return hosts if experiment.nested_hosts else None


def _agent(site: Site) -> dict[str, object] | None:
    if site.is_model:
        return None
    hello = site.peer.ask(HelloRequest(protocol=PROTOCOL))
    return {
        "version": hello.version,
        "protocol": hello.protocol,
        "build": hello.build,
        "sha256": site.image.agent_sha256,
        "bytes": Path(site.image.agent).stat().st_size,
    }
