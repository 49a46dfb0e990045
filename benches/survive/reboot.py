"""``reboot -f`` within a run, in an emulated machine that has Virtoll in it and keeps its disk.

The machine sees this host's files read-only (9p), with a layer in its own memory over them. Its disk (ext4) holds the
experiment and the run folder. It reboots by ``reboot -f``, without a sync, when some trials were told as finished. On
its second boot it copies what is on the disk, and takes the run up again. Main function: ``main``.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support import experiments

from virtoll.image import initramfs
from virtoll.image.cache import default_cache
from virtoll.image.debian import fetch_closure
from virtoll.image.kernel import prepare_kernel, unpack_kernel
from virtoll.image.kernel_source import kernel_package
from virtoll.image.modules import ModuleTree
from virtoll.runfolder.store import RunFolder

REPOSITORY = Path(__file__).resolve().parents[2]
_MODULES = (
    "virtio_pci",
    "virtio_blk",
    "crc32c_generic",
    "ext4",
    "9p",
    "9pnet_virtio",
    "overlay",
    "veth",
    "bridge",
    "tun",
    "ipv6",
)
_DISK_BYTES = 2**29
_BOOT_SECONDS = 3600.0
_INIT = r"""#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev
while read module; do insmod /modules/$module || echo "insmod $module failed"; done </modules/order
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=262144 host /lower || reboot -f
mount -t tmpfs memory /rw; mkdir /rw/upper /rw/work
mount -t overlay -o lowerdir=/lower,upperdir=/rw/upper,workdir=/rw/work overlay /new
mount -t proc proc /new/proc; mount -t sysfs sysfs /new/sys; mount -t devtmpfs dev /new/dev
mkdir -p /new/dev/pts /new/dev/shm; mount -t devpts devpts /new/dev/pts; mount -t tmpfs shm /new/dev/shm
mount -t tmpfs run /new/run; mount -t tmpfs tmp /new/tmp; mount -t tmpfs tmp /new/var/tmp
mount -t cgroup2 cgroup2 /new/sys/fs/cgroup
mount -t ext4 /dev/vda /new/mnt || reboot -f
ip link set lo up
virtoll() { chroot /new /bin/sh -c "cd @REPOSITORY@ && PYTHONPATH=src COLUMNS=200 HOME=/root @PYTHON@ -m virtoll $1"; }
if [ -e /new/mnt/begun ]; then
  cp -a /new/mnt/run /new/mnt/before; sync
  virtoll 'resume /mnt/run'; echo "resume ended with $?"
  umount /new/mnt; sync
else
  touch /new/mnt/begun; sync
  virtoll 'run /mnt/example.yaml --into /mnt/run' &
  until [ "$(cat /new/mnt/run/trials.jsonl 2>/dev/null | wc -l)" -ge @TRIALS@ ]; do
    kill -0 $! 2>/dev/null || { echo 'the run ended before'; break; }
    usleep 20000
  done
  usleep @DELAY@
  echo 'now: reboot -f'
