"""What a person does with an installed Virtoll, done in a root by the root's own Python, with what is left after it.

``python3 in_root.py VIRTOLL ORDER``: an executable, and as JSON the ``platforms`` that ``doctor`` is asked for, the
argument lists after it (``commands``), and folders of the machine that are not looked into (``given``). Prints one JSON
object, which ``roots.session`` reads. Standard library only, since a root has nothing else; it is to be the first
process of its PID namespace, or a child of it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

SECONDS = 900
_PASSED_OVER = ("/proc", "/sys", "/dev", "/root/runs", "/root/.cache", "/var/cache/virtoll")
_LAB = re.compile(rb"virtoll-[0-9a-f]{12}")


def look(beside: Sequence[str]) -> dict[str, set[str]]:
    """What is there of each kind, files but for those in the folders ``beside``."""
    processes = {one.name for one in Path("/proc").iterdir() if one.name.isdigit() and _command_line(one.name)}
    mounts = {line.split()[4] for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()}
    passed_over = {*_PASSED_OVER, *beside}
    files = set()
    for folder, folders, names in os.walk("/"):
        folders[:] = [one for one in folders if one != "__pycache__" and str(Path(folder, one)) not in passed_over]
        files |= {str(Path(folder, name)) for name in (*names, *folders)}
    return {
        "processes": processes,
        "links": {one.name for one in Path("/sys/class/net").iterdir()},
        "mounts": mounts,
        "files": files,
    }


def _command_line(pid: str) -> bytes:
    try:
        return Path("/proc", pid, "cmdline").read_bytes()
    except OSError:
        return b""


def cgroups_of(labs: set[bytes]) -> set[str]:
    """The cgroups that are named after these labs."""
    names = {one.decode() for one in labs}
    return {
        str(Path(folder, name))
        for folder, names_in, _ in os.walk("/sys/fs/cgroup")
        for name in names_in
        if name in names
    }


def call(virtoll: str, arguments: Sequence[str]) -> dict[str, object]:
    """One command: its exit code, what it printed, whether Python printed where it failed."""
    finished = subprocess.run([virtoll, *arguments], capture_output=True, text=True, timeout=SECONDS, check=False)
    said = finished.stdout + finished.stderr
    return {"argv": arguments, "code": finished.returncode, "traceback": "Traceback (" in said, "said": said[-1500:]}


def main(arguments: list[str]) -> int:
    """Print the session as JSON."""
    virtoll, order = arguments[0], json.loads(arguments[1])
    home = Path.home()
    os.chdir(home)
    runs, cache = home / "runs", os.environ.get("VIRTOLL_CACHE", str(home / ".cache"))
    call(virtoll, ("--version",))  # what Python compiles at its first start is nobody's leftover
    beside = (str(runs), cache, *order["given"])  # a run may write to the first two
    before = look(beside)
    doctor = subprocess.run(
        [virtoll, "doctor", "--json", *order["platforms"]], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    calls = [call(virtoll, one) for one in order["commands"]]
    after = look(beside)
    trials: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    labs: set[bytes] = set()
    for file in runs.glob("*/*"):
        labs |= set(_LAB.findall(file.read_bytes())) if file.is_file() else set()
    for file in runs.glob("*/trials.jsonl"):
        for line in file.read_text(encoding="utf-8").splitlines():
            one = json.loads(line)
            trials[f"{one['platform']} {one['status']}"] += 1
            if one["status"] != "ok":
                reasons[f"{one['platform']}: {one['reason']}"] += 1
    left = [f"{kind}: {name}" for kind in before for name in sorted(after[kind] - before[kind])]
    left += [f"cgroup: {name}" for name in sorted(cgroups_of(labs))]
    print(
        json.dumps(
            {
                "python": sys.version.split()[0],
                "doctor": json.loads(doctor.stdout) if doctor.stdout.startswith("{") else None,
                "calls": calls,
                "trials": trials,
                "reasons": reasons,
                "reports": len(list(runs.glob("*/report/index.html"))),
                "left": left,
            }
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
