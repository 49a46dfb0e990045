"""What changed between two runs, by their manifests alone."""

import hashlib
from typing import Any

import pytest
from tests.support.facts import assert_facts
from tests.support.synthetic_run import REALISTIC, Truth, run_data

from virtoll.report.changes import NOTHING, change_line, change_lines
from virtoll.runfolder.records import Manifest, PlatformEntry
from virtoll.stats.changes import Change, what_changed

ONE = run_data(Truth(REALISTIC)).manifest
Expected = tuple[str, str | None, str | None]
"""What a change names (facts, by spaces), and the values before and after it; None: it was not there."""


def with_host(**keys: Any) -> Manifest:
    return ONE.replace(host={**ONE.host, **keys})


def assert_changed(before: Manifest, after: Manifest, *expected: Expected) -> None:
    """These changes and no others, in this order."""
    found = what_changed(before, after)
    assert [(one.before, one.after) for one in found] == [(was, now) for _, was, now in expected], found
    for one, (facts, *_) in zip(found, expected, strict=True):
        assert_facts(one.what, *facts.split())


def test_two_equal_manifests_differ_in_nothing_and_it_is_said() -> None:
    again = ONE.replace(run="another", created_realtime_ns=1, command=("virtoll", "run"))
    assert what_changed(ONE, again) == ()
    assert change_lines(()) == (NOTHING,)


