"""Single records of a made-up run as plain dicts: the manifest's instrument, a start, a clock, the host's state."""

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from virtoll.runfolder.store import FORMAT

EPOCH_NS = 1_795_219_200_000_000_000


def instrument(hypervisor: str | None) -> dict[str, Any]:
    """What a manifest says of Virtoll, the host, the image and the agent; the host runs in this `hypervisor`."""
    return {
        "format": FORMAT,
        "created_realtime_ns": EPOCH_NS,
        "virtoll": "0.1.0",
        "host": {
            "fingerprint": "ab" * 32,
            "hypervisor": hypervisor,
            "cpus": 2,
            "memory_bytes": 24 << 30,
            "kernel": "6.1.0-56-amd64",
            "cpu_model": "Synthetic CPU @ 2.50GHz",
            "clock_source": "kvm-clock",
            "root": True,
            "os": "Debian GNU/Linux 12",
            "mitigations": {"meltdown": "PTI"},
            "hostname_hash": "c" * 16,
            "packages": {"qemu-system-x86": "1:7.2+dfsg-7", "runc": "1.1.5"},
        },
        "image": {
            "name": "full",
            "digest": "sha256:" + "d" * 64,
            "kernel": {"package": "linux-image-6.1.0-56-amd64", "version": "6.1.192-2", "sha256": "e" * 64},
            "tools": {
                "suite": "bookworm",
                "wanted": ["fio"],
                "packages": {"fio": "3.33-3", "zlib1g": "1:1.2.13"},
                "licences": {"fio": ["GPL-2"], "zlib1g": ["Zlib"]},
                "bytes": 2**20,
            },
        },
        "agent": {"version": "0.1.0", "protocol": 3, "build": "0123456789ab", "sha256": "a" * 64, "bytes": 1234567},
        "pinning": {"guest_cpus": [0], "generator_cpu": 1, "sink_cpu": 1},
    }


def platform(label: str, **given: Any) -> dict[str, Any]:
    """A platform's entry in the manifest: there, on this machine, with its family and what else is given."""
    return {
        "label": label,
        "platform": label,
        "parameters": {},
        "available": True,
        "reason": None,
        "version": None,
        "host": "this machine",
        "caveat": None,
        **given,
    }


def boot(label: str, block: int, *, machine: bool) -> dict[str, Any]:
    """One start of a guest that is good; `machine`: it has a kernel and hardware of its own."""
    facts = {
        "kernel_release": "6.1.0-56-amd64",
        "kernel_version": "#1 SMP Debian 6.1.192-2",
        "machine": "x86_64",
        "cpus_online": 1 if machine else 2,
        "cpus_allowed": 1,
        "page_size_bytes": 4096,
        "clock_tick_hz": 100,
        "cpu_model": "QEMU TCG CPU version 2.5+" if machine else "Synthetic CPU @ 2.50GHz",
        "cpu_flags": sorted(["fpu", "sse2", "cx16"] + ([] if machine else ["avx2", "avx512f", "aes"])),
        "memory_total_bytes": 233 << 20 if machine else 24 << 30,
        "memory_limit_bytes": None if machine else 256 << 20,
        "clock_source": "tsc" if machine else "kvm-clock",
        "root_filesystem": "rootfs" if machine else "overlay",
        "hypervisor": "tcg" if machine else "kvm",
        "cmdline": "console=ttyS0" if machine else None,
        "agent_sha256": "a" * 64,
        "agent_bytes": 1234567,
        "pid": 1 if label != "native" else 4242,
        "uid": 0,
        "capabilities_hex": "1ffffffffff",
        "interfaces": [
            {
                "name": f"vt{number}",
                "mac": f"02:00:00:00:00:0{number}",
                "mtu": 1500,
                "driver": ("e1000" if "e1000" in label else "virtio_net") if machine else "veth",
                "speed_mbit": 1000 if "e1000" in label else None,
                "offloads": {"tx-checksumming": not machine, "generic-receive-offload": True},
            }
            for number in range(2)
        ],
        "sysctls": {"net.ipv4.ip_forward": "1", "net.core.netdev_max_backlog": "1000"},
    }
    mismatches = ["CPUs: asked 1, inside 2 online (1 allowed)"] if label.startswith("native") else []
    return {
        "boot": f"{label}/{block}",
        "platform": label,
        "block": block,
        "attempt": 1,
        "status": "ok",
        "reason": None,
        "spawn_monotonic_ns": 0,
        "ready_monotonic_ns": 2_100_000_000 if machine else 9_000_000,
        "facts": facts,
        "requested": {"vcpus": 1, "memory_bytes": 268435456, "cpus": [0]},
        "mismatches": mismatches,
        "attachment": "bridge" if machine else "veth",
        "evidence": [],
    }


def trial_line(
    entry: Mapping[str, Any], boot: str | None, window: tuple[int | None, int | None], **changed: Any
) -> dict[str, Any]:
    """A trial of the plan's that ended well without any value; `window`: its begin and end. `changed`: other keys."""
    started, ended = window
    nothing: dict[str, Any] = dict.fromkeys(("reason", "clock", "result", "check", "points"))
    return {
        **entry,
        **nothing,
        "boot": boot,
        "attempt": 1,
        "status": "ok",
        "started_realtime_ns": started,
        "ended_realtime_ns": ended,
        "evidence": [],
        **changed,
    }


def clock(started: int, duration: int, error: float, dice: random.Random, *, late_share: float = 0.4) -> dict[str, Any]:
    """The readings of a job that takes `duration` ns; the guest's clock has the relative `error`.

    `late_share`: of the path's delay, by how much the end mark is early or late at most.
    """
    delays = [int(dice.uniform(9_000, 42_000)) for _ in range(10)]
    bound = max(delays)
    begin = started + 100_000_000
    end = begin + duration + int(dice.uniform(-late_share, late_share) * bound)
    guest = int(duration * (1 + error))
    return {
        "method": "icmp",
        "marks": {"start_ns": begin, "end_ns": end},
        "channel_marks": None,
        "realtime_step_ns": 0,
        "path_delay_before_ns": delays[:5],
        "path_delay_after_ns": delays[5:],
        "error_estimate_ns": bound,
        "guest": {
            "start_monotonic_ns": 5_000,
            "end_monotonic_ns": 5_000 + guest,
            "start_realtime_ns": begin,
            "end_realtime_ns": begin + guest,
            "user_cpu_ns": guest,
            "system_cpu_ns": 0,
        },
    }


def busy_host(folder: Path) -> None:
    """A run folder whose host had a load of 7 on each of its 2 CPUs before the first trial."""
    samples = [{**fitness(after), "load_1m": 14.0} for after in (0, 4)]
    (folder / "fitness.jsonl").write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    (folder / "SHA256SUMS").unlink(missing_ok=True)


def fitness(after: int) -> dict[str, Any]:
    """The host's state after so many trials."""
    passed = after * 2_000_000_000
    return {
        "monotonic_ns": passed,
        "realtime_ns": EPOCH_NS + passed,
        "after_trial": after - 1 if after else None,
        "steal_ns": passed // 400,
        "busy_ns": passed,
        "idle_ns": passed,
        "load_1m": 0.4,
        "pressure": {"cpu_some_us": 0, "memory_some_us": 0, "io_some_us": 0},
        "swap_in_pages": 0,
        "swap_out_pages": 0,
        "frequency_khz": None,
        "temperature_millicelsius": None,
        "throttle_count": None,
        "kernel_messages": [],
        "memory_available_bytes": 20 << 30,
    }
