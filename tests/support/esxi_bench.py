"""A bench for ``virtoll run``, in a network namespace of its own: a simulated ESXi host, and cables to this machine.

``python -m tests.support.esxi_bench FOLDER ARGUMENTS...`` under ``unshare --net``: near0, near1 and near2 are NICs of
"this machine"; their other ends are the host's vmnic1 to vmnic3. Writes FOLDER/esxi.yaml and runs ``virtoll run`` on it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import yaml
from tests.support.commands import VIRTOLL
from tests.support.esxi import CABLES, esxi_host


def main(folder: Path) -> int:
    """Returns the exit code of ``virtoll``."""
    commands = ["link set lo up"]
    for number, role in enumerate(CABLES.values()):
        commands += [
            f"link add wire{role} type bridge", f"link add near{number} type veth peer name far{number}",
            f"link set far{number} master wire{role}", f"link set far{number} up", f"link set wire{role} up",
        ]  # fmt: skip
    for command in commands:
        subprocess.run(["ip", *command.split()], check=True)
    with esxi_host(folder / "host") as host:
        host.bridge = "wire{role}"
        experiment = folder / "esxi.yaml"
        experiment.write_text(yaml.safe_dump(_experiment(host.address, host.parameters())), encoding="utf-8")
        code = subprocess.run([*VIRTOLL, "run", str(experiment)], check=False, stdin=subprocess.DEVNULL).returncode
        assert not host.machines
        events = [event for event, _ in host.seen]
        print("host:", *events, flush=True)
    return code


def _experiment(address: str, parameters: dict[str, object]) -> dict[str, object]:
    return {
        "name": "esxi",
        "question": "Does a run on an ESXi host go through?",
        "platforms": [{"platform": "esxi", "label": "esxi", **parameters}],
        "baseline": "esxi",
        "workloads": [
            {"workload": "forward", "frame_size_bytes": 64, "point_milliseconds": 50},
            {"workload": "superpi", "digits": 2000},
        ],
        "blocks": 1,
        "testbed": {
            "generator": {"host": "local", "interfaces": ["near0"]},
            "sink": {"host": "local", "interfaces": ["near1"]},
            "timekeeper": {"host": "local", "interfaces": ["near2"]},
            "hypervisor": {"host": {"api": address}, "interfaces": list(CABLES)},
        },
    }


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
