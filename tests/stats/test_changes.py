"""What changed between two runs, by their manifests alone."""

import hashlib
from dataclasses import replace
from typing import Any

import pytest
from tests.support.synthetic_run import REALISTIC, Truth, run_data

from virtoll.report.changes import NOTHING, change_line, change_lines
from virtoll.runfolder.records import Manifest, PlatformEntry
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


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (True, False, ("yes", "no")),
        ([], ["a", 2, True], ("none", "a, 2, yes")),
        (("a",), [1.5], ("a", "1.5")),
        ([["b", "a"]], [{"z": 1}], ('[["b", "a"]]', '[{"z": 1}]')),
        ({"b": 1, "a": (2, 3)}, {}, ('{"a": [2, 3], "b": 1}', "{}")),
        ({"a": frozenset({7})}, "x", ('{"a": [7]}', "x")),
        (None, 0, (None, "0")),
        ("", None, ("", None)),
        (["a"], ("a",), None),
        (1, 1.0, None),
        (1, "1", None),
        (None, None, None),
    ],
)
def test_values_in_words(before: Any, after: Any, told: tuple[str | None, str | None] | None) -> None:
    """What is written alike is no change."""
    found = what_changed(with_host(tuned=before), with_host(tuned=after))
    assert found == (() if told is None else (Change("tuned settings", *told),))


def test_digests_and_sizes_in_words() -> None:
    digest = "sha256:" + "ab" * 32
    one = with_host(hostname_hash=digest, memory_bytes="unknown")
    assert what_changed(one, with_host(hostname_hash="cd" * 32, memory_bytes=3 << 30)) == (
        Change("machine (hash of its name)", "ab" * 6, "cd" * 6),
        Change("host's memory", "unknown", "3 GiB"),
    )


def test_the_order_is_from_virtoll_to_the_testbed() -> None:
    before = replace(
        with_host(packages={"b": "1", "a": "1"}, mitigations={"x": "1"}, io_schedulers={"sda": "none"}, kernel="1"),
        virtoll="1",
        agent={"version": "1", "protocol": 1, "build": "x", "sha256": "0" * 64},
        baseline="a",
        control="b",
        image={"name": "one", "digest": "sha256:" + "1" * 64},
        nested={"xen": {"packages": {"xen": "4.17"}, "emulator": {"qemu": "7"}, "emulator_mended": False}, "kvm": {}},
        pinning={"guest_cpus": [0], "sink_cpu": 1},
        testbed={"mtu": 1500, "flow_control": None},
    )
    after = replace(
        with_host(packages={"a": "2", "b": "1"}, mitigations={"x": "2"}, io_schedulers={"sda": "bfq"}, kernel="2"),
        virtoll="2",
        agent={"version": "2", "protocol": 2, "build": "y", "sha256": "1" * 64},
        baseline="c",
        control=None,
        image={"name": "two", "digest": "sha256:" + "2" * 64},
        nested={"new": {}, "xen": {"packages": {"xen": "4.18"}, "emulator": {"qemu": "8"}, "emulator_mended": True}},
        pinning={"guest_cpus": [0, 1], "generator_cpu": 2, "sink_cpu": 2},
        testbed={"mtu": 9000, "link_rate": 1},
        experiment={**ONE.experiment, "seed": 99},
    )
    assert changed(after, before) == [
        "Virtoll: 1 -> 2",
        "agent's version: 1 -> 2",
        "agent's protocol: 1 -> 2",
        "agent's build: x -> y",
        f"agent's program (SHA-256): {'0' * 12} -> {'1' * 12}",
        "host's kernel: 1 -> 2",
        "mitigation of x: 1 -> 2",
        "I/O scheduler of sda: none -> bfq",
        "package a: 1 -> 2",
        "baseline: a -> c",
        "control: b (gone)",
        "guests' image: one -> two",
        f"guests' image (digest): {'1' * 12} -> {'2' * 12}",
        "nested xen's package xen: 4.17 -> 4.18",
        "nested xen's emulator qemu: 7 -> 8",
        "nested xen's emulator is mended: no -> yes",
        "experiment: seed: 1 -> 99",
        "guests' CPUs: 0 -> 0, 1",
        "sink's CPU: 1 -> 2",
        "testbed: mtu: 1500 -> 9000",
        "testbed: link rate: 1 (new)",
    ]
    assert changed(replace(before, pinning=None, nested=None, testbed=None), before) == [
        "testbed: hosts of its own (gone)"
    ]


