"""The claims of Camargos, Girard and des Ligneris 2008 on made-up runs whose truth is known.

The values are such as their figures might show on their host: seconds of a job, MB/s of dbench. Of results they print
no more than "less than 30 %" and "half as good".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.claim_tables import Values, Word, cases
from tests.support.made_up_run import Made

from virtoll.experiment.topology import FUNCTIONAL_ONLY
from virtoll.runfolder.scale import ScalePoint
from virtoll.workloads import WORKLOADS

PLATFORMS: Mapping[str, Mapping[str, Any]] = {
    **{name: {} for name in ("native", "vserver", "openvz", "runc", "runsc", "uml", "firecracker", "kqemu")},
    "xen": {"parameters": {"type": "pv"}},
    "hvm": {"platform": "xen", "parameters": {"type": "hvm", "nic": "e1000"}},
    "kvm": {"platform": "qemu-kvm"},
    "kvm_e1000": {"platform": "qemu-kvm", "parameters": {"nic": "e1000"}},
    "cloud": {"platform": "cloud-hypervisor"},
    "libvirt_kvm": {"platform": "libvirt", "parameters": {"domain_type": "kvm"}},
    "virtualbox": {"parameters": {"nic": "82540EM"}},
    "tcg": {"platform": "qemu-tcg"},
    "tcg_rtl8139": {"platform": "qemu-tcg", "parameters": {"nic": "rtl8139"}},
    "nested_xen": {"platform": "xen", "host": "nested xen", "caveat": FUNCTIONAL_ONLY},
    "nested_kvm": {"platform": "qemu-kvm", "host": "nested kvm", "caveat": FUNCTIONAL_ONLY},
    "nested_virtualbox": {"platform": "virtualbox", "host": "nested kvm", "caveat": FUNCTIONAL_ONLY},
}
MIB = 2**20
# What parameters do not say here is as experiment/presets/camargos2008*.yaml have it at size paper.
FETCHED = {"direction": "from-guest", "client": "peer", "files": "disk", "peer_files": "disk"}
BUILD, OLTP = {"size": "paper", "jobs": 1}, {"transactions": 10_000, "rows": 10_000}
MEMORY_MIB = {1: 2039, 2: 1622, 4: 811, 8: 405, 16: 202, 32: 101}  # Table 4


class AtOnce(Word):
    """How many seconds each of so many guests needs for its job: the keys are numbers of guests, as in Table 4."""

    def made(self, label: str, values: Values, options: Mapping[str, Any]) -> list[Made]:
        """With all of the workload's further figures, which no claim is on."""
        further = {one.name: 1.0 for one in WORKLOADS[self.workload].metrics[1:] if one.source == "figures"}
        return super().made(label, values, {"figures": further, **options})


def point(guests: str) -> Mapping[str, ScalePoint]:
    return {"scale": ScalePoint(int(guests), 1, MEMORY_MIB[int(guests)] * MIB)}


WORDS = {
    "build": Word("kernel-compile", BUILD),
    "bzip2": Word("bzip2", {"size_bytes": 433 * MIB, "files": "disk"}),
    "dbench": Word("dbench", {"clients": 100, "seconds": 300}, 1e6),
    "image": Word("dd", {"source": "image", "size_bytes": 433 * MIB}),
    "zeros": Word("dd", {"source": "zeros", "size_bytes": 60_000_030_720}),
    "received": Word("tcp-stream", {"size": 1200 * MIB, "direction": "to-guest"}),
    "tree": Word("rsync-tree", {"tree": "paper", **FETCHED}),
    "file": Word("rsync-file", {"size_bytes": 433 * MIB, **FETCHED}),
    "oltp": Word("mariadb-oltp", OLTP),
    "builds": AtOnce("kernel-compile", BUILD, by=point),
    "oltps": AtOnce("mariadb-oltp", OLTP, by=point),
}

