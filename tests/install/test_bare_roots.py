"""A wheel where nothing of ours is: pip installs it into bare roots, and there it plans, models and measures.

The roots are a Debian 12, a Debian 13 and the latter's files, which then become no Debian's: without apt, dpkg and
their files, and with another os-release. Each has Python, its venv and runc besides what Debian requires. Kernel,
network, image cache and pip's cache are this machine's.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from tests.support.bare_roots import bare, done_in, run_in, unpacked
from tests.support.facts import assert_facts, assert_refused, missing_facts
from tests.support.repository import ROOT
from tests.support.wheels import build_wheel, copy_source

pytestmark = [pytest.mark.root, pytest.mark.network, pytest.mark.slow, pytest.mark.timeout(1200)]
INSTALLED = "/opt/virtoll/bin"
VIRTOLL = f"{INSTALLED}/virtoll"
INSTALL = ("apt-get", "install", "-y", "--no-remove", "--no-install-recommends")
OF_DEBIAN = (
    *("usr/bin/apt*", "usr/bin/dpkg*", "usr/sbin/dpkg*", "usr/lib/apt", "usr/lib/dpkg", "usr/share/dpkg"),
    *("var/lib/dpkg", "var/lib/apt", "var/cache/apt", "etc/apt", "etc/dpkg", "etc/debian_version"),
)
OTHER_SYSTEM = 'ID=other\nNAME="Another Linux"\nPRETTY_NAME="Another Linux"\n'
SHORT = """\
name: short
question: Does an installation measure?
platforms: [native, netns, runc]
guest: {vcpus: 1, memory: 256MiB}
blocks: 1
rounds: 1
seed: 1
workloads: [{workload: superpi, digits: 65536}, {workload: forkwait, processes: 211}]
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this clone, with the agent that was built here."""
    folder = tmp_path_factory.mktemp("wheel")
    agent = ROOT / "build" / "virtoll-agent"
    finished = build_wheel(copy_source(folder / "source"), agent, folder / "dist")
    assert finished.returncode == 0, finished.stderr
    (made,) = (folder / "dist").iterdir()
    return made


def installed(root: Path, wheel: Path) -> None:
    """Installs by pip, into a virtual environment; the wheel is content with what the lock holds.

    Python compiles what a command imports; pip would compile all of NumPy and SciPy.
    """
    shutil.copy(wheel, root / "root" / wheel.name)
    shutil.copy(ROOT / "requirements.lock", root / "root")
    done_in(root, "python3", "-m", "venv", str(Path(INSTALLED).parent))
    pip = (f"{INSTALLED}/pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check")
    done_in(root, *pip, "--require-hashes", "--only-binary", ":all:", "--requirement", "requirements.lock")
    done_in(root, *pip, "--no-index", wheel.name)


def plans(root: Path) -> None:
    """What needs no guest: the lists and a plan."""
    assert done_in(root, VIRTOLL, "--version").startswith("virtoll ")
    assert "netns" in done_in(root, VIRTOLL, "list", "platforms")
    assert_facts(done_in(root, VIRTOLL, "plan", "quick"), "5 randomised blocks")


def measures(root: Path) -> None:
    """A run of seconds on the host itself, in namespaces and in containers: each trial is good."""
    (root / "root/short.yaml").write_text(SHORT, encoding="ascii")
    done_in(root, VIRTOLL, "run", "short.yaml")
    (trials,) = (root / "root/runs").glob("*-short-*/trials.jsonl")
    records = [json.loads(line) for line in trials.read_text(encoding="utf-8").splitlines()]
    good = {(one["platform"], one["workload"]) for one in records if one["status"] == "ok"}
    assert good == {(platform, job) for platform in ("native", "netns", "runc") for job in ("superpi", "forkwait")}
    assert len(list(trials.parent.glob("report/index.html"))) == 1


def stop_being_debian(root: Path) -> None:
    """Takes away what makes a root a Debian, and leaves its programs."""
    for pattern in OF_DEBIAN:
        for path in root.glob(pattern):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    (root / "usr/lib/os-release").write_text(OTHER_SYSTEM, encoding="ascii")
    assert run_in(root, "dpkg", "--version").returncode != 0


def what_is_missing(root: Path) -> str:
    """The one line by which a run is refused there: it names the program, its package and the command."""
    (root / "root/short.yaml").write_text(SHORT, encoding="ascii")
    finished = run_in(root, VIRTOLL, "run", "short.yaml")
    assert_refused(finished, "ip", "iproute2", "'virtoll setup'")
    (line,) = finished.stderr.splitlines()
    return line


@pytest.mark.extended
@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_in_a_bare_debian_what_the_message_names_is_enough(suite: str, wheel: Path, tmp_path: Path) -> None:
    root = bare(tmp_path / "root", suite)
    installed(root, wheel)
    plans(root)
    found = done_in(root, VIRTOLL, "run", "models")
    assert_facts(found, "420 of 420")
    assert re.search(r"model-cost-25 .*\b2\d % slower", found)
    message = what_is_missing(root)
    named = [name for name in ("iproute2", "mount", "util-linux") if not missing_facts(message, name)]
    done_in(root, "apt-get", "update")
    done_in(root, *INSTALL, *named)
    measures(root)


def test_without_ip_it_plans_and_models_and_without_debian_it_measures(wheel: Path, tmp_path: Path) -> None:
    """The programs of a Debian 13, first without `ip`, then with it and without what makes a Debian of them."""
    root = unpacked(tmp_path / "root", "trixie", "iproute2", "mount")
    installed(root, wheel)
    ip = (root / "usr/bin/ip").rename(root / "ip")
    plans(root)
    models = ("campaign", "block", "models", "--block", "1", "--into", "campaign", "--workload", "superpi")
    done_in(root, VIRTOLL, *models)
    assert what_is_missing(root)
    ip.rename(root / "usr/bin/ip")
    stop_being_debian(root)
    assert_facts(done_in(root, VIRTOLL, "plan", "quick"), "5 randomised blocks")
    measures(root)