def test_a_model_has_neither_agent_nor_image() -> None:
    model = replace(ONE, agent=None, image=None)
    real = replace(ONE, agent={"build": "x"}, image={"name": "bookworm"})
    assert changed(real, model) == ["agent: there (new)", "guests' image: bookworm (new)"]
    named = replace(ONE, agent={"version": "7"}, image={})
    assert changed(model, named) == ["agent: 7 (gone)", "guests' image: there (gone)"]
    assert changed(named, model) == ["agent: 7 (new)", "guests' image: there (new)"]
    assert changed(model, real) == ["agent: there (gone)", "guests' image: bookworm (gone)"]
    assert changed(model, model) == []


def test_packages_that_one_of_both_did_not_record_are_no_change() -> None:
    listed = {"packages": {"a": "1"}, "emulator": {"qemu": "7"}}
    for less in ({}, dict.fromkeys(listed)):
        bare = {key: value for key, value in ONE.host.items() if key not in ("packages", "mitigations")} | less
        one = replace(ONE, host=bare, nested={"xen": less})
        two = replace(ONE, host={**bare, "packages": {"a": "1"}}, nested={"xen": listed})
        assert changed(one, two) == changed(two, one) == []


def test_the_image_by_its_kernel_and_its_tools() -> None:
    def image(**parts: Any) -> Manifest:
        return replace(ONE, image={"name": "one", **parts})

    kernels = [{"package": f"linux-{n}", "version": f"{n}", "sha256": f"sha256:{n * 64}"} for n in ("1", "2")]
    tools = [{"suite": n, "packages": {"fio": n}} for n in ("bookworm", "trixie")]
    assert changed(image(kernel=kernels[1], tools=tools[1]), image(kernel=kernels[0], tools=tools[0])) == [
        "guests' kernel package: linux-1 -> linux-2",
        "guests' kernel version: 1 -> 2",
        f"guests' kernel (SHA-256): {'1' * 12} -> {'2' * 12}",
        "guests' suite of Debian: bookworm -> trixie",
        "guests' package fio: bookworm -> trixie",
    ]
    for less in (image(), image(kernel=None, tools=None)):
        assert changed(image(kernel=kernels[1], tools=tools[1]), less) == []
        assert changed(less, image(kernel=kernels[1], tools=tools[1])) == []
    bare: dict[str, Any] = {"packages": None}
    assert changed(image(tools=bare), image(tools={"packages": {"fio": "1"}})) == ["guests' package fio: 1 (gone)"]


def platforms(*entries: PlatformEntry, kernel: str = "6.1 #1 SMP") -> Manifest:
    return replace(with_host(kernel=kernel), platforms=entries)


def entry(label: str, **changed: Any) -> PlatformEntry:
    given = {
        "label": label,
        "available": True,
        "reason": None,
        "version": "1",
        "parameters": {},
        "host": None,
        **changed,
    }
    return replace(ONE.platforms[0], **given)


@pytest.mark.parametrize(
    ("before", "after", "was", "now"),
    [
        ({"version": None}, {"version": "2"}, "a version that is not recorded", "2"),
        ({"version": ""}, {"version": "2"}, "a version that is not recorded", "2"),
        ({"available": False}, {"available": True}, "not available", "1"),
        ({"available": False, "reason": "no KVM"}, {}, "not available (no KVM)", "1"),
        ({"version": "Linux 6.1"}, {"version": "Linux 6.2"}, "Linux 6.1", "Linux 6.2"),
        ({"version": "Linux 6.1"}, {"version": "1"}, "Linux 6.1", "1"),
    ],
)
def test_versions_of_platforms(before: dict[str, Any], after: dict[str, Any], was: str, now: str) -> None:
    one, other = (platforms(entry("p", **keys)) for keys in (before, after))
    assert what_changed(one, other) == (Change("platform p", was, now),)


def test_the_hosts_kernel_is_told_once_and_only_where_it_is_the_platform() -> None:
    one = platforms(entry("native", version="Linux 6.1"), entry("gone"))
    two = platforms(entry("native", version="Linux 6.2"), entry("new"), kernel="6.2")
    told = ["host's kernel: 6.1 #1 SMP -> 6.2", "platform gone: 1 (gone)", "platform new: 1 (new)"]
    assert changed(two, one) == told
    lost = platforms(entry("native", version="Linux 6.2", available=False), kernel="6.2")
    assert changed(lost, platforms(entry("native", version="Linux 6.1"))) == [
        told[0],
        "platform native: Linux 6.1 -> not available",
    ]


