"""What root in a guest may reach, as text: rows of the equivalence report, and of the table of a page.

Main functions: ``reach_rows`` (one boot's), ``capability_names``. What was measured inside (the agent's ``facts``) and
what the host's kernel says of the guest's process are told apart. It must not judge whether a reach is too wide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from virtoll.runfolder.facts import Facts, ReachFacts
from virtoll.runfolder.guest_records import HostProcess
from virtoll.runfolder.records import BootRecord

ATTEMPTS: Final[Mapping[str, str]] = {
    "block-device": "read a disk of the kernel's by a node of its own",
    "machine-memory": "read the machine's memory by a node of its own",
    "kernel-memory": "read the kernel's memory (/proc/kcore)",
    "core-pattern": "write kernel.core_pattern",
    "swappiness": "write vm.swappiness",
    "sysrq": "write /proc/sysrq-trigger",
    "sys-files": "write settings in /sys",
    "cgroup-files": "write files of its cgroup",
    "mount": "mount",
    "namespace": "enter namespaces",
    "user-namespace": "make user namespaces",
    "module": "load modules",
    "bpf": "list the kernel's BPF programs",
    "perf": "count events of whole CPUs",
    "kernel-log": "read the kernel's log",
    "keyrings": "use keyrings",
    "clock": "set the clock",
    "file-handles": "open files by handle",
    "packet-socket": "open packet sockets",
    "outer-process": "read the memory of processes outside",
}
"""What the agent tries, by the name of its ``facts``, in the order of a table."""
ALLOWED: Final = "allowed"
_ALL_USERS: Final = "0 0 4294967295"
_SECCOMP: Final = {0: "none", 1: "strict", 2: "filters"}
_NAMES: Final = (
    "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE "
    "NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN "
    "SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE "
    "MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE"
)
_CAPABILITIES: Final = tuple(_NAMES.split())
_FEW: Final = 24


def reach_rows(boot: BootRecord) -> dict[str, str | None]:
    """One boot's rows, name -> text; None: not known."""
    reach = boot.facts.reach if boot.facts is not None else None
    inside = reach or ReachFacts()
    shared = on_hosts_kernel(boot)
    rows: dict[str, str | None] = {"kernel": {True: "the host's", False: "its own", None: None}[shared]}
    rows["user namespace"] = _user_namespace(inside.user_map)
    rows["capabilities at most"] = capability_names(inside.capabilities_bounding_hex)
    rows["seccomp"] = _seccomp(inside.seccomp_mode, inside.seccomp_filters)
    rows["no new privileges"] = _switch(inside.no_new_privileges)
    rows["security label"] = None if reach is None else inside.security_label or "none"
    rows["mounts that may be written to"] = _listed(inside.writable_mounts)
    rows["sockets seen"] = _listed(None if reach is None else reach.sockets)
    rows["root may"] = _listed(_allowed(inside.attempts))
    rows["process on the host"] = None if boot.host_process is None else process_text(boot.host_process)
    return rows


def on_hosts_kernel(boot: BootRecord) -> bool | None:
    """Whether a guest runs on the host's kernel; None: not known.

    By the names of network namespaces, which one kernel gives only once: systemd-nspawn and LXC cover the number of the
    boot by one of their own. A guest without a process on this host has that number alone.
    """
    facts, process = boot.facts or Facts(), boot.host_process
    inside = facts.reach.network_namespace if facts.reach is not None else None
    if process is not None and process.network_namespace is not None and inside is not None:
        return bool(inside == process.network_namespace)
    if boot.host_boot_id is None or facts.boot_id is None:
        return None
    return facts.boot_id == boot.host_boot_id


def process_text(process: HostProcess) -> str:
    """What a guest's process is on its host."""
    seccomp = _seccomp(process.seccomp_mode, None)
    parts = [
        f"{process.name}: user {process.user}",
        f"capabilities {capability_names(process.capabilities_hex)}",
        *([] if seccomp is None else [f"seccomp {seccomp}"]),
        f"namespaces of its own: {', '.join(process.own_namespaces) or 'none'}",
    ]
    return "; ".join(parts)


def capability_names(mask: str | None) -> str | None:
    """A kernel's mask of capabilities (hexadecimal) as names; where most are there, those that are missing."""
    if mask is None:
        return None
    bits = int(mask, 16)
    held = [name for number, name in enumerate(_CAPABILITIES) if bits >> number & 1]
    missing = [name for number, name in enumerate(_CAPABILITIES) if not bits >> number & 1]
    if not held:
        return "none"
    if len(held) > _FEW:
        return f"all but {' '.join(missing)}" if missing else "all"
    return f"{len(held)}: {' '.join(held)}"


def _user_namespace(numbers: str | None) -> str | None:
    if numbers is None:
        return None
    return "none of its own" if numbers == _ALL_USERS else f"its own: {numbers}"


def _seccomp(mode: int | None, filters: int | None) -> str | None:
    if mode is None:
        return None
    name = _SECCOMP.get(mode, str(mode))
    return f"{filters} {name}" if mode == 2 and filters is not None else name


def _switch(value: bool | None) -> str | None:
    return {True: "on", False: "off", None: None}[value]


def _allowed(attempts: Mapping[str, str] | None) -> list[str] | None:
    if attempts is None:
        return None
    return [word for name, word in ATTEMPTS.items() if attempts.get(name) == ALLOWED]


def _listed(words: Sequence[str] | None) -> str | None:
    return None if words is None else ", ".join(dict.fromkeys(words)) or "none"
