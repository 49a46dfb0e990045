"""What a person meant by a name that there is not: a table of other names in use, then what is spelt alike. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

_MOST_LISTED = 12
_NEARLY_THE_SAME, _ALIKE = 0.85, 0.65

# What people call things elsewhere -> what they are called here, in platforms, workloads, keys and values alike.
_OTHER_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    other: tuple(names.split())
    for others, names in (
        # platforms
        ("host bare bare-metal baremetal metal linux", "native"),
        ("namespace namespaces", "netns"),
        ("docker-ce docker.io dockerd moby", "docker"),
        ("container containers containerd", "runc docker podman"),
        ("gvisor", "runsc"),
        ("systemd-nspawn", "nspawn"),
        ("lxd incus", "lxc"),
        ("kvm", "qemu-kvm kvm"),
        ("tcg", "qemu-tcg"),
        ("virsh", "libvirt"),
        ("vbox", "virtualbox"),
        ("vmware vsphere", "esxi"),
        ("user-mode-linux", "uml"),
        # workloads
        ("mysql mariadb postgres postgresql oltp sysbench database db", "mariadb-oltp"),
        ("iperf iperf3", "iperf-udp tcp-stream"),
        ("ping latency", "tcp-request-response"),
        ("http apache wrk", "nginx"),
        ("httperf", "nginx-httperf"),
        ("disk io", "fio"),
        ("pi", "superpi"),
        ("cpu", "superpi sysbench-cpu vcpus threads"),
        ("router routing forwarding pktgen", "forward"),
        ("rfc2544 ndr pdr", "throughput"),
        ("compile build make", "kernel-compile"),
        ("fork", "forkwait"),
        ("syscall syscalls", "kernel-operations"),
        # keys
        ("mem ram memory_mb memory_mib memory_size", "memory"),
        ("cores core processors", "vcpus threads"),
        ("repetitions repeats runs reps iterations", "blocks rounds repetitions"),
        ("description title", "question"),
        ("hypervisors systems targets", "platforms"),
        ("benchmarks tests tasks", "workloads"),
        ("reference", "baseline"),
        ("packet_size packet_size_bytes frame_size frame_sizes size bytes", "frame_size_bytes size_bytes size"),
        ("driver card", "nic"),
        ("cpu_limit", "cpu_max cpu_quota"),
        ("memory_limit mem_limit", "memory_max"),
        # values
        ("virtio", "virtio-net virtio-blk virtio"),
    )
    for other in others.split()
}


def near(written: object, known: Iterable[str]) -> tuple[str, ...]:
    """The names that were probably meant, the likeliest first, at most two; none where nothing is near."""
    names = list(dict.fromkeys(known))
    if not isinstance(written, str) or not written.strip():
        return ()
    word = _plain(written)
    plain = {_plain(name): name for name in names}
    if word in plain:
        return (plain[word],)
    named = [name for name in _OTHER_NAMES.get(written.strip().lower(), ()) if name in names]
    return tuple(named[:2]) or _similar(word, names)


def _similar(word: str, names: Sequence[str]) -> tuple[str, ...]:
    """The names that begin with a word or are written like it."""
    import difflib  # a file that is right needs none of it

    plain = {_plain(name): name for name in names}
    begun = [name for name in names if _plain(name).startswith(word) and len(word) > 2]
    close = [plain[match] for match in difflib.get_close_matches(word, plain, n=1, cutoff=_NEARLY_THE_SAME)]
    if close and (close[0] in begun or not begun):
        return tuple(close)
    if 0 < len(begun) <= 2:
        return tuple(begun)
    alike = difflib.get_close_matches(word, plain, n=1, cutoff=_ALIKE)
    return tuple(plain[match] for match in alike)


def did_you_mean(meant: Sequence[str], word: str = "or") -> str:
    """The question before a sentence goes on, with a space after it; empty where nothing is near."""
    names = f" {word} ".join(map(repr, meant))
    return f"did you mean {names}? " if meant else ""


def choices(written: object, known: Iterable[str], command: str = "") -> str:
    """What may stand there, as a sentence goes on: what was probably meant first, and all that is allowed.

    A long list is left out where something is near; ``command`` prints it then.
    """
    names = list(dict.fromkeys(known))
    meant = near(written, names)
    listed = f"allowed: {', '.join(names)}"
    if not meant:
        return listed
    question = did_you_mean(meant).rstrip()
    if len(names) <= _MOST_LISTED:
        return f"{question} {listed}"
    return f"{question} '{command}' shows all" if command else question


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", "-").replace(" ", "-")
