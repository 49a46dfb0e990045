"""A guest of ``qemu-tcg`` as Virtoll starts it on an arm64 host: ``arm64_guest.py AGENT CACHE CPU``.

What goes by the host's architecture is told arm64 before anything of Virtoll is imported, hence a process of its own.
The guest is made and started by the driver's own code: kernel by its digest, modules, initramfs, arguments, and the
agent behind virtio-serial. Prints one JSON object: what the agent says of the machine and of each kind of NIC.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_NICS = {"virtio-net": "virtio-net-pci", "e1000": "e1000", "rtl8139": "rtl8139", "vmxnet3": "vmxnet3"}
_SECONDS = 600.0
VCPUS = 10  # more than the machine's default interrupt controller serves


def main(arguments: list[str]) -> int:
    """Exit code 0 where the guest answered all that it was asked."""
    said = os.uname_result((*os.uname()[:4], "aarch64"))
    os.uname = lambda: said
    platform.machine = lambda: "aarch64"
    sys.path[:0] = [str(ROOT / "src")]
    agent, cache, cpu = arguments
    print(json.dumps(_boot(Path(agent), Path(cache), cpu)))
    return 0


def _boot(agent: Path, folder: Path, cpu: str) -> dict[str, object]:
    from virtoll.agent.operations.session import FactsRequest, ShutdownRequest
    from virtoll.image import Cache, prepare_image
    from virtoll.lab.network import GuestNetwork
    from virtoll.platforms.base import GuestRequest
    from virtoll.platforms.process_guest import socket_session
    from virtoll.platforms.qemu.command import Boot, MachineEnds, QemuParameters, machine_command

    image = prepare_image("tiny", kernel=True, cache=Cache(folder), agent=agent, progress=_say)
    request = GuestRequest("arm64", VCPUS, 256 << 20, (), GuestNetwork(()), _SECONDS)
    client, agent_end = socket_session(request.name)
    monitor, monitor_end = socket_session("the monitor")
    boot = Boot(image.kernel.vmlinux or image.kernel.vmlinuz, image.initramfs)
    ends = MachineEnds(agent_end.fileno(), monitor_end.fileno())
    with tempfile.TemporaryDirectory() as place:
        console = Path(place) / "console.txt"
        argv = ["qemu-system-aarch64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
        argv += ["-accel", "tcg", "-cpu", cpu, *machine_command(QemuParameters(), request, boot, console, ends)]
        for number, model in enumerate(_NICS.values()):
            argv += ["-netdev", f"user,restrict=on,id=n{number}", "-device", f"{model},netdev=n{number},romfile="]
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, pass_fds=ends.descriptors)
        try:
            agent_end.close()
            client.wait_ready(_SECONDS)
            facts = client.ask(FactsRequest(), _SECONDS)
            client.ask(ShutdownRequest(), _SECONDS)
            code = process.wait(_SECONDS)
        except Exception:
            print(console.read_text(encoding="utf-8", errors="replace")[-3000:], file=sys.stderr)
            raise
        finally:
            process.kill()
            process.wait()
            client.close()
            monitor.close()
    return {
        "kernel": image.kernel.release,
        "machine": facts.machine,
        "cpu_model": facts.cpu_model,
        "cpus": facts.cpus_online,
        "page_size_bytes": facts.page_size_bytes,
        "clock_source": facts.clock_source,
        "drivers": sorted({one.driver for one in facts.interfaces if one.driver}),
        "ended_with": code,
    }


def _say(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
