"""The guest kernel is had where a machine takes part, and nowhere else; without it the other platforms are measured."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support import experiments
from tests.support.commands import in_process
from tests.support.facts import assert_facts, refused

from virtoll.errors import GuestError, ImageError
from virtoll.image import default_cache, prepare_image
from virtoll.image.clone import built_agent
from virtoll.pipeline.requirements import needs_kernel
from virtoll.platforms import EVERY_PLATFORM

MACHINES = {"uml", "qemu-tcg", "qemu-kvm", "altered-qemu-tcg", "libvirt", "xen", "virtualbox", "esxi"}
MACHINES |= {"firecracker", "cloud-hypervisor"}
# Apart from the host's own mounts, apt and dpkg cannot be executed.
WITHOUT_DEBIAN = """if True:
    import glob, os, subprocess, sys
    for path in (*glob.glob("/usr/bin/apt*"), *glob.glob("/usr/bin/dpkg*")):
        subprocess.run(["mount", "--bind", "/dev/null", os.path.realpath(path)], check=True)
    os.execv(sys.argv[1], sys.argv[1:])
"""


def test_machines_alone_need_the_kernel() -> None:
    needing = {name for name, kind in EVERY_PLATFORM.items() if kind.with_parameters({}).needs_kernel}
    assert needing == MACHINES


def test_a_container_of_libvirt_needs_none() -> None:
    kind = EVERY_PLATFORM["libvirt"]
    assert not kind.with_parameters({"uri": "lxc:///system"}).needs_kernel


@pytest.mark.parametrize(("platforms", "needed"), [(["native", "netns", "runc"], False), (["native", "uml"], True)])
def test_an_experiment_needs_it_for_a_machine_alone(platforms: list[str], needed: bool) -> None:
    assert needs_kernel(experiments.parsed(platforms=platforms)) is needed


def test_an_image_without_it_refuses_to_hand_it_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIRTOLL_CACHE", str(tmp_path))
    agent = tmp_path / "agent"
    agent.write_bytes(b"\x7fELF")
    image = prepare_image("tiny", agent=agent, offline=True)
    assert [path.name.partition("-")[0] for path in (tmp_path / "refs").iterdir()] == ["image"]
    assert set(image.digests) == {"folder"}
    with refused("kernel", error=GuestError):
        _ = image.kernel


def few(folder: Path, platforms: Sequence[str]) -> Path:
    """An experiment of few digits on these platforms."""
    workloads = [{"workload": "superpi", "digits": 1000}]
    return experiments.write(folder, name="few", platforms=list(platforms), blocks=1, workloads=workloads)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="mounts of its own without a user namespace need root")
@pytest.mark.skipif(shutil.which("runc") is None, reason="runc is not installed")
@pytest.mark.skipif(shutil.which("qemu-system-x86_64") is None, reason="needs QEMU")
@pytest.mark.skipif(not built_agent().exists(), reason="no agent is built: make agent")
def test_without_debian_a_missing_kernel_costs_the_machines_alone(tmp_path: Path) -> None:
    """With an empty cache where there is no apt, no dpkg and no way out."""
    containers = ("native", "netns", "runc")
    file, folder = few(tmp_path, [*containers, "qemu-tcg"]), tmp_path / "run"
    command = [sys.executable, "-m", "virtoll", "run", str(file), "--into", str(folder)]
    answer = subprocess.run(
        ["unshare", "--mount", sys.executable, "-c", WITHOUT_DEBIAN, *command],
        env=os.environ | {"VIRTOLL_CACHE": str(tmp_path / "cache"), "http_proxy": "http://127.0.0.1:9"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    trials = [json.loads(line) for line in (folder / "trials.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {(one["platform"], one["status"]) for one in trials} == {
        *((name, "ok") for name in containers),
        ("qemu-tcg", "skipped"),
    }
    (reason,) = {one["reason"] for one in trials if one["platform"] == "qemu-tcg"}
    facts = ("kernel", "deb.debian.org", "http_proxy", "VIRTOLL_KERNEL")
    assert_facts(reason, *facts)
    assert_facts(answer.stderr, *facts)
    image = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["image"]
    assert "kernel" not in image
    assert set(image["forms"]) == {"folder"}
    kinds = {path.name.partition("-")[0] for path in (tmp_path / "cache" / "refs").iterdir()}
    assert kinds == {"image"}, "and neither a package, a kernel nor what machines boot"


@pytest.mark.parametrize(("platforms", "named"), [(["native", "netns"], False), (["native", "qemu-tcg"], True)])
def test_the_plan_names_what_machines_will_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platforms: list[str], named: bool
) -> None:
    monkeypatch.setenv("VIRTOLL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    file = few(tmp_path, platforms)
    assert ("guest kernel" in in_process("plan", str(file)).stdout) is named
    as_json = json.loads(in_process("plan", str(file), "--json").stdout)["kernel_download"]
    assert (as_json is not None and as_json["bytes"] > 10**7) is named


def test_the_machines_own_cache_gives_the_same_image_with_it() -> None:
    try:
        with_it = prepare_image("tiny", kernel=True, cache=default_cache(), offline=True)
    except ImageError as error:
        pytest.skip(str(error))
    without = prepare_image("tiny", offline=True)
    assert with_it.digest == without.digest
    assert {*with_it.for_machines.digests} == {"initramfs", "initramfs-disk"}
