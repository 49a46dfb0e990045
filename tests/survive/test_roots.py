"""The short form of the part *roots*: a system of busybox, made of this machine's own files without any download."""

from __future__ import annotations

import shlex
import sys
import sysconfig
from pathlib import Path

import pytest
from benches.survive import roots
from benches.survive.made_roots import REPOSITORY, USER, Kind, made_of_this_machine
from benches.survive.roots import VIRTOLL, Root
from tests.support.facts import Command, assert_facts

from virtoll.image import default_cache, prepare_image

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(900)]
SHORT = """\
name: short
question: Does a system of busybox measure?
platforms: [native, netns]
guest: {vcpus: 1, memory: 256MiB}
blocks: 1
rounds: 1
seed: 1
workloads: [{workload: superpi, digits: 4096}]
"""
TOOLS_OF_A_LAB = ("ip", "mount", "umount", "losetup", "setpriv", "unshare", "nsenter", "taskset")
TOOLS = ("ip", "losetup", "mke2fs", "mount", "nsenter", "setpriv", "taskset", "umount", "unshare")


def bare(folder: Path, monkeypatch: pytest.MonkeyPatch, *programs: str) -> dict[str, str]:
    """A root in which this clone is started as an installation is; the folders that it is to be given."""
    monkeypatch.setenv("VIRTOLL_CACHE", str(default_cache().home))
    shown = made_of_this_machine(folder, prepare_image("debug", offline=True).root / "bin/busybox", programs)
    starter = folder / VIRTOLL.lstrip("/")
    starter.parent.mkdir(parents=True)
    where = f"{REPOSITORY / 'src'}:{sysconfig.get_path('purelib')}"
    python = shlex.quote(str(Path(sys.executable).resolve()))
    starter.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(where)} exec {python} -m virtoll "$@"\n', encoding="utf-8")
    starter.chmod(0o755)
    (folder / "opt/short.yaml").write_text(SHORT, encoding="ascii")
    return shown


def test_where_busybox_has_the_names_of_what_makes_a_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ``setpriv`` and ``ip`` lack options: they are named, and no privilege is said to be missing."""
    shown = bare(tmp_path / "root", monkeypatch)
    commands = [["setup", "--print"], ["doctor"], ["run", "/opt/short.yaml"]]
    found = roots.session(Root("bare", Kind.BARE, measures=False), tmp_path / "root", "root", commands, shown)
    assert found.wrong == []
    assert found.works == ()
    said = found.said
    assert_facts(said["doctor"], "busybox's", "ip, mount, umount")
    assert_facts(said["setup"], Command("apk add e2fsprogs iproute2 util-linux"))
    (refusal,) = said["run"].splitlines()
    assert_facts(refusal, "busybox's", *TOOLS_OF_A_LAB)


BLOCK = ("campaign", "block", "/opt/short.yaml", "--block", "1", "--into", "runs")


@pytest.mark.parametrize(
    ("user", "commands"),
    [("root", [BLOCK]), (USER, [("run", "/opt/short.yaml"), ("watch", "latest")])],
    ids=["root", "user with a report"],
)
def test_a_system_of_busybox_with_tools_of_its_own_measures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: str, commands: list[tuple[str, ...]]
) -> None:
    shown = bare(tmp_path / "root", monkeypatch, *TOOLS)
    found = roots.session(Root("bare", Kind.BARE), tmp_path / "root", user, commands, shown, ("native", "netns"))
    assert found.wrong == []
    assert {name for name in found.trials if name.endswith(" ok")} == {"native ok", "netns ok"}
    assert not found.reasons
