"""Runs on NFS 4.2, the part in the emulated machine: the kernel's own server and two clients, on one run's folder.

The machine's kernel is server and clients. Each client has a network namespace, an address and a host name of its own,
so the server knows two clients. The server is set up by its files in /proc, as nfsd(7) and rpc.mountd do. Mounts are
hard: a client waits until the server is there again. Main function: ``main``; rows: `CASES`.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Final

from benches.survive.forked import Ended, ended, started, virtoll, warm
from benches.survive.storage_runs import PART, TRIALS, Bench, Tally, judge, whole_once

LEASE_SECONDS: Final = 10
_SERVED: Final = Path("/srv/nfs")
_HOSTS: Final = {"one": 1, "two": 2}
_FOREVER: Final = 2**31 - 1
# Exported by its number 0, without checks of subtrees and of ports, written through, root as root: linux/nfsd/export.h.
_FLAGS: Final = 0x2000 | 0x400 | 0x2
# The kernel forgets both when its last server thread ends; rpc.mountd would be asked again.
EXPORTS: Final = rf"""
set -e
cd /proc/net/rpc
for one in {" ".join(map(str, _HOSTS.values()))}; do
  echo "nfsd 10.9.$one.2 {_FOREVER} clients" >auth.unix.ip/channel
done
echo "clients {_SERVED} {_FOREVER} {_FLAGS} 65534 65534 0" >nfsd.export/channel
echo "clients 1 \\x00000000 {_FOREVER} {_SERVED}" >nfsd.fh/channel
"""
SERVER: Final = rf"""
set -e
modprobe nfsd; modprobe nfsv4; mkdir -p {_SERVED} /var/lib/nfs/v4recovery
mount -t nfsd nfsd /proc/fs/nfsd
echo {LEASE_SECONDS} >/proc/fs/nfsd/nfsv4leasetime; echo {LEASE_SECONDS} >/proc/fs/nfsd/nfsv4gracetime
for one in -2 -3 +4 -4.0 +4.1 +4.2; do echo $one >/proc/fs/nfsd/versions || true; done
for one in {" ".join(map(str, _HOSTS.values()))}; do
  ip link add to$one type veth peer name eth0
  ip address add 10.9.$one.1/24 dev to$one; ip link set to$one up
  ip netns add client$one; ip link set eth0 netns client$one
  ip -n client$one address add 10.9.$one.2/24 dev eth0; ip -n client$one link set eth0 up
