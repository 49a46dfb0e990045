"""Hosts unlike this one: cgroup v2 or v1 alone or none at all, no user namespaces, no iptables.

What a host has is changed for one process and what it starts: by mounts in a mount namespace of its own, by a limit in
a user namespace of its own. The host itself stays as it is.
"""

from __future__ import annotations

import ast
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support import experiments, machine
from tests.support.commands import DEADLINE_SECONDS, VIRTOLL, environment, opening_mounts, virtoll, with_mounts
from tests.support.facts import assert_facts, assert_refused
from tests.support.real_run import measuring
from tests.support.repository import ROOT

from virtoll.lab import residue
from virtoll.lab.cgroups import detect
from virtoll.lab.inside import wait_until
from virtoll.runfolder.store import RunFolder

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.timeout(1800)]
CGROUPS = "/sys/fs/cgroup"
UNIFIED = f"{CGROUPS}/unified"
USER = "12345"


def outcomes(mounts: Sequence[str], file: Path) -> dict[str, tuple[str, str]]:
    """How each platform's trial went where these commands have changed the mounts."""
    arguments, folder = measuring(file)
    finished = virtoll(*arguments, way=with_mounts(mounts))
    assert finished.returncode == 0, finished.stderr
    return {trial.platform: (trial.status, str(trial.reason)) for trial in RunFolder.open(folder).latest_trials()}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A second of work in guests without limits, and in some that are held to their size."""
    return experiments.write(
        tmp_path,
        platforms=["native", "netns", {"platform": "netns", "limits": "cgroup", "label": "limited"}, "runc"],
        guest={"vcpus": 1, "memory": "128MiB"},
        blocks=1,
        workloads=[{"workload": "forkwait", "processes": 200}],
    )


def cgroup_check(mounts: Sequence[str]) -> dict[str, object]:
    """The doctor's line on cgroups, without its platforms: those take long."""
    script = (
        "import json; from virtoll.cli import doctor; print(json.dumps([c.as_row() for c in doctor.host_checks()]))"
    )
    said = subprocess.run(
        with_mounts(mounts, VIRTOLL[0], "-c", script),
        capture_output=True,
        text=True,
        check=True,
        timeout=DEADLINE_SECONDS,
        env=environment(),
        cwd=ROOT,
    ).stdout
    return next(row for row in json.loads(said) if row["check"] == "cgroups")


def labs_in(hierarchy: Path) -> set[str]:
    """Labs that have a folder there and do not live."""
    return {one.name for one in hierarchy.iterdir() if residue.LAB_ID.match(one.name)} - machine.living_labs()


def is_hybrid() -> bool:
    return detect().version == "hybrid" and Path(UNIFIED, "cgroup.controllers").is_file()


def test_a_host_with_v2_alone_and_no_controllers_runs_what_needs_none(file: Path) -> None:
    """The hierarchy is this host's own; that it has no memory controller is the harder case."""
    if not is_hybrid() or "memory" in Path(UNIFIED, "cgroup.controllers").read_text().split():
        pytest.skip("this host has no cgroup2 hierarchy without controllers beside v1")
    before = labs_in(Path(UNIFIED))
    mounts = [f"mount --bind {UNIFIED} {CGROUPS}"]
    found = outcomes(mounts, file)
    assert (found["native"][0], found["netns"][0]) == ("ok", "ok")
    assert found["limited"][0] == "skipped"
    assert_facts(found["limited"][1], "'memory'", "memory.limit_in_bytes")
    assert found["runc"][0] == "skipped"
    assert_facts(found["runc"][1], "runc", "level=error")  # as runc writes its log
    after = labs_in(Path(UNIFIED)) - before  # other people's dead labs among them, which are swept by and by
    left, _ = machine.poll_until_empty(lambda: sorted(after & labs_in(Path(UNIFIED))))
    assert left == []
    check = cgroup_check(mounts)
    assert check["good"] is False
    assert_facts(str(check["found"]), "v2", "memory", "cpu")
    assert_facts(str(check["remedy"]), "cgroup_enable=memory")


def test_a_host_with_v1_alone_runs_everything(file: Path) -> None:
    if not is_hybrid():
        pytest.skip("this host is no hybrid one")
    mounts = [f"umount {UNIFIED}"]
    assert {platform: status for platform, (status, _) in outcomes(mounts, file).items()} == dict.fromkeys(
        ("native", "netns", "limited", "runc"), "ok"
    )
    assert cgroup_check(mounts)["found"] == "v1"


def test_a_host_without_cgroups_runs_what_needs_none(file: Path) -> None:
    mounts = [f"mount -t tmpfs none {CGROUPS}"]
    found = outcomes(mounts, file)
    assert (found["native"][0], found["netns"][0]) == ("ok", "ok")
    assert (found["limited"][0], found["runc"][0]) == ("skipped", "skipped")
    assert_facts(found["runc"][1], "runc", "level=error")  # as runc writes its log
    check = cgroup_check(mounts)
    assert check["good"] is False
    assert_facts(str(check["found"]), "none")


def without_user_namespaces(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """``virtoll ARGUMENTS`` as an ordinary user in a user namespace in which no further one may be made."""
    script = (
        "echo 0 > /proc/sys/user/max_user_namespaces && "
        f'exec setpriv --reuid={USER} --regid={USER} --clear-groups -- "$@"'
    )
    own = Path("/proc/self/ns/user").readlink()
    with subprocess.Popen(["unshare", "--user", "--", "cat"], stdin=subprocess.PIPE) as keeper:
        wait_until(
            lambda: keeper.poll() is not None or Path(f"/proc/{keeper.pid}/ns/user").readlink() != own,
            machine.END_SECONDS,
            "a user namespace",
        )
        assert keeper.poll() is None
        for kind in ("uid_map", "gid_map"):
            Path(f"/proc/{keeper.pid}/{kind}").write_text("0 0 65536\n", encoding="ascii")
        entered = ["nsenter", "--user", f"--target={keeper.pid}", "--", "sh", "-c", script, "sh"]
        return subprocess.run(
            with_mounts(opening_mounts("/mnt"), *entered, *VIRTOLL, *map(str, arguments)),
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE_SECONDS,
            cwd=ROOT,
            env=environment(HOME="/nonexistent"),
            stdin=subprocess.DEVNULL,
        )


def test_without_user_namespaces_an_ordinary_user_reads_what_allows_them() -> None:
    doctor = without_user_namespaces("doctor", "--json")
    assert doctor.returncode == 1, doctor.stderr
    checks = {row["check"]: row for row in json.loads(doctor.stdout)["host"]}
    assert not checks["namespaces"]["good"]
    assert_facts(checks["namespaces"]["remedy"], "sysctl -w user.max_user_namespaces=15000")
    assert json.loads(doctor.stdout)["platforms"] == []
    measured = without_user_namespaces("run", "quick", "--into", "/nonexistent/run")
    assert_refused(measured, "user.max_user_namespaces")
    assert measured.stderr.count("\n") == 1


def test_no_packet_filter_is_ever_asked_for() -> None:
    """Neither iptables nor nft is needed: a host may have either or none. Words of a command line, not of a comment."""
    filters = {"iptables", "ip6tables", "iptables-restore", "ebtables", "arptables", "nft", "ufw", "firewall-cmd"}
    texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")}
    named = {
        (path.name, node.value)
        for path, text in texts.items()
        if any(word in text for word in filters)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and filters & set(node.value.split()[:1])
    }
    assert named == set()
    for path in (ROOT / "crates").rglob("*.rs"):
        assert not any(f'"{name}"' in path.read_text(encoding="utf-8") for name in filters), path