fi
reboot -f
"""


def boot(folder: Path, kernel: Path) -> str:
    """Boot the machine until it reboots, which ends the emulator; what it said."""
    command = ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "3072"]
    command += ["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio", "-nic", "none"]
    command += [
        "-kernel",
        str(kernel),
        "-initrd",
        str(folder / "initrd"),
        "-append",
        "console=ttyS0 quiet panic=-1 no_timer_check",
    ]
    command += ["-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap"]
    command += ["-drive", f"if=virtio,format=raw,cache=writeback,file={folder / 'disk'}"]
    finished = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_BOOT_SECONDS, check=False
    )
    said = finished.stdout.decode(errors="replace").replace("\r", "")
    return said + finished.stderr.decode(errors="replace")


def make_machine(folder: Path, trials: int, delay_microseconds: int) -> Path:
    """Its first file system and its disk, in ``folder``; gives its kernel."""
    cache = default_cache()
    kernel = prepare_kernel(cache, offline=False, progress=print)
    unpack_kernel(kernel_package(cache, offline=False, progress=print), folder / "kernel")
    found = ModuleTree(folder / "kernel", kernel.release).in_order(_MODULES)
    (folder / "debs").mkdir()
    fetch_closure(folder / "debs", ("busybox-static",), print)
    for package in (folder / "debs").glob("*.deb"):
        subprocess.run(["dpkg-deb", "--extract", package, folder / "tree"], check=True)
    busybox = next(path for path in (folder / "tree").rglob("busybox") if path.is_file() and path.parent.name == "bin")
    words = {"REPOSITORY": str(REPOSITORY), "PYTHON": sys.executable, "TRIALS": trials, "DELAY": delay_microseconds}
    script = _INIT
    for word, value in words.items():
        script = script.replace(f"@{word}@", str(value))
    (folder / "initrd").write_bytes(
        initramfs.write_archive(
            [
                *(initramfs.folder(name) for name in ("bin", "dev", "proc", "sys", "lower", "rw", "new", "modules")),
                initramfs.character_device("dev/console", 5, 1),
                initramfs.program("bin/busybox", busybox.read_bytes()),
                initramfs.program("init", script.encode()),
                *(initramfs.plain_file(f"modules/{name}", content) for name, content in found.items()),
                initramfs.plain_file("modules/order", "".join(f"{name}\n" for name in found).encode()),
            ]
        )
    )
    given = folder / "given"
    given.mkdir()
    experiments.write(
        given, platforms=["native", "netns"], blocks=6, workloads=[{"workload": "superpi", "digits": 10_000}]
    )
    with (folder / "disk").open("wb") as disk:
        disk.truncate(_DISK_BYTES)
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", given, folder / "disk"], check=True)
    return kernel.vmlinuz


def faults(before: Path, after: Path, told: int) -> list[str]:
    """What of a run was lost, is there twice, or was not brought to its end; ``told``: trials told as finished."""
    first, last = (path / "trials.jsonl" for path in (before, after))
    if not first.exists() or not last.exists():
        return ["the run had not begun when the machine rebooted, or its folder is lost"]
    whole = first.read_bytes()
    whole = whole[: whole.rfind(b"\n") + 1]
    folder = RunFolder.open(after)
    numbers = sorted(trial.trial for trial in folder.trials())
    found = []
    if whole.count(b"\n") < told:
        found.append(f"{told} trials were told as finished, and {whole.count(chr(10).encode())} were on the disk")
    if not last.read_bytes().startswith(whole):
        found.append("trials.jsonl does not begin as it was")
    if numbers != list(range(len(folder.manifest.plan.trials))):
        found.append(f"not each trial is there once: {numbers}")
    if folder.state().state != "complete":
        found.append(f"the state is {folder.state()}")
    return found


def main(arguments: list[str]) -> int:
    """Boot a machine twice; 1 where a trial was lost, is there twice or the run did not come to its end."""
    parser = argparse.ArgumentParser(prog="survive reboot", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(1, 10**6))
    parser.add_argument("--count", type=int, default=1, help="how many machines, one after the other")
    given = parser.parse_args(arguments)
    drawn = random.Random(given.seed)
    print(f"seed {given.seed}", flush=True)
    rows, wrong = [], False
    for number in range(1, given.count + 1):
        folder = Path(tempfile.mkdtemp(prefix="virtoll-reboot-", dir="/var/tmp"))
        try:
            kernel = make_machine(folder, drawn.randrange(2, 10), drawn.randrange(10**6))
            first = boot(folder, kernel)
            second = boot(folder, kernel)
            print(f"{first}\n--- the second boot\n{second}", flush=True)
            subprocess.run(["debugfs", "-R", f"rdump / {folder / 'given'}", folder / "disk"], check=True)
            told = len(re.findall(r"^\d+/\d+ block", first, re.MULTILINE))
            found = faults(folder / "given" / "before", folder / "given" / "run", told)
            rows.append(f"| {number} | {told} | {'; '.join(found) or 'none'} |")
            wrong |= bool(found)
        finally:
            shutil.rmtree(folder)
    print("| machine | trials told as finished before | faults after `resume` |\n| ---: | ---: | --- |")
    print("\n".join(rows), flush=True)
    return int(wrong)
