"""What changed between two runs, by their manifests alone."""

from dataclasses import replace
from typing import Any

import pytest
from tests.support.synthetic_run import REALISTIC, Truth, run_data

from virtoll.report.changes import NOTHING, change_line, change_lines
from virtoll.runfolder.records import Manifest
from virtoll.stats.changes import Change, what_changed

ONE = run_data(Truth(REALISTIC)).manifest


def with_host(**keys: Any) -> Manifest:
    return replace(ONE, host={**ONE.host, **keys})


def changed(after: Manifest, before: Manifest = ONE) -> list[str]:
    return list(map(change_line, what_changed(before, after)))


def test_two_equal_manifests_differ_in_nothing_and_it_is_said() -> None:
    again = replace(ONE, run="another", created_realtime_ns=1, command=("virtoll", "run"))
    assert what_changed(ONE, again) == ()
    assert change_lines(()) == (NOTHING,)


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({"kernel": "6.1.0-57-amd64"}, "host's kernel: 6.1.0-56-amd64 -> 6.1.0-57-amd64"),
        ({"cpu_model": "Other CPU"}, "CPU model: Synthetic CPU @ 2.50GHz -> Other CPU"),
        ({"memory_bytes": 32 << 30}, "host's memory: 24 GiB -> 32 GiB"),
        ({"mitigations": {"meltdown": "Vulnerable"}}, "mitigation of meltdown: PTI -> Vulnerable"),
        ({"clock_source": "tsc"}, "clock source: kvm-clock -> tsc"),
        ({"hypervisor": None}, "hypervisor under the host: kvm (gone)"),
        ({"os": "Debian GNU/Linux 13"}, "host's system: Debian GNU/Linux 12 -> Debian GNU/Linux 13"),
    ],
)
def test_what_the_host_is(keys: dict[str, Any], line: str) -> None:
    assert changed(with_host(**keys)) == [line]


def test_each_package_by_its_name() -> None:
    after = with_host(packages={"runc": "1.1.12", "crun": "1.8.1"})
    assert changed(after) == [
        "package crun: 1.8.1 (new)",
        "package qemu-system-x86: 1:7.2+dfsg-7 (gone)",
        "package runc: 1.1.5 -> 1.1.12",
    ]


def test_settings_that_an_older_virtoll_did_not_record_are_no_change() -> None:
    assert "tuned" not in ONE.host
    assert changed(with_host(tuned=["governor"], timer_hz=250)) == []
    assert changed(with_host(tuned=["governor"]), with_host(tuned=None)) == ["tuned settings: governor (new)"]


def test_platforms_of_one_version_are_one_line_and_the_kernels_is_told_once() -> None:
    def versions(kernel: str, runtime: str) -> Manifest:
        found = {"runc": runtime} | dict.fromkeys(("native", "native-again", "netns"), f"Linux {kernel}")
        entries = tuple(replace(one, version=found.get(one.label, "QEMU 7.2")) for one in ONE.platforms)
        return replace(with_host(kernel=f"{kernel} #1 SMP x86_64"), platforms=entries)

    after = versions("6.2", "runc 1.1.12")
    newer = tuple(replace(one, version=(one.version or "").replace("7.2", "8.0")) for one in after.platforms)
    assert changed(replace(after, platforms=newer), versions("6.1", "runc 1.1.5")) == [
        "host's kernel: 6.1 #1 SMP x86_64 -> 6.2 #1 SMP x86_64",
        "platform runc: runc 1.1.5 -> 1.1.12",
        "platforms qemu-tcg-virtio-net, qemu-tcg-e1000: QEMU 7.2 -> 8.0",
    ]


def test_a_platform_that_is_gone_and_one_that_cannot_be_used() -> None:
    def entry(label: str, **keys: Any) -> Manifest:
        return replace(ONE, platforms=tuple(replace(one, **keys) for one in ONE.platforms if one.label == label))

    assert changed(replace(ONE, platforms=()), entry("runc", version="runc 1.1.5")) == [
        "platform runc: runc 1.1.5 (gone)"
    ]
    lost = entry("runc", version=None, available=False, reason="runc: not found on this host")
    assert changed(lost, entry("runc", version="runc 1.1.5")) == [
        "platform runc: runc 1.1.5 -> not available (runc: not found on this host)"
    ]
    routed = entry("runc", parameters={"attachment": "routed"})
    assert changed(routed, entry("runc", parameters={"attachment": "bridge"})) == [
        "platform runc: attachment: bridge -> routed"
    ]


def test_the_agent_and_the_image() -> None:
    image = {**(ONE.image or {}), "digest": "sha256:" + "0" * 64}
    after = replace(ONE, virtoll="0.2.0", agent={**(ONE.agent or {}), "build": "other"}, image=image)
    assert [one.what for one in what_changed(ONE, after)] == ["Virtoll", "agent's build", "guests' image (digest)"]
    assert what_changed(ONE, after)[-1] == Change("guests' image (digest)", "d" * 12, "0" * 12)
    tools = {**image, "tools": {**image["tools"], "packages": {"fio": "9"}}}
    assert any(line.startswith("guests' package fio: ") for line in changed(replace(ONE, image=tools)))
    assert changed(replace(ONE, image=None))[0].startswith("guests' image: ")


def test_the_experiment_by_its_keys_else_by_its_text() -> None:
    def asked(**keys: Any) -> Manifest:
        return replace(ONE, experiment={**ONE.experiment, **keys})

    assert changed(asked(blocks=5, text="name: quick\nblocks: 5\n")) == ["experiment: blocks: 3 -> 5"]
    assert changed(asked(seed=7)) == ["experiment: seed: 1 -> 7"]
    smaller = {"vcpus": 1, "memory_bytes": 128 << 20}
    assert changed(asked(guest=smaller)) == ["experiment: guest's memory: 256 MiB -> 128 MiB"]
    (only,) = changed(asked(text="name: quick\nblocks: 3\n# other words\n"))
    assert only.startswith("experiment: its text (SHA-256): ")


def test_workloads_by_the_parameters_that_tell_them_apart() -> None:
    trials = tuple(
        replace(one, parameters={"digits": 65536}) if one.workload == "superpi" else one for one in ONE.plan.trials
    )
    fewer = tuple(one for one in trials if one.workload != "masr")
    after = replace(ONE, plan=replace(ONE.plan, trials=fewer))
    assert sorted(changed(after)) == [
        "experiment: workload masr: measured (gone)",
        "experiment: workload superpi: digits 16384 -> 65536",
    ]


def test_pinning_and_testbed() -> None:
    before = replace(ONE, pinning={"guest_cpus": [0], "generator_cpu": 1, "sink_cpu": 1})
    after = replace(before, pinning={"guest_cpus": [0, 1], "generator_cpu": 2, "sink_cpu": 1})
    assert changed(after, before) == ["guests' CPUs: 0 -> 0, 1", "generator's CPU: 1 -> 2"]
    assert changed(replace(ONE, testbed={"flow_control": None})) == ["testbed: hosts of its own (new)"]


def test_letters_that_would_steer_a_terminal_are_written_out() -> None:
    assert change_line(Change("host's kernel", "6.1\x1b[2J", "6.2\nX")) == "host's kernel: 6.1\\x1b[2J -> 6.2 X"
