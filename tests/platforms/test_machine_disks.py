"""What a machine's disk is to its guest, and that the image's own copy of it is never written to."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from tests.support import guests
from tests.support.guest_kinds import KINDS, Kind, machine
from tests.support.guests import Connected

from virtoll.campaign.session import RunSession
from virtoll.image import image_form
from virtoll.image.cache import file_digest
from virtoll.lab.network import plan_links

INSIDE_LAB = True
pytestmark = [pytest.mark.lab, pytest.mark.root]


def said(live: Connected, command: str) -> str:
    """What a command says inside."""
    return guests.output_of(live.guest.agent, "/bin/busybox", "sh", "-c", f"PATH=/bin; {command}")


@pytest.mark.parametrize(("root", "place"), [("initramfs", "/mnt"), ("disk", "/")])
def test_the_disk_is_where_it_was_asked_for_and_the_image_stays_as_it_was(
    run_session: RunSession, monkeypatch: pytest.MonkeyPatch, root: str, place: str
) -> None:
    parameters: dict[str, Any] = {"disk": "virtio-blk", "root": root, "cache": "directsync"}
    monkeypatch.setitem(KINDS, "with-disk", Kind("qemu-tcg", parameters))
    live = guests.start("with-disk", run_session)
    mounts = [line.split() for line in said(live, "cat /proc/mounts").splitlines()]
    assert ["/dev/vda", place, "ext4"] in [words[:3] for words in mounts]
    assert said(live, f"ls {place}").split() >= ["bin"]
    assert said(live, f"echo written > {place}/file && sync && cat {place}/file") == "written\n"
    form = image_form(live.site.image, "ext4")
    live.guest.stop()
    assert f"sha256:{file_digest(form.file)}" == form.digest
    second = guests.start("with-disk", run_session)
    assert "file" not in said(second, f"ls {place}").split()
    second.guest.stop()


def test_a_machine_has_the_cpus_and_queues_that_were_asked_for(
    run_session: RunSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(KINDS, "with-queues", machine("qemu-tcg", {"queues": 2}))
    wanted = dataclasses.replace(guests.request("with-queues"), vcpus=2, cpus=(), network=plan_links(150))
    live = guests.start("with-queues", run_session, wanted)
    assert guests.facts(live).cpus_online == 2
    for link in range(len(wanted.network.links)):
        queues = said(live, f"ls /sys/class/net/eth{link}/queues").split()
        assert queues == ["rx-0", "rx-1", "tx-0", "tx-1"], "what its driver uses"
    guests.assert_forwards(live)
    live.guest.stop()
