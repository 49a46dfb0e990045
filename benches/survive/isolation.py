"""What root in each kind of guest may reach: real guests of every platform that starts here, as Virtoll confines them.

``python benches/survive isolation [--count BOOTS] [--seed N] [--platforms NAME...] [--keep FOLDER]``, as root. It runs
one experiment as root and one as an ordinary user, and reads what each guest's agent and the host's kernel said at each
boot. It prints the seed, one table, and what was reached that should not have been; exit code 1 then, 2 where a run
failed.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from tests.support.real_run import measuring

from virtoll.runfolder.facts import ReachFacts
from virtoll.runfolder.records import BootRecord
from virtoll.runfolder.store import RunFolder
from virtoll.stats.reach import ALLOWED, ATTEMPTS, capability_names, process_text, reach_rows

ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65534
_OS_LEVEL = ["netns", "runc", "crun", "runsc", "nspawn", "lxc", "podman", "docker"]
_MACHINES = ["uml", "qemu-tcg", "qemu-kvm", "libvirt", "firecracker", "cloud-hypervisor"]
AS_ROOT = ["native", *_OS_LEVEL, *_MACHINES]
AS_USER = ["netns", "runc", "crun", "runsc", "podman", "uml"]
LEFT = frozenset({"keyrings", "packet-socket", "user-namespace"})
"""What confined root on the host's kernel may: its network is its own, and the other two are every user's there."""
LEFT_TO = {"nspawn": frozenset({"cgroup-files"})}
"""systemd-nspawn gives its container the groups below its own, which limit nothing above them."""


@dataclass(frozen=True)
class Row:
    """One kind of guest and what all its boots said."""

    name: str
    boots: tuple[BootRecord, ...]

    @property
    def shares_kernel(self) -> bool:
        """Whether it runs on the host's kernel."""
        return self.texts["kernel"] == "the host's"

    @property
    def texts(self) -> dict[str, str]:
        """The rows of the report, of the first boot."""
        boot = self.boots[0]
        return {name: text or "not known" for name, text in reach_rows(boot).items()}

    def allowed(self) -> frozenset[str]:
        """What was allowed in any boot."""
        tried = [(_reach(boot) or ReachFacts()).attempts or {} for boot in self.boots]
        return frozenset(name for one in tried for name, said in one.items() if said == ALLOWED)

    def reached(self) -> list[str]:
        """What it should not have reached, in words; of a kernel of its own, what the host's process may."""
        platform = self.name.split()[0]
        if platform == "native":
            return []
        if self.shares_kernel:
            too_much = self.allowed() - LEFT - LEFT_TO.get(platform, frozenset())
            return [f"{self.name}: root may {ATTEMPTS[one]}" for one in sorted(too_much)]
        process = self.boots[0].host_process
        if platform.startswith("qemu") and process is not None and os.geteuid() == 0 and "user" not in self.name:
            confined = process.user == NOBODY and int(process.capabilities_hex, 16) == 0 and process.seccomp_mode == 2
            return [] if confined else [f"{self.name}: on the host it is {process_text(process)}"]
        return []


def main(arguments: list[str]) -> int:
    """Run, print the table, and say what was reached."""
    parser = argparse.ArgumentParser(prog="survive isolation", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=None, help="of the order of the starts")
    parser.add_argument("--count", type=int, default=3, help="boots of each kind of guest")
    parser.add_argument("--platforms", nargs="+", default=AS_ROOT, help="of root's run")
    parser.add_argument("--user-platforms", nargs="*", default=AS_USER, help="of an ordinary user's run")
    parser.add_argument("--keep", type=Path, default=None, help="a new folder for the run folders")
    asked = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(2**31) if asked.seed is None else asked.seed
    base = Path(tempfile.mkdtemp(prefix="virtoll-isolation-", dir="/var/tmp")) if asked.keep is None else asked.keep
    base.mkdir(mode=0o755, exist_ok=True)
    base.chmod(0o755)
    try:
        rows = run(base / "root", asked.platforms, asked.count, seed)
        if asked.user_platforms:
            rows += run(base / "user", asked.user_platforms, asked.count, seed, user=NOBODY)
    except RunFailedError as error:
        print(error)
        return 2
    finally:
        if asked.keep is None:
            shutil.rmtree(base, ignore_errors=True)
    print(f"seed: {seed}, boots of each: {asked.count}\n")
    print("\n".join(table(rows)))
    reached = [sentence for row in rows for sentence in row.reached()]
    print("\n" + ("\n".join(reached) or "Nothing was reached that should not have been."))
    return 1 if reached or not rows else 0


