"""The host's block and its fitness samples, against trees of known content and against this host."""

from __future__ import annotations

import gzip
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from virtoll.host.fingerprint import describe_host
from virtoll.host.fitness import FitnessSampler
from virtoll.lab.disks import DISKS
from virtoll.runfolder.records import FitnessRecord, Pressure
from virtoll.runfolder.store import parse_record

TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")

FILES = {
    "proc/stat": "cpu  100 20 30 4000 500 6 7 8 9 1\ncpu0 1 2 3 4 5 6 7 8 9 1\n",
    "proc/loadavg": "0.52 0.58 0.59 1/102 4242\n",
    "proc/vmstat": "nr_free_pages 12\npswpin 23\npswpout 29\n",
    "proc/meminfo": "MemTotal:        2048 kB\nMemFree: 1 kB\nMemAvailable:    1024 kB\n",
    "proc/cpuinfo": "processor\t: 0\nmodel name\t: Test CPU 3000\nflags\t\t: fpu hypervisor sse\n",
    "proc/pressure/cpu": "some avg10=0.00 avg60=0.00 avg300=0.00 total=101\nfull avg10=0.00 total=7\n",
    "proc/pressure/memory": "some avg10=0.00 avg60=0.00 avg300=0.00 total=103\n",
    "proc/pressure/io": "some avg10=0.00 avg60=0.00 avg300=0.00 total=107\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "2400000\n",
    "sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq": "1200000\n",
    "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count": "3\n",
    "sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count": "4\n",
    "sys/devices/system/cpu/vulnerabilities/meltdown": "Mitigation: PTI\n",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
    "sys/devices/system/clocksource/clocksource0/available_clocksource": "tsc kvm-clock\n",
    "sys/block/vda/queue/scheduler": "none [mq-deadline] kyber bfq\n",
    "sys/block/nvme0n1/queue/scheduler": "[none] mq-deadline\n",
    "sys/block/dm-0/queue/scheduler": "none\n",
    "sys/block/loop0/queue/scheduler": "[none] mq-deadline\n",
    f"boot/config-{os.uname().release}": "# CONFIG_HZ_100 is not set\nCONFIG_HZ_250=y\nCONFIG_HZ=250\n",
    "sys/class/thermal/thermal_zone0/temp": "45500\n",
    "sys/class/thermal/thermal_zone1/temp": "-2000\n",
    "etc/os-release": 'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n',
    "etc/machine-id": "0123456789abcdef\n",
    "var/lib/dpkg/status": (
        "Package: runc\nStatus: install ok installed\nPriority: optional\nVersion: 1.1.5\n\n"
        "Package: crun\nStatus: deinstall ok config-files\nVersion: 1.8\n\n"
        "Package: nano\nStatus: install ok installed\nVersion: 7\n"
    ),
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A host of known content."""
    for name, text in FILES.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return tmp_path


def sample(root: Path) -> FitnessRecord:
    """One sample of a tree."""
    with FitnessSampler(root) as sampler:
        return sampler.sample(None)


def test_a_sample_has_each_number_from_its_file(tree: Path) -> None:
    record = sample(tree)
    assert record.busy_ns == (100 + 20 + 30 + 6 + 7) * TICK_NS
    assert record.idle_ns == (4000 + 500) * TICK_NS
    assert record.steal_ns == 8 * TICK_NS
    assert record.load_1m == 0.52
    assert record.pressure == Pressure(101, 103, 107)
    assert (record.swap_in_pages, record.swap_out_pages) == (23, 29)
    assert record.frequency_khz == (2_400_000, 1_200_000)
    assert record.temperature_millicelsius == (45_500, -2_000)
    assert record.throttle_count == 7
    assert record.memory_available_bytes == 1024 * 1024
    assert record.kernel_messages == ()


def test_what_the_host_does_not_offer_is_null(tmp_path: Path) -> None:
    known = {key for key, value in sample(tmp_path).to_json().items() if value is not None}
    assert known == {"monotonic_ns", "realtime_ns", "kernel_messages"}


def test_a_kernel_that_lacks_one_pressure_file_keeps_the_others(tree: Path) -> None:
    (tree / "proc/pressure/io").unlink()
    assert sample(tree).pressure == Pressure(101, 103, None)


def test_a_sensor_that_cannot_be_read_is_left_out(tree: Path) -> None:
    (tree / "sys/class/thermal/thermal_zone0/temp").write_text("", encoding="utf-8")
    assert sample(tree).temperature_millicelsius == (-2000,)


def test_a_sample_is_read_from_the_run_folder_as_it_was_taken(tree: Path) -> None:
    record = sample(tree)
    assert parse_record(FitnessRecord, record.to_json()) == record


def test_kernel_messages_are_the_new_ones_only(tree: Path) -> None:
    (tree / "dev").mkdir()
    log = tree / "dev/kmsg"
    log.write_text("6,1,0,-;an old message\n", encoding="utf-8")
    with FitnessSampler(tree) as sampler:
        assert sampler.sample(None).kernel_messages == ()
        with log.open("a", encoding="utf-8") as file:
            file.write("4,2,5,-;a new message; with a semicolon\n SUBSYSTEM=pci\n")
        assert sampler.sample(1).kernel_messages == ("a new message; with a semicolon",)
        assert sampler.sample(2).kernel_messages == ()


def test_the_real_kernel_log_gives_a_new_message() -> None:
    try:
        log = Path("/dev/kmsg").open("w", encoding="utf-8")  # noqa: SIM115
    except OSError:
        pytest.skip("/dev/kmsg may not be written here")
    with FitnessSampler() as sampler, log:
        wanted, seen = f"virtoll: test {os.urandom(8).hex()}", list[str]()
        log.write(f"{wanted}\n")
        log.flush()
        while new := sampler.sample(None).kernel_messages:
            seen += new  # others' messages, of which a sample takes so many and no more
            if wanted in new:
                break
        assert wanted in seen


def test_a_closed_sampler_still_samples(tree: Path) -> None:
    sampler = FitnessSampler(tree)
    sampler.close()
    sampler.close()
    assert sampler.sample(5).after_trial == 5


class Watch:
    """What this process asks of the kernel while it is on: each file that is opened, and whatever else is reported."""

    def __init__(self) -> None:
        self.on = False
        self.opened: list[str] = []
        self.other: list[str] = []

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """As the interpreter calls it (PEP 578)."""
        if self.on and event == "open":
            self.opened.append(str(arguments[0]))
        elif self.on and event.partition(".")[0] in ("os", "glob", "pathlib", "shutil", "socket", "subprocess", "time"):
            self.other.append(event)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """On for the block."""
        self.opened, self.other = [], []
        self.on = True
        try:
            yield
        finally:
            self.on = False


@pytest.fixture(scope="module")
def watch() -> Watch:
    """A hook cannot be taken back, so that there is one."""
    made = Watch()
    sys.addaudithook(made.hear)
    return made


def test_a_sample_opens_each_small_file_once_and_does_nothing_else(tree: Path, watch: Watch) -> None:
    """So it is quick on any host: no folder is searched and no program started. `benches/host_sample.py` times it."""
    once = [name for name in FILES if name.startswith("proc/") and name != "proc/cpuinfo"]
    once += [name for name in FILES if name.endswith(("scaling_cur_freq", "core_throttle_count", "/temp"))]
    with FitnessSampler(tree) as sampler:
        with watch.watching():
            sampler.sample(None)
        assert sorted(watch.opened) == sorted(str(tree / name) for name in once)
        assert watch.other == []


def test_this_host_can_be_sampled(watch: Watch) -> None:
    with FitnessSampler() as sampler:
        with watch.watching():
            record = sampler.sample(1)
        assert len(watch.opened) == len(set(watch.opened))
        assert watch.other == []
    assert record.busy_ns
    assert record.memory_available_bytes
    assert parse_record(FitnessRecord, record.to_json()) == record


def test_the_block_names_what_the_files_say(tree: Path) -> None:
    expected = {
        "cpu_model": "Test CPU 3000",
        "memory_bytes": 2048 * 1024,
        "hypervisor": "kvm",
        "clock_source": "tsc",
        "timer_hz": 250,
        "io_schedulers": {"nvme0n1": "none", "vda": "mq-deadline"},
        "data_disk": None,
        "os": "Debian GNU/Linux 12 (bookworm)",
        "mitigations": {"meltdown": "Mitigation: PTI"},
        "packages": {"runc": "1.1.5"},
    }
    block: dict[str, Any] = {**describe_host(("lxc", "runc"), root=tree)}
    assert {key: block[key] for key in expected} == expected


def test_the_kernels_own_configuration_goes_before_the_distributions(tree: Path) -> None:
    (tree / "proc/config.gz").write_bytes(gzip.compress(b"CONFIG_HZ=1000\n"))
    assert describe_host(root=tree)["timer_hz"] == 1000
    (tree / "proc/config.gz").write_bytes(b"no gzip")
    assert describe_host(root=tree)["timer_hz"] == 250


def test_the_disk_of_data_directories_is_named_by_its_device(tree: Path) -> None:
    on = DISKS.stat().st_dev
    number = tree / f"sys/dev/block/{os.major(on)}:{os.minor(on)}"
    number.parent.mkdir(parents=True)
    (tree / "sys/devices/virtual/block/dm-0").mkdir(parents=True)
    number.symlink_to(tree / "sys/devices/virtual/block/dm-0")
    assert describe_host(root=tree)["data_disk"] == "dm-0"


def test_bare_metal_has_no_hypervisor(tree: Path) -> None:
    (tree / "proc/cpuinfo").write_text("model name\t: Test CPU 3000\nflags\t\t: fpu sse\n", encoding="utf-8")
    assert describe_host(root=tree)["hypervisor"] is None


ARM = (
    "processor\t: {0}\nBogoMIPS\t: 108.00\nFeatures\t: fp asimd atomics\nCPU implementer\t: {1}\n"
    "CPU architecture: 8\nCPU variant\t: {2}\nCPU part\t: {3}\nCPU revision\t: {4}\n\n"
)
N1 = "".join(ARM.format(cpu, "0x41", "0x3", "0xd0c", 1) for cpu in range(2))


@pytest.mark.parametrize(
    ("cpus", "model"),
    [
        (N1, "Arm Neoverse-N1 r3p1"),
        (
            ARM.format(0, "0x41", "0x2", "0xd05", 0) + ARM.format(1, "0x41", "0x4", "0xd0b", 0),
            "Arm Cortex-A55 r2p0 and Arm Cortex-A76 r4p0",
        ),
        (ARM.format(0, "0xc0", "0x0", "0xac4", 0), "Ampere Ampere-1a r0p0"),
        (ARM.format(0, "0x00", "0x0", "0x051", 0), "implementer 0x0 part 0x51 r0p0"),
        (ARM.format(0, "odd", "0x0", "0x051", 0), None),
        ("", None),
    ],
)
def test_arm_processors_are_named_by_their_numbers(tree: Path, cpus: str, model: str | None) -> None:
    (tree / "proc/cpuinfo").write_text(cpus, encoding="utf-8")
    assert describe_host(root=tree)["cpu_model"] == model


SAYS_VIRTUAL = bytes([0, 26, *[0] * 17, 1 << 4])
SAYS_NOTHING = bytes([0, 26, *[0] * 18])
VENDOR, PRODUCT = "sys/class/dmi/id/sys_vendor", "sys/class/dmi/id/product_name"
BIOS = "sys/firmware/dmi/entries/0-0/raw"
TREE, HYPERVISOR = "proc/device-tree/compatible", "proc/device-tree/hypervisor/compatible"


@pytest.mark.parametrize(
    ("files", "below"),
    [
        ({}, None),
        ({VENDOR: b"HPE\n", PRODUCT: b"ProLiant RL300\n"}, None),
        ({TREE: b"raspberrypi,5-model-b\0brcm,bcm2712\0"}, None),
        ({TREE: b"linux,dummy-virt\0"}, "QEMU"),
        ({HYPERVISOR: b"xen,xen-4.17\0xen,xen\0"}, "xen"),
        ({HYPERVISOR: b"linux,kvm\0"}, "kvm"),
        ({VENDOR: b"QEMU\n"}, "QEMU"),
        ({PRODUCT: b"Google Compute Engine\n"}, "Google Compute Engine"),
        ({VENDOR: b"Amazon EC2\n", PRODUCT: b"m6g.large\n"}, "Amazon EC2"),
        ({VENDOR: b"Amazon EC2\n", PRODUCT: b"c6g.metal\n"}, None),
        ({VENDOR: b"ACME\n", BIOS: SAYS_VIRTUAL}, "ACME"),
        ({VENDOR: b"ACME\n", BIOS: SAYS_NOTHING}, None),
        ({BIOS: SAYS_VIRTUAL}, "unknown"),
    ],
)
def test_a_virtual_machine_of_arm_is_told_by_its_firmware(
    tree: Path, files: dict[str, bytes], below: str | None
) -> None:
    (tree / "proc/cpuinfo").write_text(N1, encoding="utf-8")
    for name, content in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(content)
    assert describe_host(root=tree)["hypervisor"] == below


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("etc/machine-id", "fedcba\n"),
        ("proc/cpuinfo", "model name : Other CPU\nflags : hypervisor\n"),
        ("sys/devices/system/cpu/vulnerabilities/meltdown", "Vulnerable\n"),
    ],
)
def test_the_fingerprint_changes_with_host_processor_and_mitigations(tree: Path, name: str, text: str) -> None:
    before = describe_host(root=tree)["fingerprint"]
    assert describe_host(root=tree)["fingerprint"] == before
    (tree / name).write_text(text, encoding="utf-8")
    assert describe_host(root=tree)["fingerprint"] != before


def test_the_fingerprint_does_not_change_with_packages(tree: Path) -> None:
    before = describe_host(root=tree)["fingerprint"]
    (tree / "var/lib/dpkg/status").unlink()
    assert describe_host(root=tree)["fingerprint"] == before


def test_the_block_of_this_host_is_json_and_hides_its_name() -> None:
    block = json.loads(json.dumps(describe_host()))
    assert os.uname().nodename not in block["hostname_hash"]
    assert len(block["fingerprint"]) == 64
