"""A mock for Firecracker and Cloud Hypervisor: their API on a socket, by their documents, and an emulated machine.

It refuses what the document does not allow, writes each request beside its socket, and boots what it was told to boot
under QEMU, so that the driver's whole path runs. It is none of the products: what they do beyond their documents is not
shown by it.
"""

from __future__ import annotations

import argparse
import http.server
import json
import os
import signal
import socketserver
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from tests.support.api_documents import complaint


class Machine:
    """What was reported about the machine, and its emulator once it was started."""

    def __init__(self, product: str, requests: Path) -> None:
        self.product, self.requests = product, requests
        self.reported: dict[str, Any] = {}
        self.emulator: subprocess.Popen[bytes] | None = None

    def take(self, method: str, path: str, body: Any) -> str | None:
        """One request; why it is refused, or None."""
        with self.requests.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps([method, path, body]) + "\n")
        refused = complaint(self.product, method, path, body)
        if refused is not None:
            return refused
        action = (body or {}).get("action_type") or (body or {}).get("state") or path.rpartition("/")[2]
        if action in ("InstanceStart", "vm.boot"):
            return self.boot()
        if action in ("Paused", "vm.pause", "Resumed", "vm.resume"):
            if self.emulator is None:
                return "the machine is not booted"
            os.kill(self.emulator.pid, signal.SIGSTOP if action in ("Paused", "vm.pause") else signal.SIGCONT)
            return None
        self.reported[path] = body
        return None

    def boot(self) -> str | None:
        """Start what was described."""
        if os.environ.get("MOCK_REFUSES"):
            return os.environ["MOCK_REFUSES"]
        # Its kernel panics where an emulator waits long for a CPU as it boots.
        argv = ["nice", "-n", "-10", "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none"]
        argv += ["-no-reboot", "-machine", "q35", "-accel", "tcg", "-cpu", "max"]
        argv += self._firecracker() if self.product == "firecracker" else self._cloud_hypervisor()
        self.emulator = subprocess.Popen(argv, stdin=None if self.product == "firecracker" else subprocess.DEVNULL)
        threading.Thread(target=self._follow, daemon=True).start()
        return None

    def _firecracker(self) -> list[str]:
        size, source = self.reported["/machine-config"], self.reported["/boot-source"]
        argv = ["-smp", str(size["vcpu_count"]), "-m", f"{size['mem_size_mib']}M"]
        argv += _kernel(source["kernel_image_path"], source["initrd_path"], source["boot_args"])
        for path, body in self.reported.items():
            if path.startswith("/drives/"):
                argv += _disk(body["path_on_host"])
            if path.startswith("/network-interfaces/"):
                argv += _card(body["iface_id"], body["host_dev_name"], body["guest_mac"])
        return [*argv, "-chardev", "stdio,id=serial,signal=off", "-serial", "chardev:serial"]

    def _cloud_hypervisor(self) -> list[str]:
        reported = self.reported["/api/v1/vm.create"]
        argv = ["-smp", str(reported["cpus"]["boot_vcpus"]), "-m", f"{reported['memory']['size'] // 2**20}M"]
        argv += _kernel(reported["payload"]["kernel"], reported["payload"]["initramfs"], reported["payload"]["cmdline"])
        for disk in reported.get("disks", []):
            argv += _disk(disk["path"])
        for card in reported["net"]:
            argv += _card(card["id"], card["tap"], card["mac"])
        serial = f"socket,id=serial,path={reported['serial']['socket']},server=on,wait=off"
        return [*argv, "-chardev", serial, "-serial", "chardev:serial"]

    def _follow(self) -> None:
        assert self.emulator is not None
        os._exit(self.emulator.wait() and 1)

    def end(self) -> None:
        """As the product does when it is terminated."""
        if self.emulator is not None:
            self.emulator.kill()
        os._exit(0)


def _kernel(kernel: str, initramfs: str, arguments: str) -> list[str]:
    return ["-kernel", kernel, "-initrd", initramfs, "-append", arguments]


def _disk(path: str) -> list[str]:
    return ["-drive", f"if=none,id=disk,format=raw,readonly=on,file={path}", "-device", "virtio-blk-pci,drive=disk"]


def _card(name: str, tap: str, mac: str) -> list[str]:
    backend = f"tap,id={name},ifname={tap},script=no,downscript=no"
    return ["-netdev", backend, "-device", f"virtio-net-pci,netdev={name},mac={mac},romfile="]


def serve(machine: Machine, socket: Path) -> None:
    """Answer requests until the process ends."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(length)) if length else None
            refused = machine.take(self.command, self.path, body)
            content = b""
            if refused is not None:
                reported = {"fault_message": refused} if machine.product == "firecracker" else [refused]
                content = json.dumps(reported).encode()
            self.send_response(204 if refused is None else 400)
            if content:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_PUT = do_PATCH = _answer  # noqa: N815 - the names that the standard library asks for

        def address_string(self) -> str:
            return "driver"

    with socketserver.ThreadingUnixStreamServer(str(socket), Handler) as server:
        server.serve_forever()


def main(product: str, arguments: list[str]) -> None:
    """As the product's command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", action="store_true")
    parser.add_argument("--api-sock", "--api-socket", type=Path)
    if product == "firecracker":
        for name in ("--id", "--log-path", "--level"):
            parser.add_argument(name)
    options = parser.parse_args(arguments)
    if options.version:
        sys.stdout.write(f"{product} mock 1\n")
        return
    machine = Machine(product, options.api_sock.parent / "requests.jsonl")
    signal.signal(signal.SIGTERM, lambda _number, _frame: machine.end())
    serve(machine, options.api_sock)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