class RunFailedError(Exception):
    """A run that ended badly, with what it said last."""


def run(folder: Path, platforms: Sequence[str], count: int, seed: int, *, user: int | None = None) -> list[Row]:
    """All blocks of these platforms, with the baseline, as this user (None: as who asks); their rows in their order."""
    folder.mkdir(mode=0o755)
    wanted = list(dict.fromkeys(["native", *platforms]))
    file = folder / "isolation.yaml"
    experiment = {
        "name": "isolation",
        "question": "What may root in each kind of guest reach?",
        "platforms": wanted,
        "guest": {"marks": "channel"},
        "workloads": [{"workload": "superpi", "digits": 2000}],
        "blocks": count,
        "rounds": 1,
    }
    file.write_text(yaml.safe_dump(experiment), encoding="utf-8")
    words, into = measuring(file, count, folder)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "NO_COLOR": "1", "VIRTOLL_RUNS": str(folder)}
    become: list[str] = []
    if user is not None:
        os.chown(folder, user, user)
        environment["HOME"] = str(folder)
        become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--"]
    command = [*become, sys.executable, "-m", "virtoll", *words, "--seed", str(seed)]
    finished = subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, check=False)
    if not into.is_dir():
        raise RunFailedError(
            f"{'as root' if user is None else 'as a user'}: {finished.stdout}{finished.stderr}"[-2000:]
        )
    boots = [one for one in RunFolder.open(into).boots() if one.status == "ok"]
    asked = [name for name in wanted if name in platforms]
    whose = "" if user is None else " (user)"
    rows = [Row(f"{name}{whose}", tuple(one for one in boots if one.platform == name)) for name in asked]
    return [row for row in rows if row.boots]


def table(rows: Sequence[Row]) -> list[str]:
    """The lines of the Markdown table, and of what its capabilities are."""
    head = (
        "guest",
        "kernel",
        "user namespace",
        "capabilities",
        "seccomp",
        "no new privileges",
        "on the host",
        "root may",
    )
    lines = [f"| {' | '.join(head)} |", "|" + " --- |" * len(head)]
    sets: dict[str, str] = {}
    for row in rows:
        texts, first = row.texts, row.boots[0]
        process = first.host_process
        outside = "not known"
        if process is not None:
            own = " ".join(process.own_namespaces) or "none"
            held = _counted(process.capabilities_hex, sets)
            filters = "seccomp" if process.seccomp_mode == 2 else "no seccomp"
            outside = f"user {process.user}, capabilities {held}, {filters}, own: {own}"
        inside = _counted((_reach(first) or ReachFacts()).capabilities_bounding_hex, sets)
        cells = [texts["kernel"], texts["user namespace"], inside, texts["seccomp"], texts["no new privileges"]]
        lines.append(f"| {row.name} | {' | '.join(cells)} | {outside} | {texts['root may']} |")
    legend = [f"- {short}: {names.rpartition(': ')[2]}" for names, short in sets.items()]
    return [*lines, "", "Capabilities, by their number:", "", *legend]


def _counted(mask: str | None, sets: dict[str, str]) -> str:
    """How many capabilities a mask has; what they are is kept for the legend, and told apart where numbers agree."""
    names = capability_names(mask)
    if mask is None or names is None or names == "none":
        return names or "not known"
    if names not in sets:
        number = str(int(mask, 16).bit_count())
        same = sum(one.rstrip("'") == number for one in sets.values())
        sets[names] = number + "'" * same
    return sets[names]


def _reach(boot: BootRecord) -> ReachFacts | None:
    return boot.facts.reach if boot.facts is not None else None
