"""A bench for ``virtoll run``, in a network namespace of its own: a simulated ESXi host, and cables to this machine.

``python -m tests.support.esxi_bench FOLDER`` under ``unshare --net``: near0, near1 and near2 are NICs of
"this machine"; their other ends are the host's vmnic1 to vmnic3. Writes FOLDER/esxi.yaml, has ``virtoll`` measure it
and kills it once a machine with a data disk is on; then has it continued to its end. What the host held is reported as
JSON in FOLDER/reported.json. With a LOAD after the folder nothing is killed, and the machine is measured alone and
beside another that has it.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from tests.support.commands import VIRTOLL
from tests.support.esxi import CABLES, EsxiHost, esxi_host, inventory
from tests.support.machine import await_state
from tests.support.real_run import measuring

from virtoll.errors import GuestError
from virtoll.lab.inside import wait_until

_HANG_SECONDS = 1200.0
JOB = [{"workload": "superpi", "digits": 2000}]
FORWARD = {
    "workload": "forward",
    "frame_size_bytes": 64,
    "rate_factor": 64,
    "first_rate_frames_per_second": 500,
    "point_milliseconds": 200,
    "cpu_milliseconds": 0,
}
TCP_BYTES, TCP_RATE = 2**18, 2_000_000
SHAPED = [
    {"workload": "tcp-stream", "size": TCP_BYTES, "direction": direction, "link_rate_bits_per_second": TCP_RATE}
    for direction in ("to-guest", "from-guest")
]


def main(folder: Path, load: str | None = None) -> int:
    """Returns the exit code of ``virtoll``."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    _cable()
    with esxi_host(folder / "host") as host:
        host.bridge = "wire{role}"
        experiment = folder / "esxi.yaml"
        wanted = _experiment(host.address, host.parameters())
        if load is not None:  # several rounds: a second machine whose kernel panics as it boots is started anew
            wanted |= {"scenario": "neighbours", "neighbours": [load], "workloads": JOB, "rounds": 3}
        experiment.write_text(yaml.safe_dump(wanted), encoding="utf-8")
        argv = [*VIRTOLL, *measuring(experiment)[0]]
        if load is not None:
            return subprocess.run(argv, check=False, stdin=subprocess.DEVNULL).returncode
        reported: dict[str, Any] = {"before": inventory(host)}
        host.still = True
        with subprocess.Popen(argv, stdin=subprocess.DEVNULL) as process:
            wait_until(lambda: _has_disk(host) or process.poll() is not None, _HANG_SECONDS, "a machine with a disk")
            reported["killed"] = inventory(host)
            process.kill()
        await_state(lambda: _is_again(host, reported["before"]), "a host as it was before")
        host.still = False
        reported["events of the killed"] = _events(host)
        _cable()
        code = subprocess.run(argv, check=False, stdin=subprocess.DEVNULL).returncode
        reported |= {"after": inventory(host), "events": _events(host), "machines": list(host.machines)}
        (folder / "reported.json").write_text(json.dumps(reported), encoding="utf-8")
    return code


def _has_disk(host: EsxiHost) -> bool:
    """Whether a machine is on that has a data disk."""
    return any(reported["disks"] and reported["name"] in host.machines for _, reported in list(host.seen))


def _cable() -> None:
    """This machine's NICs, each a cable to a bridge that stands for a vmnic.

    Those of a run are in its lab, which the kernel clears away when it likes: each is removed with its other end.
    """
    for number, role in enumerate(CABLES.values()):
        for name in (f"far{number}", f"wire{role}"):
            subprocess.run(["ip", "link", "del", name], check=False, capture_output=True)
        for command in (
            f"link add wire{role} type bridge",
            f"link add near{number} type veth peer name far{number}",
            f"link set far{number} master wire{role}",
            f"link set far{number} up",
            f"link set wire{role} up",
        ):
            subprocess.run(["ip", *command.split()], check=True)


def _is_again(host: EsxiHost, before: dict[str, Any]) -> bool:
    """Whether the host holds what it held; while it is being cleaned up, files vanish as they are listed."""
    with contextlib.suppress(OSError, GuestError):
        return inventory(host) == before
    return False


def _events(host: EsxiHost) -> list[str]:
    """What happened since this was last asked."""
    found = [event for event, _ in host.seen]
    host.seen.clear()
    return found


def _experiment(address: str, parameters: dict[str, object]) -> dict[str, object]:
    return {
        "name": "esxi",
        "question": "Does a run on an ESXi host go through?",
        "platforms": [{"platform": "esxi", "label": "esxi", **parameters}],
        "baseline": "esxi",
        "workloads": [
            FORWARD,
            *JOB,
            {"workload": "zfg", "size_bytes": "1MiB", "rounds": 2, "dump_bytes": 100_000},
            *SHAPED,
        ],
        "blocks": 1,
        "rounds": 1,
        "testbed": {
            "generator": {"host": "local", "interfaces": ["near0"]},
            "sink": {"host": "local", "interfaces": ["near1"]},
            "timekeeper": {"host": "local", "interfaces": ["near2"]},
            "hypervisor": {"host": {"api": address}, "interfaces": list(CABLES)},
        },
    }


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
