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
# Each back end of the generator into the sink that loads, each sink from the plainest generator; works: frames were
# counted, and captured where they are to be. All at once, each on links of its own: a sink counts for a fixed time,
# which is long because an emulator is slow.
_WIRE = r"""
import json, os, subprocess, sys
agent, pcap = sys.argv[1], "/tmp/captured.pcap"
CASES = {name: (name, "auto", []) for name in ("live-frames", "af-xdp", "af-packet")}
CASES |= {f"sink {name}": ("af-packet", name, []) for name in ("xdp", "tpacket")}
CASES["sink xdp with a capture"] = ("af-packet", "xdp", ["--pcap", pcap])
def started(*words):
    return subprocess.Popen([agent, "wire", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
def last(text):
    return (text.strip().splitlines() or ["it said nothing"])[-1]
def linked(number):
    ends = [(f"g{number}", f"02:00:00:00:01:0{number}"), (f"s{number}", f"02:00:00:00:02:0{number}")]
    (near, address), (far, other) = ends
    pair = [near, "address", address, "type", "veth", "peer", "name", far, "address", other]
    subprocess.run(["ip", "link", "add", *pair], check=True)
    for name, _ in ends:
        subprocess.run(["ip", "link", "set", name, "up"], check=True)
    return ends
def receiving(link, sink, more):
    return started("receive", "--interface", link[1][0], "--sink", sink, "--duration", "40", "--json", *more)
def sending(link, generator):
    to = ["--destination-mac", link[1][1], "--source", "10.0.0.1", "--destination", "10.0.0.2"]
    rate = ["--rate-frames", "100", "--duration", "0.5", "--backend", generator]
    return started("send", "--interface", link[0][0], *to, *rate)
def why_not(receiver, sender, captures):
    out, error = receiver.communicate()
    if sender is None or receiver.returncode:
        return last(error)
    said = sender.communicate()[1]
    if sender.returncode:
        return last(said)
    if not json.loads(out)["source"]["forwarded_frames"]:
        return "no frame was counted"
    return "nothing was captured" if captures and os.path.getsize(pcap) <= 24 else None
links = [linked(number) for number in range(len(CASES))]
receivers = [receiving(link, sink, more) for link, (_, sink, more) in zip(links, CASES.values())]
opened = [bool(one.stdout.readline()) for one in receivers]  # each says when it counts
plans = zip(links, CASES.values(), opened)
senders = [sending(link, generator) if counts else None for link, (generator, _, _), counts in plans]
ended = zip(CASES.items(), receivers, senders)
print(json.dumps({name: why_not(one, sender, more) for (name, (_, _, more)), one, sender in ended}))
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
    groups = glob.glob("/sys/fs/cgroup/virtoll-*/*runc-small*")
    for group in groups:
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
    time.sleep(0.02 if groups else 0.5)
"""
AS_USER = (
    "echo $$ >/sys/fs/cgroup/user.slice/mine/shell/cgroup.procs; cd /home/someone; "
    "exec setpriv --reuid 1000 --regid 1000 --clear-groups env HOME=/home/someone USER=someone {command}"
)


SCRIPTS = {"state": STATE, "systemd": LIKE_SYSTEMD, "delegate": DELEGATE}
PROGRAMS = {"told": _TOLD, "wire": _WIRE, "starve": _STARVE}
