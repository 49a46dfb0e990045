"""What ``machines.py`` has an emulated machine run: scripts of its shell, and programs of its Python.

``SCRIPTS`` and ``PROGRAMS`` by name; ``AS_USER`` is a command of an ordinary user's, to be filled in. They stand alone:
they need nothing of this clone, and no newer Python than a machine has.
"""

from __future__ import annotations

# CPU time and wall time come from one clock, that of the machine's kernel: an emulator's pace changes both alike.
_TOLD = r"""
import json, sys
from pathlib import Path
def used(reading):
    times = ("cpu_ns", "children_user_ns", "children_system_ns")
    return sum(one[name] or 0 for one in reading["processes"] for name in times)
def cpu(row):
    spans = (row.get("host_cpu") or {}).get("measured") or ()
    wall = sum(span["after"]["monotonic_ns"] - span["before"]["monotonic_ns"] for span in spans)
    return (sum(used(span["after"]) - used(span["before"]) for span in spans) / 1e9, wall / 1e9) if spans else None
rows = [json.loads(line) for line in Path(sys.argv[1], "trials.jsonl").read_text().splitlines()]
kept = ("trial", "platform", "workload", "status", "reason")
print(json.dumps([{**{key: row.get(key) for key in kept}, "cpu": cpu(row)} for row in rows]))
"""
# Each back end of the generator into a sink, each sink from the plainest generator; works: frames were counted.
_WIRE = r"""
import json, os, subprocess, sys
agent, pcap = sys.argv[1], "/tmp/captured.pcap"
def done(process, out, error, frames):
    if process.returncode != 0:
        return (error.strip().splitlines() or ["nothing"])[-1]
    counted = sum(frames(json.loads(line)) for line in out.splitlines() if '"event"' not in line)
    return None if counted else "no frame was counted"
def generator(name):
    asked = ["--sizes", "64", "--rates", "1", "--duration", "0.3", "--backend", name, "--json"]
    process = subprocess.run([agent, "wire", "calibrate", *asked], capture_output=True, text=True)
    return done(process, process.stdout, process.stderr,
                lambda row: sum(one["forwarded_frames"] for one in row["sink"]["per_source"]))
def sink(name, *more):
    asked = ["--interface", "s0", "--sink", name, "--duration", "5", "--json", *more]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([agent, "wire", "receive", *asked], **pipes) as process:
        opened = process.stdout.readline()
        if opened:
            to = ["--destination-mac", "02:00:00:00:00:02", "--source", "10.0.0.1", "--destination", "10.0.0.2"]
            rate = ["--rate-frames", "100", "--duration", "0.5", "--backend", "af-packet"]
            subprocess.run([agent, "wire", "send", "--interface", "g0", *to, *rate], capture_output=True, check=True)
        out, error = process.communicate()
    why = done(process, opened + out, error, lambda row: row["source"]["forwarded_frames"])
    return why or ("nothing was captured" if more and os.path.getsize(pcap) <= 24 else None)
ends = ["address", "02:00:00:00:00:01", "type", "veth", "peer", "name", "s0", "address", "02:00:00:00:00:02"]
subprocess.run(["ip", "link", "add", "g0", *ends], check=True)
for name in ("g0", "s0"):
    subprocess.run(["ip", "link", "set", name, "up"], check=True)
found = {name: generator(name) for name in ("live-frames", "af-xdp", "af-packet")}
found |= {"sink xdp": sink("xdp"), "sink xdp with a capture": sink("xdp", "--pcap", pcap)}
found |= {"sink tpacket": sink("tpacket")}
print(json.dumps(found))
"""
STATE = r"""
cat /sys/fs/cgroup/cgroup.subtree_control; find /sys/fs/cgroup -mindepth 1 -type d | sort
ls -d /run/virtoll /tmp/virtoll* /tmp/*virtoll* /var/tmp/virtoll-* 2>/dev/null; ip -o link | cut -d: -f2
cut -d' ' -f2 /proc/mounts | sort
"""
# As systemd has it on Debian: a service manager's defaults at the root, and the user's own folder below their slice.
LIKE_SYSTEMD = r"""
for one in cpuset io hugetlb rdma misc dmem; do echo -$one >/sys/fs/cgroup/cgroup.subtree_control; done 2>/dev/null
true
"""
DELEGATE = r"""
top=/sys/fs/cgroup/user.slice
mkdir -p $top/mine/shell
for folder in /sys/fs/cgroup $top; do
  for one in cpu cpuset memory pids; do echo +$one >$folder/cgroup.subtree_control; done
done
for folder in $top/mine $top/mine/shell; do
  chown 1000:1000 $folder $folder/cgroup.procs $folder/cgroup.subtree_control $folder/cgroup.threads
done
"""
# The guest's group gets too little memory while its job fills 32 MiB: the kernel kills who is in it. The job takes a
# fraction of a second, so memory.high slows it down (no trial looks at that) until its memory is taken. Tells what was.
_STARVE = r"""
import glob, sys, time
kept, slowed = {}, set()
def told(group):
    with open(f"{group}/memory.events") as file:
        return " ".join(file.read().split())
while True:
    for group in glob.glob("/sys/fs/cgroup/virtoll-*/*runc-small*"):
        try:
            with open(f"{group}/memory.current") as file:
                used = int(file.read())
            if group not in slowed:
                with open(f"{group}/memory.high", "w") as file:
                    file.write("16M")
                slowed.add(group)
            if used > 16_000_000 and group not in kept:
                with open(f"{group}/memory.max", "w") as file:
                    file.write("8M")
                kept[group] = ""
                print("taken at", used, "bytes", flush=True)
            if group in kept and (now := told(group)) != kept[group]:
                kept[group] = now
                print(now, flush=True)
        except OSError:
            pass
    time.sleep(0.005)
"""
AS_USER = (
    "echo $$ >/sys/fs/cgroup/user.slice/mine/shell/cgroup.procs; cd /home/someone; "
    "exec setpriv --reuid 1000 --regid 1000 --clear-groups env HOME=/home/someone USER=someone {command}"
)


SCRIPTS = {"state": STATE, "systemd": LIKE_SYSTEMD, "delegate": DELEGATE}
PROGRAMS = {"told": _TOLD, "wire": _WIRE, "starve": _STARVE}