def test_a_change_is_a_line_that_steers_no_terminal() -> None:
    for change, facts in (
        (Change("it", "1", "2"), ("it", "1 -> 2")),
        (Change("it", "runc 1.1.5", "runc 1.1.12"), ("runc 1.1.5 -> 1.1.12",)),
        (Change("it", None, "2"), ("it", 2, "new")),
        (Change("it", "1", None), ("it", 1, "gone")),
        (Change("it", "6.1\x1b[2J", "6.2\nX"), ("6.1\\x1b[2J", "6.2 X")),
    ):
        assert_facts(change_line(change), *facts)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"kernel": "6.1.0-57-amd64"}, [("host's kernel", "6.1.0-56-amd64", "6.1.0-57-amd64")]),
        ({"cpu_model": "Other CPU"}, [("CPU model", "Synthetic CPU @ 2.50GHz", "Other CPU")]),
        ({"memory_bytes": 32 << 30}, [("host's memory", "24 GiB", "32 GiB")]),
        ({"memory_bytes": "unknown"}, [("host's memory", "24 GiB", "unknown")]),
        ({"mitigations": {"meltdown": "Vulnerable"}}, [("meltdown", "PTI", "Vulnerable")]),
        ({"clock_source": "tsc"}, [("clock", "kvm-clock", "tsc")]),
        ({"hypervisor": None}, [("hypervisor", "kvm", None)]),
        ({"os": "Debian GNU/Linux 13"}, [("system", "Debian GNU/Linux 12", "Debian GNU/Linux 13")]),
        ({"hostname_hash": "sha256:" + "ab" * 32}, [("machine", "c" * 12, "ab" * 6)]),
        (
            {"packages": {"runc": "1.1.12", "crun": "1.8.1"}},
            [
                ("package crun", None, "1.8.1"),
                ("package qemu-system-x86", "1:7.2+dfsg-7", None),
                ("package runc", "1.1.5", "1.1.12"),
            ],
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_what_the_host_is(keys: dict[str, Any], expected: list[Expected]) -> None:
    assert_changed(ONE, with_host(**keys), *expected)


def test_settings_that_an_older_virtoll_did_not_record_are_no_change() -> None:
    assert "tuned" not in ONE.host
    assert_changed(ONE, with_host(tuned=["governor"], timer_hz=250))
    assert_changed(with_host(tuned=None), with_host(tuned=["governor"]), ("tuned", None, "governor"))


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
    expected = [] if told is None else [("tuned", *told)]
    assert_changed(with_host(tuned=before), with_host(tuned=after), *expected)


def test_the_order_is_from_virtoll_to_the_testbed() -> None:
    before = with_host(
        packages={"b": "1", "a": "1"}, mitigations={"x": "1"}, io_schedulers={"sda": "none"}, kernel="1"
    ).replace(
        virtoll="1",
        agent={"version": "1", "protocol": 1, "build": "x", "sha256": "0" * 64},
        baseline="a",
        control="b",
        image={"name": "one", "digest": "sha256:" + "1" * 64},
        nested={"xen": {"packages": {"xen": "4.17"}, "emulator": {"qemu": "7"}, "emulator_mended": False}, "kvm": {}},
        pinning={"guest_cpus": [0], "generator_cpu": 1, "sink_cpu": 1},
        testbed={"mtu": 1500, "flow_control": None},
    )
    after = with_host(
        packages={"a": "2", "b": "1"}, mitigations={"x": "2"}, io_schedulers={"sda": "bfq"}, kernel="2"
    ).replace(
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
    assert_changed(
        before,
        after,
        ("Virtoll", "1", "2"),
        ("agent's version", "1", "2"),
        ("agent's protocol", "1", "2"),
        ("agent's build", "x", "y"),
        ("agent's SHA-256", "0" * 12, "1" * 12),
        ("host's kernel", "1", "2"),
        ("mitigation x", "1", "2"),
        ("scheduler sda", "none", "bfq"),
        ("package a", "1", "2"),
        ("baseline", "a", "c"),
        ("control", "b", None),
        ("image", "one", "two"),
        ("image digest", "1" * 12, "2" * 12),
        ("xen's package xen", "4.17", "4.18"),
        ("xen's emulator qemu", "7", "8"),
        ("xen's emulator mended", "no", "yes"),
        ("experiment seed", "1", "99"),
        ("guests' CPUs", "0", "0, 1"),
        ("generator's CPU", "1", "2"),
        ("sink's CPU", "1", "2"),
        ("testbed mtu", "1500", "9000"),
        ("testbed link rate", None, "1"),
    )
    (gone,) = what_changed(before, before.replace(pinning=None, nested=None, testbed=None))
    assert_facts(gone.what, "testbed")
    assert (gone.before is None, gone.after) == (False, None)


def test_a_model_has_neither_agent_nor_image() -> None:
    model = ONE.replace(agent=None, image=None)
    real = ONE.replace(agent={"build": "x"}, image={"name": "bookworm"})
    named = ONE.replace(agent={"version": "7"}, image={})
    for one, agent, image in ((real, "there", "bookworm"), (named, "7", "there")):
        assert_changed(model, one, ("agent", None, agent), ("image", None, image))
        assert_changed(one, model, ("agent", agent, None), ("image", image, None))
    assert_changed(model, model)


def test_packages_that_one_of_both_did_not_record_are_no_change() -> None:
    listed = {"packages": {"a": "1"}, "emulator": {"qemu": "7"}}
    for less in ({}, dict.fromkeys(listed)):
        bare = {key: value for key, value in ONE.host.items() if key not in ("packages", "mitigations")} | less
        one = ONE.replace(host=bare, nested={"xen": less})
        two = ONE.replace(host={**bare, "packages": {"a": "1"}}, nested={"xen": listed})
        assert_changed(two, one)
        assert_changed(one, two)


def test_the_image_by_its_kernel_and_its_tools() -> None:
    def image(**parts: Any) -> Manifest:
        return ONE.replace(image={"name": "one", **parts})

    kernels = [{"package": f"linux-{n}", "version": f"{n}", "sha256": f"sha256:{n * 64}"} for n in ("1", "2")]
    tools = [{"suite": n, "wanted": ["fio"], "packages": {"fio": n}} for n in ("bookworm", "trixie")]
    full = image(kernel=kernels[1], tools=tools[1])
    assert_changed(
        image(kernel=kernels[0], tools=tools[0]),
        full,
        ("kernel package", "linux-1", "linux-2"),
        ("kernel version", "1", "2"),
        ("kernel SHA-256", "1" * 12, "2" * 12),
        ("suite Debian", "bookworm", "trixie"),
        ("package fio", "bookworm", "trixie"),
    )
    for less in (image(), image(kernel=None, tools=None)):
        assert_changed(less, full)
        assert_changed(full, less)


def platforms(*entries: PlatformEntry, kernel: str = "6.1 #1 SMP") -> Manifest:
    return with_host(kernel=kernel).replace(platforms=entries)


def entry(label: str, **changed: Any) -> PlatformEntry:
    plain = {"label": label, "available": True, "reason": None, "version": "1", "parameters": {}, "host": None}
    return ONE.platforms[0].replace(**{**plain, **changed})


@pytest.mark.parametrize(
    ("before", "after", "was", "now"),
    [
        ({"version": None}, {"version": "2"}, ["version", "not recorded"], [2]),
        ({"version": ""}, {"version": "2"}, ["version", "not recorded"], [2]),
        ({"available": False}, {"available": True}, ["not available"], [1]),
        ({"available": False, "reason": "no KVM"}, {}, ["not available", "no KVM"], [1]),
        ({"version": "Linux 6.1"}, {"version": "Linux 6.2"}, ["Linux 6.1"], ["Linux 6.2"]),
        ({"version": "Linux 6.1"}, {"version": "1"}, ["Linux 6.1"], [1]),
    ],
)
def test_versions_of_platforms(
    before: dict[str, Any], after: dict[str, Any], was: list[str | int], now: list[str | int]
) -> None:
    (change,) = what_changed(*(platforms(entry("p", **keys)) for keys in (before, after)))
    assert_facts(change.what, "platform p")
    assert_facts(change.before or "", *was)
    assert_facts(change.after or "", *now)


def test_platforms_of_one_version_are_one_line() -> None:
    def versions(kernel: str, runtime: str, qemu: str) -> Manifest:
        linux = [entry(label, version=f"Linux {kernel}") for label in ("native", "netns")]
        emulated = [entry(label, version=qemu) for label in ("qemu-a", "qemu-b")]
        return platforms(*linux, entry("runc", version=runtime), *emulated, kernel=f"{kernel} #1 SMP x86_64")

    assert_changed(
        versions("6.1", "runc 1.1.5", "QEMU 7.2"),
        versions("6.2", "runc 1.1.12", "QEMU 8.0"),
        ("kernel", "6.1 #1 SMP x86_64", "6.2 #1 SMP x86_64"),
        ("platform runc", "runc 1.1.5", "runc 1.1.12"),
        ("platforms qemu-a qemu-b", "QEMU 7.2", "QEMU 8.0"),
    )


def test_the_hosts_kernel_is_told_once_and_only_where_it_is_the_platform() -> None:
    one = platforms(entry("native", version="Linux 6.1"), entry("gone"))
    two = platforms(entry("native", version="Linux 6.2"), entry("new"), kernel="6.2")
    kernel = "kernel", "6.1 #1 SMP", "6.2"
    assert_changed(one, two, kernel, ("platform gone", "1", None), ("platform new", None, "1"))
    lost = platforms(entry("native", version="Linux 6.2", available=False), kernel="6.2")
    native = "platform native", "Linux 6.1", "not available"
    assert_changed(platforms(entry("native", version="Linux 6.1")), lost, kernel, native)


def test_what_was_asked_of_a_platform() -> None:
    """A parameter that one of both does not know is no change."""
    given: dict[str, Any] = {"platform": "runc", "caveat": None, "counters": True, "vcpus": 1, "memory_bytes": 1 << 30}
    one = entry("p", parameters={"link_rate": 1, "old": 1}, **given)
    given = {"platform": "crun", "caveat": "emulated", "counters": False, "vcpus": 2, "memory_bytes": 2 << 30}
    two = entry("p", parameters={"link_rate": 2, "new": 1}, host="far", **given)
    assert_changed(
        platforms(one),
        platforms(two),
        ("platform p product", "runc", "crun"),
        ("platform p link rate", "1", "2"),
        ("platform p results", None, "emulated"),
        ("platform p counters", "yes", "no"),
        ("platform p vCPUs", "1", "2"),
        ("platform p memory", "1 GiB", "2 GiB"),
    )
    marked = one.replace(caveat="nested")
    assert_changed(platforms(marked), platforms(one), ("platform p results", "nested", None))
    far, near = (platforms(entry("p", host=host)) for host in ("far", "near"))
    assert_changed(far, near, ("platform p guests", "far", "near"))


def test_the_experiment_by_what_is_measured_and_on_what() -> None:
    def asked(text: str | None, **parts: Any) -> Manifest:
        return ONE.replace(experiment={"name": "n", "text": text, **parts}, platforms=())

    was = asked("a", guest={"vcpus": 1, "memory_bytes": 1 << 30, "old_key": 1}, selection={"disk_bytes": "all"})
    now = asked("b", guest={"vcpus": 2, "memory_bytes": 2 << 30, "new": 1}, selection={"disk_bytes": 1 << 30})
    assert_changed(
        was,
        now,
        ("experiment guest's vcpus", "1", "2"),
        ("experiment guest's memory", "1 GiB", "2 GiB"),
        ("experiment selection's disk", "all", "1 GiB"),
    )
    assert_changed(asked("a", blocks=3), asked("b", blocks=5), ("experiment blocks", "3", "5"))


def test_the_experiment_else_by_its_text() -> None:
    def asked(text: str | None, *entries: PlatformEntry, **parts: Any) -> Manifest:
        return ONE.replace(experiment={"name": "n", "text": text, **parts}, platforms=entries)

    digests = [hashlib.sha256(text).hexdigest()[:12] for text in (b"a", b"b")]
    by_text: Expected = ("experiment text SHA-256", digests[0], digests[1])
    assert_changed(asked("a"), asked("b"), by_text)
    assert_changed(asked("a"), asked(None))
    assert_changed(asked(None), asked("a"))
    assert_changed(asked("a", guest={"vcpus": 1}), asked("b", guest=None), by_text)
    added: Expected = ("platform p", None, "1")
    assert_changed(asked("a"), asked("b", entry("p")), added)  # the text asks for another platform
    renewed: Expected = ("platform p", "1", "2")
    assert_changed(asked("a", entry("p")), asked("b", entry("p", version="2")), renewed, by_text)


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
def test_workloads_by_the_parameters_that_tell_them_apart(
    before: list[dict[str, Any]], after: list[dict[str, Any]], told: tuple[str | None, str | None] | None
) -> None:
    def planned(sets: list[dict[str, Any]]) -> Manifest:
        trials = tuple(ONE.plan.trials[0].replace(workload="w", parameters=own) for own in sets)
        return ONE.replace(plan=ONE.plan.replace(trials=trials))

    expected = [] if told is None else [("experiment workload w", *told)]
    assert_changed(planned(before), planned(after), *expected)
