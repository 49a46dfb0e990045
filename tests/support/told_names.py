"""A run in whose records somebody's names stand wherever a run may hold some: what no stranger may read.

Main function: `write_telling_run`. `NAMES`: every one of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.support.made_up_folder import write_run
from tests.support.made_up_run import Made, made_up_run

from virtoll.experiment.topology import Testbed
from virtoll.runfolder import jsonlines
from virtoll.runfolder.store import RunFolder
from virtoll.runfolder.sums import EXPLANATIONS, write_sums

NAMES: Final = (
    *("buildbox7", "corp.example", "left-hand3", "joedoe", "/home/joedoe", "/srv/acme/data", "acme"),
    *("52:54:00:12:34:56", "52-54-00-12-34-57", "10.20.30.40", "fe80::5054:ff:fe12:3456", "enp3s0f1", "eno1"),
    *("0000:5e:00.1", "S3RIAL99", "wwn-0x5000c500a1b2c3d4", "1b4e28ba-2fa1-11d2-883f-0016d3cca427", "lan-hall9"),
    *("hunter2", "datastore-hall9", "backup@vault", "vault", "1a2b3c4d5e6f708192a3b4c5d6e7f80912345678"),
)
TESTBED: Final = Testbed.model_validate(
    {
        "generator": {"host": {"ssh": "bench@left-hand3"}, "interfaces": ["enp3s0f1"]},
        "sink": {"host": {"ssh": "bench@left-hand3"}, "interfaces": ["eno1"]},
        "hypervisor": {"host": "local", "interfaces": ["lan-hall9", "eth1"]},
    }
)
YAML: Final = """\
# joedoe's own, for acme
name: made-up
question: How fast is buildbox7?
platforms:
  - native
  - {platform: ssh, label: ssh-joedoe, destination: "joedoe@buildbox7.corp.example:22"}
  - {platform: esxi, server: left-hand3, user: joedoe, password_from: "file:/home/joedoe/hunter2",
     datastore: datastore-hall9, thumbprint: 1a2b3c4d5e6f708192a3b4c5d6e7f80912345678}
testbed:
  generator: {host: {ssh: bench@left-hand3}, interfaces: [enp3s0f1]}
"""
KERNEL_SAID: Final = (
    "usb 1-1: SerialNumber: S3RIAL99",
    "systemd[1]: Hostname set to <buildbox7>.",
    "enp3s0f1: renamed from eth0",
    "b1in0: port 1(l1in0) entered forwarding state",
)
LABEL: Final = "ssh-joedoe"
CELLS: Final = {"native": 1.0, "native-again": 1.0, "runc": 1.7, LABEL: 2.5}


def write_telling_run(path: Path) -> Path:
    """Make the folder of a finished run of four platforms, one of them by SSH, with all of `NAMES` in it."""
    where = {LABEL: {"platform": "ssh", "host": "ssh joedoe@buildbox7.corp.example"}}
    made = [
        Made(label, workload, parameters, size / factor if workload == "forward" else size * factor)
        for workload, parameters, size in (("forward", {"frame_size_bytes": 64}, 1e6), ("superpi", {}, 3e7))
        for label, factor in CELLS.items()
    ]
    run = made_up_run({label: where.get(label, {}) for label in CELLS}, made, calibrated_rate=4e6)
    folder = write_run(path, run)
    _change(folder / "manifest.json", _tell_in_manifest)
    _change_lines(folder / "boots.jsonl", _tell_in_boot)
    _change_lines(folder / "trials.jsonl", _tell_in_trial)
    _change_lines(
        folder / "fitness.jsonl", lambda number, one: one | {"kernel_messages": list(KERNEL_SAID[: number + 1])}
    )
    command = {
        "realtime_ns": 0,
        "role": f"guest {LABEL}/0",
        "argv": ["/home/joedoe/bin/ssh", "joedoe@buildbox7"],
        "exit": 0,
    }
    (folder / "commands.jsonl").write_bytes(jsonlines.encode(command))
    (folder / "evidence" / LABEL).mkdir()
    (folder / "evidence" / LABEL / "console.txt").write_text("\n".join(NAMES), encoding="utf-8")
    (folder / "notes of joedoe.txt").write_text("ask acme", encoding="utf-8")
    (folder / EXPLANATIONS).mkdir()
    (folder / EXPLANATIONS / "boots.jsonl").write_bytes((folder / "boots.jsonl").read_bytes())
    (folder / EXPLANATIONS / "commands.jsonl").write_bytes(jsonlines.encode(command))
    write_sums(folder / EXPLANATIONS)
    write_sums(folder)
    RunFolder.open(folder).boots()  # it is a run still
    return folder


def _change(path: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    jsonlines.replace(path, change(json.loads(path.read_bytes())))


def _change_lines(path: Path, change: Callable[[int, dict[str, Any]], dict[str, Any]]) -> None:
    lines = [change(number, json.loads(line)) for number, line in jsonlines.read(path)]
    path.write_bytes(b"".join(map(jsonlines.encode, lines)))


def _tell_in_manifest(manifest: dict[str, Any]) -> dict[str, Any]:
    experiment = {"file": "/home/joedoe/acme/mine.yaml", "text": YAML, "question": "How fast is buildbox7?"}
    for one in manifest["platforms"]:
        if one["label"] == LABEL:
            one["parameters"]["destination"] = "joedoe@buildbox7.corp.example:22"
            one["parameters"]["interfaces"] = ["enp3s0f1", "52:54:00:12:34:56"]
            one["version"] = "Linux on buildbox7"
    return manifest | {
        "run": "joedoe-on-buildbox7",
        "experiment": manifest["experiment"] | experiment,
        "command": ["virtoll", "run", "/home/joedoe/acme/mine.yaml", "--into", "acme/now"],
        "testbed": TESTBED.model_dump(mode="json"),
        "host": manifest["host"]
        | {
            "data_disk": "vda",
            "io_schedulers": {"vda": "none"},
            "disk": "/dev/disk/by-id/wwn-0x5000c500a1b2c3d4",
            "device": "0000:5e:00.1",
            "address": "fe80::5054:ff:fe12:3456",
        },
    }


def _tell_in_boot(_: int, boot: dict[str, Any]) -> dict[str, Any]:
    own = {
        "cmdline": "root=UUID=1b4e28ba-2fa1-11d2-883f-0016d3cca427 hostname=buildbox7",
        "boot_id": "1b4e28ba-2fa1-11d2-883f-0016d3cca427",
    }
    for one in boot["facts"]["interfaces"]:
        one |= {"name": "enp3s0f1", "mac": "52:54:00:12:34:56"}
    return boot | {
        "facts": boot["facts"] | own,
        "host_boot_id": "1b4e28ba-2fa1-11d2-883f-0016d3cca427",
        "mismatches": ["memory: /srv/acme/data on buildbox7 is full"],
        "evidence": [f"evidence/{LABEL}/console.txt"],
    }


def _tell_in_trial(number: int, trial: dict[str, Any]) -> dict[str, Any]:
    if trial["result"] is not None:
        trial["result"] |= {
            "output": "hello from joedoe@buildbox7, hunter2",
            "complaints": "no vault for hunter2",
            "state": {"path": "/srv/acme/data", "by": "backup@vault", "mac": "52-54-00-12-34-57"},
        }
    if number == 1:
        return trial | {
            "status": "failed",
            "reason": "ssh: connect to buildbox7.corp.example (10.20.30.40): refused",
            "evidence": [f"evidence/{LABEL}/console.txt"],
        }
    return trial
