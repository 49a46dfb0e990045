"""libvirt's XML by libvirt's own schema, what is refused, and virsh held and asked, with its driver for tests."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from virtoll.errors import GuestError
from virtoll.lab.inside import Lab
from virtoll.lab.network import plan_links
from virtoll.platforms.base import GuestRequest
from virtoll.platforms.libvirt_connection import HeldShell, held_shell
from virtoll.platforms.libvirt_domain import SYSTEM, LibvirtParameters, Places, domain

needs_virsh = pytest.mark.skipif(shutil.which("virsh") is None, reason="virsh is not installed")
PLACES = Places(Path("/a & b/agent"), Path("/a/console"), Path("/k<ernel"), Path("/initramfs"))
REQUEST = GuestRequest("guest/1", 2, 2**28, (0, 1), plan_links(3), cpu_quota=0.5)


@needs_virsh
@pytest.mark.parametrize(
    "given",
    [{}, {"channel": "serial", "nic": "e1000e"}, {"uri": SYSTEM, "domain_type": "kvm", "machine": "pc"}],
    ids=str,
)
def test_a_domain_is_valid_by_libvirts_schema(given: dict[str, str], tmp_path: Path) -> None:
    bridges = {link.name: link.bridge for link in REQUEST.network.links}
    text = domain("virtoll-x", REQUEST, LibvirtParameters.model_validate(given), PLACES, bridges)
    for link in REQUEST.network.links:
        assert link.guest_mac in text
    assert ("global_quota" in text) == (given.get("uri") == SYSTEM)
    (tmp_path / "domain.xml").write_text(text)
    command = ["virt-xml-validate", str(tmp_path / "domain.xml"), "domain"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "xmllint" in done.stderr:
        pytest.skip("virt-xml-validate needs xmllint: apt-get install libxml2-utils")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("uri", ["esx://box/", "lxc:///system", "qemu+ssh://box/system", "nonsense"])
def test_what_is_not_driven_is_refused(uri: str) -> None:
    with pytest.raises(ValidationError, match="is not driven; allowed: qemu:///embed"):
        LibvirtParameters(uri=uri)


@pytest.fixture
def shell(tmp_path: Path) -> HeldShell:
    return held_shell(Lab("virtoll-000000000000", tmp_path), "test:///default", "guest", tmp_path)


@needs_virsh
def test_a_domain_is_made_parked_and_destroyed_over_a_held_virsh(shell: HeldShell, tmp_path: Path) -> None:
    xml = tmp_path / "with a blank.xml"
    xml.write_text("<domain type='test'><name>one</name><memory>8192</memory><os><type>hvm</type></os></domain>")
    try:
        shell.run("create", str(xml))
        shell.run("suspend", "one")
        assert shell.run("domstate", "one").strip() == "paused"
        shell.run("resume", "one")
        assert shell.run("domstate", "one").strip() == "running"
        with pytest.raises(GuestError, match="one"):
            shell.run("create", str(xml))
        shell.run("destroy", "one")
        with pytest.raises(GuestError, match="failed to get domain 'one'"):
            shell.run("domstate", "one")
    finally:
        shell.close()
    with pytest.raises(GuestError, match="virsh ended"):
        shell.run("list")


def test_the_quota_of_an_embedded_driver_is_not_in_the_domain() -> None:
    bridges = {link.name: link.bridge for link in REQUEST.network.links}
    bare = replace(REQUEST, cpus=())
    assert "cputune" not in domain("x", bare, LibvirtParameters(), PLACES, bridges)