done
{EXPORTS}
echo "tcp 2049" >/proc/fs/nfsd/portlist
echo 4 >/proc/fs/nfsd/threads
"""
MOUNT: Final = """
set -e
mkdir -p /mnt/{name}
nsenter --net=/run/netns/client{number} unshare --uts sh -c 'hostname {name}; \
mount -i -t nfs4 10.9.{number}.1:/ /mnt/{name} -o vers=4.2,hard,addr=10.9.{number}.1,clientaddr=10.9.{number}.2'
"""
_TOLD: Final = re.compile(rb"^\d+/\d+ block ", re.MULTILINE)
_REFUSED: Final = "a process writes this run now"
_Process = tuple[int, int, int]


def mounted() -> None:
    """Server, two clients, and their mounts."""
    subprocess.run(["bash", "-c", SERVER], check=True)
    for name, number in _HOSTS.items():
        subprocess.run(["bash", "-c", MOUNT.format(name=name, number=number)], check=True)


def _host(name: str) -> Path:
    return Path("/mnt") / name


def _block(bench: Bench, name: str) -> _Process:
    words = ("campaign", "block", bench.experiment, "--block", "1-2", "--into", _host(name) / "c")
    return started(*words, changed=bench.variables)


def _emptied() -> None:
    subprocess.run(["find", str(_SERVED), "-mindepth", "1", "-delete"], check=True)


def _until_told(process: _Process, trials: int) -> bool:
    """Whether so many trials were told before it ended."""
    child, out, _ = process
    while True:
        if len(_TOLD.findall(os.pread(out, os.fstat(out).st_size, 0))) >= trials:
            return True
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None:
            return False
        time.sleep(0.002)


def whole(bench: Bench, chance: random.Random, tally: Tally) -> None:
    """A campaign on NFS, then what reads it on the other client."""
    del chance
    done = ended(_block(bench, "one"))
    tally.told("run", done)
    judge(bench, _host("two") / "c", [done], tally)
    at = _host("two")
    for words in (
        ("verify", at / "c" / PART),
        ("report", at / "c" / PART),
        ("pack", at / "c" / PART, "--output", at / "run.zst"),
        ("unpack", at / "run.zst", "--into", at / "again"),
        ("campaign", "merge", at / "c", "--into", at / "merged"),
    ):
        one = virtoll(*words, changed=bench.variables)
        tally.told(str(words[0]), one)
        if one.code:
            tally.wrong.append(f"{words[0]} ended with {one.code}: {one.err}")
    for made in ("again", "merged"):
        whole_once(_host("one") / made, tally)


def killed(bench: Bench, chance: random.Random, tally: Tally) -> None:
    """SIGKILL at a drawn moment; it goes on at once by the other client."""
    process = _block(bench, "one")
    tally.hit += _until_told(process, chance.randrange(TRIALS))
    time.sleep(chance.random() * 0.2)
    os.kill(process[0], signal.SIGKILL)
    judge(bench, _host("two") / "c", [ended(process)], tally)


def two_clients(bench: Bench, chance: random.Random, tally: Tally) -> None:
    """Two writers together on a run that was left in its middle: one is refused, no trial is measured twice."""
    process = _block(bench, "one")
    _until_told(process, chance.randrange(1, TRIALS - 2))
    os.kill(process[0], signal.SIGKILL)
    before = ended(process)
    ways = [_block(bench, name) for name in chance.sample(list(_HOSTS), 2)]
    ends = [ended(one) for one in ways]
    tally.hit += sum(_REFUSED in one.err for one in ends)
    for one in ends:
        tally.told("block", one)
    _once(tally)
    judge(bench, _host("one") / "c", [before, *ends], tally)


def _once(tally: Tally) -> None:
    numbers = [json.loads(line)["trial"] for line in (_SERVED / "c" / PART / "trials.jsonl").read_bytes().splitlines()]
    if len(numbers) != len(set(numbers)):
        tally.wrong.append(f"trials were measured twice: {numbers}")


def _server(threads: int) -> None:
    Path("/proc/fs/nfsd/threads").write_text(f"{threads}\n", encoding="ascii")


def restarted(bench: Bench, chance: random.Random, tally: Tally) -> None:
    """The server is stopped and started again within a run: it goes on by itself, and holds its lock still."""
    process = _block(bench, "one")
    tally.hit += _until_told(process, chance.randrange(1, TRIALS - 2))
    _server(0)
    time.sleep(chance.random() * 2)
    subprocess.run(["bash", "-c", EXPORTS], check=True)
    Path("/proc/fs/nfsd/portlist").write_text("tcp 2049\n", encoding="ascii")
    _server(4)
    second = ended(_block(bench, "two"))
    tally.told("the second", second)
    first = ended(process)
    tally.told("the first", first)
    if first.code:
        tally.wrong.append(f"it did not go on by itself: {first.code} {first.err}")
    _once(tally)
    judge(bench, _host("two") / "c", [first], tally)


def cut_off(bench: Bench, chance: random.Random, tally: Tally) -> None:
    """A client loses its network for longer than its lease; the other takes over; then the first is there again."""
    process = _block(bench, "one")
    _until_told(process, chance.randrange(1, TRIALS - 4))
    subprocess.run(["ip", "link", "set", f"to{_HOSTS['one']}", "down"], check=True)
    second = _over(bench, "two", tally)
    subprocess.run(["ip", "link", "set", f"to{_HOSTS['one']}", "up"], check=True)
    first = ended(process)
    tally.hit += first.code != 0
    tally.told("the first", first)
    _once(tally)
    judge(bench, _host("two") / "c", [first, second], tally)


def _over(bench: Bench, name: str, tally: Tally) -> Ended:
    """A writer that is refused as long as the lease of the other lasts; then its end."""
    for _ in range(60):
        one = ended(_block(bench, name))
        if _REFUSED not in one.err:
            tally.told("the second", one)
            return one
        time.sleep(LEASE_SECONDS / 5)
    tally.wrong.append("nobody took over")
    return one


CASES: Final[dict[str, Callable[[Bench, random.Random, Tally], None]]] = {
    "a whole campaign, then verify, report, pack, unpack, merge on the other client": whole,
    "`kill -9`, and the run goes on by the other client": killed,
    "two clients on one run": two_clients,
    "the server stopped and started within a run": restarted,
    "a client without network for longer than its lease": cut_off,
}
_TIMES: Final[dict[Callable[[Bench, random.Random, Tally], None], float]] = {whole: 0.2, restarted: 0.5, cut_off: 0.3}


def main(arguments: list[str]) -> int:
    """In the machine: SEED and COUNT; tallies as JSON lines."""
    seed, count = int(arguments[0]), int(arguments[1])
    place = Path("/run/nfs")
    place.mkdir(exist_ok=True)
    bench = Bench(place).made()
    warm()
    mounted()
    for name, case in CASES.items():
        if len(arguments) > 2 and case.__name__ not in arguments[2:]:
            continue
        chance, tally = random.Random(seed), Tally(name)
        for _ in range(max(1, round(count * _TIMES.get(case, 1)))):
            _emptied()
            tally.cases += 1
            case(bench, chance, tally)
        print(json.dumps({**asdict(tally), "sentences": dict(tally.sentences)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