CASES = cases(
    """
C01
yes: build native 1500 vserver 1520 openvz 1700 xen 1650 kvm 2100 virtualbox 7500
    | finds build vserver/native openvz/native kvm/virtualbox
yes gvisor uml and nested are no witnesses: build native 1500 xen 1650 kvm 2100 kqemu 6300 tcg 26000 runsc 4000
    uml 6000 nested_xen 9000 nested_virtualbox 2200 | finds build xen/native kvm/kqemu kvm/tcg
yes products of kvm are no rivals: build native 1500 xen 1650 kvm 2100 kvm_e1000 2100 firecracker 2000 cloud 2000
    libvirt_kvm 2150 tcg 26000
no(no yes) by xen: build native 1500 vserver 1520 xen 3000 kvm 2100 virtualbox 7500 | finds build xen/native
no(yes no) by virtualbox: build native 1500 vserver 1520 kvm 2100 virtualbox 2310 tcg 26000
    | finds build kvm/virtualbox
no(yes no) by kqemu: build native 1500 vserver 1520 kvm 2100 kqemu 2310 | finds build kvm/kqemu
no(no nothing) by a part: build native 1500 openvz 3000 | finds build openvz/native
unsure: build spread=0.05 native 1500 xen 1875 kvm 2100 virtualbox 4200 | finds build xen/native kvm/virtualbox
unsure(yes nothing) without kvm: build native 1500 vserver 1520 virtualbox 7500
nothing: build native 1500 runsc 1600 uml 1700 kvm 1550 nested_xen 3000 nested_virtualbox 9000

C02
yes whatever its exceptions do: bzip2 native 75 vserver 76 xen 80 kvm 82 virtualbox 85 openvz 150 kqemu 200 tcg 1500
    nested_kvm 900 | finds bzip2 vserver/native virtualbox/native
no: bzip2 native 75 vserver 76 virtualbox 125 | finds bzip2 virtualbox/native
unsure: bzip2 spread=0.05 native 76 vserver 77 xen 95 | finds bzip2 xen/native
unsure by one block: bzip2 blocks=1 native 75 xen 76
nothing: bzip2 native 75 openvz 76 kqemu 77 tcg 78

C03
yes whatever virtualbox did: dbench native 250 vserver 245 openvz 60 xen 50 kvm 40 virtualbox 240 nested_xen 240
    | finds dbench vserver/native openvz/native xen/native kvm/native
no(no yes) by vserver: dbench native 250 vserver 125 xen 50 | finds dbench vserver/native
no(yes no) by xen: dbench native 250 vserver 245 openvz 60 xen 200 | finds dbench xen/native
no(nothing no) by a part: dbench native 250 kvm 150 | finds dbench kvm/native
unsure: dbench spread=0.06 native 250 vserver 200 xen 75 | finds dbench vserver/native xen/native
unsure(nothing yes) without vserver: dbench native 250 openvz 60 xen 50
nothing: dbench native 250 virtualbox 40 nested_xen 200
nothing by bzip2: bzip2 native 75 vserver 76 xen 300

C04
yes: image native 11 vserver 8 xen 12.5 kvm 13 openvz 27.5 runc 30 virtualbox 40 nested_kvm 60
    + zeros native 38 vserver 38 xen 60 kvm 42 openvz 55
    | finds "xen/image, 433 MiB=0.7197" image vserver/native xen/native kvm/native openvz/native
no(no yes nothing nothing) by vserver: image native 11 vserver 11 xen 12 | finds image vserver/native
no(yes no yes nothing) by kvm: image native 11 vserver 8 kvm 22 openvz 27.5 | finds image kvm/native
no(yes yes no nothing) by openvz: image native 11 vserver 8 kvm 13 openvz 13.75 | finds image openvz/native
no(nothing yes nothing no) by zeros on xen: image native 11 xen 13.75 + zeros native 38 xen 38
    | finds "xen/image, 433 MiB=1.25"
unsure: image spread=0.06 native 11 vserver 10 xen 15.7 openvz 22 + zeros spread=0.06 native 38 xen 54.2
    | finds xen/native=0.7 "xen/image, 433 MiB=1" image vserver/native openvz/native
unsure(nothing yes nothing nothing) with kvm alone: image native 11 kvm 13
nothing with zeros alone: zeros native 38 vserver 80 kvm 100 xen 60 openvz 40
nothing: image native 11 runc 40 virtualbox 40 nested_xen 40 + zeros native 38 runc 90

C05
yes whatever virtualbox does: received native 10.7 openvz 10.8 xen 11.5 kvm_e1000 45 tcg_rtl8139 60 kvm 20
    virtualbox 11 runsc 40 | finds received kvm_e1000/native openvz/native xen/native
yes by hvm as emulated: received native 10.7 vserver 10.8 hvm 50 nested_kvm 40 nested_xen 40
    | finds received hvm/native
no(no yes) by an emulated nic: received native 10.7 vserver 10.8 kvm_e1000 12 | finds received kvm_e1000/native
no(yes no) by xen: received native 10.7 vserver 10.8 xen 21.4 kvm_e1000 45 | finds received xen/native
unsure: received spread=0.05 native 10.7 kvm_e1000 21.4 openvz 13.375 | finds received kvm_e1000/native openvz/native
unsure(nothing yes) without an emulated nic: received native 10.7 vserver 10.8 kvm 20
nothing: received native 10.7 kvm 20 virtualbox 45 runsc 40 nested_xen 40
nothing from the guest or on a slower link: received direction=from-guest native 10.7 vserver 30 kvm_e1000 11
    + received link_rate_bits_per_second=100000000 native 101 vserver 300 kvm_e1000 102
    + received between=guests native 10.7 vserver 30 kvm_e1000 11

C06
yes: tree native 95 vserver 97 openvz 100 kvm_e1000 240 kvm 120 tcg_rtl8139 100 xen 140
    + file native 42 vserver 43 openvz 44 kvm_e1000 110 virtualbox 44 runsc 150 nested_kvm 44
    | finds file vserver/native kvm_e1000/native
no(yes no yes yes) by openvz with a file: tree native 95 vserver 97 openvz 100 kvm_e1000 240
    + file native 42 vserver 43 openvz 70 kvm_e1000 110 | finds file openvz/native
no(yes yes no yes) by kvm with a tree: tree native 95 vserver 97 kvm_e1000 118.75
    + file native 42 vserver 43 kvm_e1000 110 | finds tree kvm_e1000/native
no(yes nothing no nothing) with a tree alone: tree native 95 vserver 97 kvm_e1000 118.75 | finds tree kvm_e1000/native
unsure: tree spread=0.05 native 95 openvz 118.75 kvm_e1000 190 + file spread=0.05 native 42 openvz 52.5 kvm_e1000 84
    | finds tree openvz/native kvm_e1000/native
unsure(yes nothing yes nothing) with a tree alone: tree native 95 vserver 97 kvm_e1000 240
    | finds tree vserver/native kvm_e1000/native
unsure(nothing yes nothing yes) with a file alone: file native 42 vserver 43 kvm_e1000 110
    + tree direction=to-guest native 95 vserver 200 kvm_e1000 96 | finds file vserver/native kvm_e1000/native
unsure(yes yes nothing nothing) without an emulated nic: tree native 95 vserver 97 kvm 96
    + file native 42 vserver 43 kvm 43
nothing: tree native 95 kvm 96 xen 250 runsc 300 tcg_rtl8139 100
    + file direction=to-guest native 42 vserver 90 kvm_e1000 43

C07
yes: oltp native 40 vserver 42 xen 46 kvm 80 openvz 76 virtualbox 300 kqemu 41 runc 80 nested_xen 90
    | finds oltp vserver/native xen/native kvm/native openvz/native
no(no yes) by xen: oltp native 40 vserver 42 xen 80 kvm 80 | finds oltp xen/native
no(yes no) by a fast kvm: oltp native 40 vserver 42 kvm 56 openvz 80 | finds oltp kvm/native
no(nothing no) by a slow openvz: oltp native 40 openvz 120 | finds oltp openvz/native
unsure: oltp spread=0.05 native 40 vserver 50 kvm 66.7 openvz 100 | finds oltp vserver/native kvm/native openvz/native
unsure(yes nothing) without kvm and openvz: oltp native 40 vserver 42 xen 46
nothing: oltp native 40 runc 80 virtualbox 42 nested_kvm 41 + build native 1500 xen 2000 kvm 1600

C08
yes whatever its exceptions do: oltps native 2:42,4:60,8:75 vserver 1:40,2:47,4:77,8:188,16:640,32:1300
    xen 1:40,2:55,4:85,8:188,16:400,32:900 kvm 4:160,8:200 virtualbox 4:80,8:115,16:115 runsc 4:90,8:100
    nested_xen 4:90,8:100 + oltps server=shared native 4:60,8:70 | finds "vserver/4 guests=77/160" "xen/4 guests=0.85"
no by vserver: oltps native 2:42,4:60 vserver 2:47,4:77,8:100 | finds "vserver/4 guests=1.54"
no by xen with 32: oltps native 4:60,32:300 xen 4:80,32:512 | finds "xen/4 guests=1.25"
unsure: oltps spread=0.05 native 4:60 vserver 2:40,4:77 xen 4:85,8:170
    | finds "vserver/4 guests=0.9625" "xen/4 guests=1"
unsure where it rises as far as it was measured: oltps native 4:60 vserver 1:40,2:47,4:77
    | finds "vserver/4 guests=0.4813"
nothing: oltps native 2:42,4:60,8:75 kvm 4:160,8:200 runsc 4:90,8:300 uml 4:80,8:300
nothing without four: oltps native 2:42 vserver 2:47,8:188
nothing with four alone: oltps native 4:60 vserver 4:77
nothing with one guest: oltp native 40 vserver 42 xen 46

C09
yes whatever its exceptions do: builds native 1:1500,2:1500,4:3000,32:24000 vserver 1:3000,2:1530,4:3000,32:24500
    xen 1:3000,2:1600,4:3200,32:32000 kvm 2:2500,4:5000 runsc 2:4000,4:9000 nested_xen 2:4000,32:24000
    | finds vserver/native=1500/1530 xen/native=1500/1600 "xen/2 guests=0.8"
no(no nothing nothing) by vserver with 32: builds native 2:1500,32:24000 vserver 2:1520,32:40000
    | finds vserver/native=0.6
no(yes no nothing) by xen: builds native 2:1500,4:3000 vserver 2:1520 xen 2:1600,4:5000 | finds xen/native=0.6
no(yes yes no) by xen with 32: builds native 4:3000,8:6000,16:12000,32:24000 vserver 4:3030
    xen 4:3330,8:6900,16:13800,32:24000 | finds "xen/4 guests=1.11" "xen/8 guests=1.15" "xen/16 guests=1.15"
unsure: builds spread=0.1 native 4:3000,32:24000 vserver 4:3333 xen 4:3600,32:28800
    | finds xen/native=3000/3600 "xen/4 guests=1" builds vserver/native
unsure(yes nothing nothing) without xen: builds native 2:1500 vserver 2:1520
nothing: builds native 1:1500,4:3000 vserver 1:3000 xen 1:3000 kvm 4:6000 runsc 4:9000
nothing with one guest: build native 1500 vserver 3000 xen 3000

C10
yes: image native 11 kvm 13 tcg 60 nested_virtualbox 40 + zeros native 38 kvm 42 tcg 700 nested_virtualbox 200
    + image clock_error=-0.12 virtualbox 30 + zeros clock_error=-0.12 virtualbox 90 + image clock_error=0.3 kqemu 40
    + zeros clock_error=0.3 kqemu 200 | finds virtualbox/=0.12 kqemu/=0.3
no: image clock_error=0.08 virtualbox 30 + zeros clock_error=0.08 native 38 virtualbox 90 | finds virtualbox/=0.08
no by one of both: image clock_error=0.3 kqemu 40 + zeros clock_error=0.3 native 38 kqemu 200 + image virtualbox 30
    + zeros virtualbox 90 | finds kqemu/=0.3
unsure where the error varies: image clock_error=0.02 virtualbox 30 + zeros clock_error=0.3 native 38 virtualbox 90
unsure by one length: zeros native 38 + zeros clock_error=0.3 virtualbox 90
unsure by two blocks: image clock_error=0.3 blocks=2 native 11 virtualbox 30
    + zeros clock_error=0.3 blocks=2 native 38 virtualbox 90
nothing: image clock_error=0.3 native 11 kvm 13 tcg 60 nested_virtualbox 40
    + zeros clock_error=0.3 native 38 kvm 42 tcg 700 nested_virtualbox 200

C11
yes: oltps native 4:60,32:300 vserver 32:1300 xen 32:900 + oltps server=shared-database native 4:80,32:600
    | finds native/vserver=1300/300 native/xen=3
no(no yes) by one database: oltps native 32:300 vserver 32:1300 + oltps server=shared-database native 32:310
no(yes no) by vserver: oltps native 32:300 vserver 32:200 + oltps server=shared-database native 32:600
    | finds native/vserver=200/300
unsure(yes unsure): oltps spread=0.05 native 32:300 vserver 32:302 + oltps server=shared-database native 32:600
    | finds native/vserver=302/300
unsure(yes nothing) the host alone: oltps native 32:300 + oltps server=shared-database native 32:600
nothing with four: oltps native 4:60 vserver 4:77 + oltps server=shared-database native 4:80
nothing guests alone: oltps vserver 32:1300 xen 32:900

C12
yes: oltps server=shared-database native 1:20,4:60,8:130,32:560 vserver 4:60,8:200 + oltps native 4:60,8:80,32:300
    | finds "native/4 guests=0.857"
no(no yes) by eight clients: oltps server=shared-database native 4:60,8:105,32:560 | finds "native/4 guests=1.143"
no(yes no) by how fast it falls: oltps server=shared-database native 4:60,8:200,32:900
    | finds "native/4 guests=0.6"
unsure(unsure yes): oltps server=shared-database spread=0.05 native 4:60,8:121,32:485
unsure(unsure yes) without 32 clients: oltps server=shared-database native 4:60,8:130
    | finds "native/4 guests=0.923"
nothing a database each: oltps native 4:60,8:130,32:560
nothing four clients: oltps server=shared-database native 1:20,4:60

C13
yes: oltps virtualbox 1:80,2:100,4:160,8:250,16:250 vserver 1:40,2:90,4:200,8:500,16:2000
    | finds "virtualbox/8 guests=2"
no(no yes) by four: oltps virtualbox 1:80,2:100,4:400,8:440,16:440 | finds "virtualbox/1 guest=0.8"
no(yes no) by sixteen: oltps virtualbox 1:80,2:100,4:160,8:250,16:500 | finds "virtualbox/8 guests=1"
unsure(yes unsure): oltps spread=0.05 virtualbox 1:80,2:100,4:160,8:250,16:276
unsure(unsure yes) without two: oltps virtualbox 1:80,4:160,8:250,16:250
nothing others: oltps native 1:40,8:60,16:100 vserver 1:40,2:47,4:77,8:188,16:400
nothing four alone: oltps virtualbox 4:160

C14
yes: oltps native 4:60 xen 1:50,2:52,4:100,8:200,16:400,32:800 vserver 2:60,4:110,8:300,16:900,32:2000
    kvm 2:70,4:160 | finds xen/vserver=1.1
no(no yes) by vserver: oltps native 4:60 xen 2:52,4:100,8:200,16:400,32:800 vserver 4:80 | finds xen/vserver=0.8
no(yes no) by 32 guests: oltps native 4:60 xen 2:52,4:100,8:200,16:400,32:1600 vserver 4:150
    | finds "xen/4 guests=0.5"
unsure(unsure yes): oltps spread=0.02 xen 2:52,4:100,8:200,16:400,32:800 vserver 4:101
unsure(yes unsure) without 16 and 32: oltps xen 2:52,4:100,8:200 vserver 4:150 | finds xen/vserver=1.5
nothing one guest: oltps xen 1:50 vserver 1:60
nothing others: oltps native 4:60,8:90 vserver 4:80,8:200
""",
    WORDS,
)
