"""The requests that Firecracker's and Cloud Hypervisor's API documents allow, as far as the drivers use them.

Taken down by hand from ``src/firecracker/swagger/firecracker.yaml`` (1.17.0-dev, commit 004d935399ba) and from
``vmm/src/api/openapi/cloud-hypervisor.yaml`` (0.3.0, commit 00f68228812d). A key with ``!`` is required there; a set
holds the allowed values; a list one kind of item. ``{}`` in a path stands for an identifier; None: no body.
"""

from __future__ import annotations

import re
from typing import Any

Shape = Any

FIRECRACKER: dict[tuple[str, str], Shape] = {
    ("PUT", "/machine-config"): {
        "vcpu_count!": range(1, 33),
        "mem_size_mib!": int,
        "smt": bool,
        "track_dirty_pages": bool,
        "huge_pages": {"None", "Transparent", "2M"},
        "cpu_template": str,
    },
    ("PUT", "/boot-source"): {"kernel_image_path!": str, "initrd_path": str, "boot_args": str},
    ("PUT", "/drives/{}"): {
        "drive_id!": str,
        "is_root_device!": bool,
        "is_read_only": bool,
        "path_on_host": str,
        "partuuid": str,
        "cache_type": {"Unsafe", "Writeback"},
        "io_engine": {"Sync", "Async"},
        "socket": str,
    },
    ("PUT", "/network-interfaces/{}"): {
        "iface_id!": str,
        "host_dev_name!": str,
        "guest_mac": str,
        "mtu": range(68, 65536),
    },
    ("PUT", "/actions"): {"action_type!": {"FlushMetrics", "InstanceStart", "SendCtrlAltDel"}},
    ("PATCH", "/vm"): {"state!": {"Paused", "Resumed"}},
}

_CONSOLE_MODES = {"Off", "Pty", "Tty", "File", "Socket", "Null"}
CLOUD_HYPERVISOR: dict[tuple[str, str], Shape] = {
    ("PUT", "/api/v1/vm.create"): {
        "payload!": {"firmware": str, "kernel": str, "cmdline": str, "initramfs": str, "igvm": str, "host_data": str},
        "cpus": {"boot_vcpus!": range(1, 256), "max_vcpus!": range(1, 256)},
        "memory": {"size!": int, "shared": bool, "hugepages": bool, "thp": bool, "prefault": bool},
        "disks": [
            {
                "id": str,
                "path": str,
                "readonly": bool,
                "direct": bool,
                "image_type": {"FlatVmdk", "FixedVhd", "Qcow2", "Raw", "Vhdx", "Unknown"},
            }
        ],
        "net": [{"id": str, "tap": str, "mac": str, "mtu": int, "num_queues": int, "queue_size": int}],
        "serial": {"mode!": _CONSOLE_MODES, "file": str, "socket": str},
        "console": {"mode!": _CONSOLE_MODES, "file": str, "socket": str},
    },
    ("PUT", "/api/v1/vm.boot"): None,
    ("PUT", "/api/v1/vm.pause"): None,
    ("PUT", "/api/v1/vm.resume"): None,
}
DOCUMENTS = {"firecracker": FIRECRACKER, "cloud-hypervisor": CLOUD_HYPERVISOR}


def complaint(product: str, method: str, path: str, body: Any) -> str | None:
    """What the document says against a request; None where it allows it."""
    for (known, pattern), shape in DOCUMENTS[product].items():
        if known == method and re.fullmatch(re.escape(pattern).replace(r"\{\}", r"[A-Za-z0-9_]+"), path):
            return _against(shape, body, "body")
    return f"{method} {path} is not in the document"


def _against(shape: Shape, value: Any, where: str) -> str | None:
    if shape is None:
        return None if value is None else f"{where}: none is expected"
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return f"{where}: an object is expected"
        known = {key.rstrip("!"): inner for key, inner in shape.items()}
        missing = [key[:-1] for key in shape if key.endswith("!") and key[:-1] not in value]
        found = [f"{where}: {key} is missing" for key in missing]
        found += [f"{where}: {key} is unknown" for key in value if key not in known]
        found += filter(None, (_against(known[key], value[key], f"{where}.{key}") for key in value if key in known))
        return found[0] if found else None
    if isinstance(shape, list):
        if not isinstance(value, list):
            return f"{where}: a list is expected"
        return next(filter(None, (_against(shape[0], item, where) for item in value)), None)
    if isinstance(shape, type):
        return None if type(value) is shape else f"{where}: {shape.__name__} is expected"
    return None if value in shape else f"{where}: {value!r} is not allowed"