def test_what_was_asked_of_a_platform() -> None:
    """A parameter that one of both does not know is no change."""
    one = entry(
        "p",
        platform="runc",
        parameters={"link_rate": 1, "old": 1},
        caveat=None,
        counters=True,
        vcpus=1,
        memory_bytes=1 << 30,
    )
    two = entry(
        "p",
        platform="crun",
        parameters={"link_rate": 2, "new": 1},
        host="far",
        caveat="emulated",
        counters=False,
        vcpus=2,
        memory_bytes=2 << 30,
    )
    assert changed(platforms(two), platforms(one)) == [
        "platform p: product: runc -> crun",
        "platform p: link rate: 1 -> 2",
        "platform p: mark on its results: emulated (new)",
        "platform p: counters read around what is measured: yes -> no",
        "platform p: vCPUs of its own: 1 -> 2",
        "platform p: memory of its own: 1 GiB -> 2 GiB",
    ]
    marked = replace(one, caveat="nested")
    assert changed(platforms(one), platforms(marked)) == ["platform p: mark on its results: nested (gone)"]
    far, near = (platforms(entry("p", host=host)) for host in ("far", "near"))
    assert changed(near, far) == ["platform p: where its guests are: far -> near"]


def test_the_experiment_by_what_is_measured_and_on_what() -> None:
    def asked(text: str | None, **parts: Any) -> Manifest:
        return replace(ONE, experiment={"text": text, **parts}, platforms=())

    was = asked("a", guest={"vcpus": 1, "memory_bytes": 1 << 30, "old_key": 1}, selection={"disk_bytes": "all"})
    now = asked("b", guest={"vcpus": 2, "memory_bytes": 2 << 30, "new": 1}, selection={"disk_bytes": 1 << 30})
    assert changed(now, was) == [
        "experiment: guest's vcpus: 1 -> 2",
        "experiment: guest's memory: 1 GiB -> 2 GiB",
        "experiment: selection's disk: all -> 1 GiB",
    ]
    digests = [hashlib.sha256(text).hexdigest()[:12] for text in (b"a", b"b")]
    assert changed(asked("b"), asked("a")) == [f"experiment: its text (SHA-256): {digests[0]} -> {digests[1]}"]
    assert changed(asked(None), asked("a")) == changed(asked("a"), asked(None)) == []
    assert changed(asked("b", guest=None), asked("a", guest={"vcpus": 1}))[0].startswith("experiment: its text")
    other = replace(asked("b"), platforms=(entry("p"),))
    assert changed(other, asked("a")) == ["platform p: 1 (new)"], "the text asks for another platform"
    told = replace(asked("b"), platforms=(entry("p", version="2"),))
    assert changed(told, replace(asked("a"), platforms=(entry("p"),)))[1].startswith("experiment: its text")


def planned(*trials: tuple[str, dict[str, Any]]) -> Manifest:
    first = ONE.plan.trials[0]
    made = tuple(replace(first, workload=workload, parameters=parameters) for workload, parameters in trials)
    return replace(ONE, plan=replace(ONE.plan, trials=made))


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ([{"size": 1}], [{"size": 2}], ("size 1", "size 2")),
        ([{"size": 1, "n": 5}], [{"size": 1, "n": 5}, {"size": 2, "n": 5}], ("size 1", "size 1; size 2")),
        ([{"a_b": 1}, {"a_b": 1}], [{"a_b": 1, "c_d": True}], ("measured", "c d yes")),
        ([{"size": 1}], [], ("measured", None)),
        ([], [{"size": 1}, {"size": 2, "n": 3}], (None, "size 1; size 2, n 3")),
        ([{"size": 1}], [{"size": 1}], None),
    ],
)
def test_sets_of_parameters_by_what_tells_them_apart(
    before: list[dict[str, Any]], after: list[dict[str, Any]], told: tuple[str | None, str | None] | None
) -> None:
    was, now = (planned(*(("w", own) for own in sets)) for sets in (before, after))
    assert what_changed(was, now) == (() if told is None else (Change("experiment: workload w", *told),))
