"""The claims of Mattos et al. 2012 on made-up runs whose truth is known, in the paper's units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.claim_tables import Values, Word, cases, changed
from tests.support.made_up_run import Made

from virtoll.experiment.topology import FUNCTIONAL_ONLY

_ROUTED, _FUNCTIONS = {"attachment": "routed"}, ["0000:01:10.0", "0000:01:10.1"]
PLATFORMS: dict[str, dict[str, Any]] = {
    **{label: {} for label in ("native", "native-again", "runc", "openvz", "runsc", "uml", "qemu-tcg", "qemu-kvm")},
    "xen": {"parameters": {"type": "pv"}},
    "xen-routed": {"platform": "xen", "parameters": {"type": "pv", **_ROUTED}},
    "xen-hvm": {"platform": "xen", "parameters": {"type": "hvm"}},
    "xen-hvm-routed": {"platform": "xen", "parameters": {"type": "hvm", **_ROUTED}},
    "xen-sriov": {"platform": "xen", "parameters": {"attachment": "passthrough", "vfio": _FUNCTIONS}},
    "xen-nested": {"platform": "xen", "host": "nested xen", "caveat": FUNCTIONAL_ONLY},
    "runc-routed": {"platform": "runc", "parameters": _ROUTED},
    "openvz-routed": {"platform": "openvz", "parameters": _ROUTED},
    "runsc-routed": {"platform": "runsc", "parameters": _ROUTED},
    "qemu-kvm-e1000": {"platform": "qemu-kvm", "parameters": {"nic": "e1000"}},
}
# The parameters of the preset mattos2012, size paper.
FRAMES = {"frame_size_bytes": 64, "point_milliseconds": 1000}
SENDERS = {"nic": "shared", "link_rate_bits_per_second": 1000000000, "duration_milliseconds": 10000}
EQUAL = {2: (0.5, 0.5), 3: (0.34, 0.34, 0.32), 4: (0.25, 0.26, 0.25, 0.24)}
SHARES = {"equal": EQUAL, "unequal": {**EQUAL, 3: (0.4, 0.35, 0.25)}}


class Clocks(Word):
    """By how much guests' clocks are wrong: two jobs of different lengths."""

    def made(self, label: str, values: Values, options: Mapping[str, Any]) -> list[Made]:
        wrong = {**options, "clock_error": values["0"], "spread": 0.02}
        return [
            changed(Made(label, "superpi", {"digits": 65536}, 0.5e9), wrong),
            changed(Made(label, "masr", {"size_bytes": "64MiB"}, 2e9), wrong),
        ]


class Senders(Word):
    """Mbit/s of payload over one NIC of a gigabit by the number of guests; `shares`: of each, equal or unequal."""

    def made(self, label: str, values: Values, options: Mapping[str, Any]) -> list[Made]:
        shares = SHARES.get(options.get("shares", ""), {})
        more = {name: value for name, value in options.items() if name != "shares"}
        return [
            changed(one, {"by_source": shares.get(one.parameters["transmitters"], ())})
            for one in super().made(label, values, more)
        ]


WORDS = {
    "clocks": Clocks("superpi"),
    "superpi": Word("superpi", {"digits": 4194304}),
    "masr": Word("masr", {"size_bytes": "2GiB"}),
    "bonnie": Word("bonnie", {"file_bytes": "6GiB", "small_files": 16384, "per_character": True}),
    "zfg": Word("zfg", {"size_bytes": "2GiB", "rounds": 10}),
    # What arrives of UDP datagrams from each guest and to it, Mbit/s.
    "udp": Word(
        "iperf-udp",
        {"rate_bits_per_second": 957087379, "datagrams": 812744},
        1.0,
        lambda key: {"direction": ("from-guest", "to-guest")[int(key)]},
    ),
    # Thousands of frames/s, by the number of routes too.
    "frames": Word("forward", FRAMES, 1e3),
    "routes": Word("forward", FRAMES, 1e3, lambda key: {"routes": int(key)}),
    "senders": Senders("transmitters", SENDERS, 1e6 / 8 / 1472, lambda key: {"transmitters": int(key)}),
    "routers": Word(
        "virtual-routers",
        {"total_rate_frames_per_second": 130000, "point_milliseconds": 1000},
        1e3,
        lambda key: {"routers": int(key)},
    ),
}

CASES = cases(
    """
M01
yes one is enough: clocks native 0 runc 0 qemu-tcg 0.02 | finds runc=0 qemu-tcg=0.02
yes slow: clocks native 0 qemu-tcg -0.02 | finds qemu-tcg=0.02
unseen: clocks native 0 runc 0 xen 0.001 | finds runc=0 xen=0.001
unseen native is none: clocks native 0.03 runc 0 | finds runc=0
unseen nested: clocks native 0 runc 0 xen-nested 0.05 | finds runc=0 xen-nested=0.05
unsure at the bound: clocks native 0 runc 0 uml 0.01 | finds runc=0 uml=0.01
unsure one length of job has no slope: superpi spread=0 clock_error=0.02 native 100 runc 100 | finds runc=
nothing no job has marks: frames native 750 xen 150
nothing nested alone: clocks native 0 xen-nested 0.05 | finds xen-nested=0.05

M02
yes: superpi spread=0.002 native 100 native-again 100 xen 102 openvz 105 runsc 106 qemu-kvm 130
    | finds superpi xen openvz runsc qemu-kvm; xen=105/102,106/102,130/102; qemu-kvm=102/130,105/130,106/130
no(yes no no) by both orders: superpi spread=0.002 native 100 xen 115 runc 101 qemu-kvm 104
    | finds superpi xen runc qemu-kvm; xen=101/115,104/115; qemu-kvm=115/104,101/104
no(no nothing nothing) by one faster than native: superpi spread=0.002 native 100 runc 95 | finds superpi runc; -; -
unsure noise: superpi spread=0.05 native 100 xen 102 openvz 105 qemu-kvm 108
    | finds superpi xen openvz qemu-kvm; xen=105/102,108/102; qemu-kvm=102/108,105/108
unsure(yes nothing nothing) an emulated CPU is of neither kind: superpi native 100 runc 104 uml 130 qemu-tcg 900
    | finds superpi runc uml qemu-tcg; -; -
unsure(yes nothing yes) without a para-virtualised one: superpi native 100 runc 104 uml 130 qemu-kvm 200
    | finds superpi runc uml qemu-kvm; -; qemu-kvm=104/200,130/200
nothing: masr native 2 xen 2.2 runc 2 qemu-kvm 3

M03
yes gVisor is no container: masr native 2 openvz 2.02 xen 2.2 runsc 2.5 qemu-kvm 3 qemu-tcg 9
    | finds masr openvz; qemu-kvm=2.02/3,2.2/3,2.5/3
no(no yes) by a slow container: masr native 2 openvz 2.6 qemu-kvm 3 | finds masr openvz; qemu-kvm=2.6/3
no(yes no) by Xen that is slower: masr native 2 runc 2 xen 2.6 qemu-kvm 2.2 | finds masr runc; qemu-kvm=2/2.2,2.6/2.2
unsure(yes nothing) an emulated CPU is none: masr native 2 runc 2 xen 2.6 qemu-tcg 9 | finds masr runc; -
unsure noise: masr spread=0.1 blocks=3 native 2 runc 2.15 qemu-kvm 2.2 | finds masr runc; qemu-kvm=2.15/2.2
unsure(yes nothing) a container alone: masr native 2 runc 2.02 | finds masr runc; -
no(no nothing) by a container alone: masr native 2 runc 2.6 | finds masr runc; -
nothing: superpi native 100 runc 101 qemu-kvm 130
nothing other kinds: masr native 2 runsc 4 uml 9

M04
yes gVisor is no container: bonnie native 300 openvz 306 runsc 600 xen 420 qemu-kvm 400 qemu-tcg 300
    + zfg native 200 openvz 208 runsc 900 xen 600 qemu-kvm 500 qemu-tcg 200
    | finds bonnie openvz; zfg openvz; bonnie xen qemu-kvm; zfg xen qemu-kvm
no(yes yes yes no) by User-mode Linux: bonnie native 300 openvz 306 uml 450 + zfg native 200 openvz 208 uml 205
    | finds bonnie openvz; zfg openvz; bonnie uml; zfg uml
no(yes yes no yes) by a virtual disk as fast as native: bonnie native 300 openvz 306 qemu-kvm 310
    + zfg native 200 openvz 208 qemu-kvm 500 | finds bonnie openvz; zfg openvz; bonnie qemu-kvm; zfg qemu-kvm
no(yes no yes yes) by a slow container: bonnie native 300 openvz 306 xen 420 + zfg native 200 openvz 300 xen 600
    | finds bonnie openvz; zfg openvz; bonnie xen; zfg xen
unsure noise: bonnie spread=0.1 native 300 openvz 320 xen 370 + zfg spread=0.1 native 200 openvz 215 xen 245
    | finds bonnie openvz; zfg openvz; bonnie xen; zfg xen
unsure(nothing nothing yes yes) without a container: bonnie native 300 xen 420 + zfg native 200 xen 600
    | finds -; -; bonnie xen; zfg xen
unsure(yes nothing yes nothing) Bonnie alone: bonnie native 300 openvz 306 xen 420
    | finds bonnie openvz; -; bonnie xen; -
unsure(nothing yes nothing yes) native with ZFG alone: bonnie openvz 306 xen 420 + zfg native 200 openvz 208 xen 600
    | finds -; zfg openvz; -; zfg xen
no(no nothing nothing nothing) by a container with Bonnie alone: bonnie native 300 openvz 500
    | finds bonnie openvz; -; -; -
yes nested: bonnie native 300 runc 306 xen 420 xen-nested 150 + zfg native 200 runc 208 xen 600 xen-nested 100
    | finds bonnie runc; zfg runc; bonnie xen xen-nested; zfg xen xen-nested
nothing nested alone: bonnie native 300 xen-nested 420 | finds -; -; bonnie xen-nested; -
nothing an emulated CPU: bonnie native 300 qemu-tcg 450 + zfg native 200 qemu-tcg 700
nothing other kinds: bonnie native 300 runsc 600 + zfg native 200 runsc 700
nothing: masr native 2 openvz 2 xen 3

M05
yes containers are none: bonnie native 300 openvz 200 runsc 600 xen 420 qemu-kvm 400 qemu-tcg 450
    + zfg native 200 openvz 208 runsc 900 xen 600 qemu-kvm 500 qemu-tcg 700
    | finds xen=0.4664 qemu-kvm=0.5333
no by User-mode Linux: bonnie native 300 uml 600 + zfg native 200 uml 210 | finds uml=1.904
no: bonnie native 300 xen 600 qemu-kvm 400 + zfg native 200 xen 210 qemu-kvm 500 | finds xen=1.904 qemu-kvm=0.5333
unsure noise: bonnie spread=0.1 native 300 qemu-kvm 400 + zfg spread=0.1 native 200 qemu-kvm 275
    | finds qemu-kvm=0.9693
unsure native lacks one: bonnie qemu-kvm 400 + zfg native 200 qemu-kvm 500 | finds qemu-kvm=
nothing ZFG alone: zfg native 200 xen 600 qemu-kvm 500
nothing Bonnie alone: bonnie native 300 xen 600
nothing containers: bonnie native 300 openvz 306 + zfg native 200 openvz 500
nothing an emulated CPU: bonnie native 300 qemu-tcg 450 + zfg native 200 qemu-tcg 700

M06
yes neither gVisor nor a bridge is their OpenVZ: udp native 957,950 xen 955,940 qemu-kvm-e1000 600,500
    openvz-routed 400,300 runc 956,949 runsc-routed 955,948 uml 500,400 qemu-tcg 90,80
    | finds udp xen; udp qemu-kvm-e1000; udp openvz-routed; qemu-kvm-e1000=600/400,500/300
no(no yes yes yes) by one direction of Xen: udp native 957,950 xen 955,780 qemu-kvm-e1000 600,500 runc-routed 400,300
    | finds udp xen; udp qemu-kvm-e1000; udp runc-routed; qemu-kvm-e1000=600/400,500/300
no(yes yes yes no) by the order: udp native 957,950 xen 955,940 qemu-kvm-e1000 300,250 runc-routed 400,350
    | finds udp xen; udp qemu-kvm-e1000; udp runc-routed; qemu-kvm-e1000=300/400,250/350
no(nothing no nothing nothing) by an emulated NIC alone: udp native 957,950 qemu-kvm-e1000 956,949
    | finds -; udp qemu-kvm-e1000; -; -
no(yes nothing no nothing) by a fast container that routes: udp native 957,950 xen 955,940 runc-routed 956,949
    | finds udp xen; -; udp runc-routed; -
unsure noise: udp spread=0.1 native 957,950 qemu-kvm 880,870 qemu-kvm-e1000 850,840 runc-routed 850,840
    | finds udp qemu-kvm; udp qemu-kvm-e1000; udp runc-routed; qemu-kvm-e1000=1,1
unsure(yes nothing nothing nothing) one kind alone: udp native 957,950 qemu-kvm 955,948
    | finds udp qemu-kvm; -; -; -
unsure one way alone: udp native 957 xen 955 qemu-kvm-e1000 600 runc-routed 400
    | finds udp xen; udp qemu-kvm-e1000; udp runc-routed; qemu-kvm-e1000=600/400 | lacks direction to-guest
no(no unsure unsure unsure) by the one way: udp native -,950 xen -,780 qemu-kvm-e1000 -,500 runc-routed -,300
    | finds udp xen; udp qemu-kvm-e1000; udp runc-routed; qemu-kvm-e1000=500/300 | lacks direction from-guest
nothing other kinds: udp native 957,950 runc 956,949 runsc-routed 955,948 uml 500,400 qemu-tcg 90,80
nothing 50 Mbit/s: udp rate_bits_per_second=50000000 datagrams=4246 native 50,50 xen 50,50 qemu-kvm-e1000 50,50
    runc-routed 50,50
nothing small datagrams: udp datagram_bytes=64 native 957,950 xen 955,940 qemu-kvm-e1000 600,500 runc-routed 400,300
nothing from guest to guest: udp between=guests native 957,950 xen 955,940 qemu-kvm-e1000 600,500 runc-routed 400,300
nothing: frames native 750 xen 150

M07
yes neither native nor other tables count: routes native 0:750,1000:700,10000:600,100000:400
    xen 0:300,1:290,1000:150,10000:149,100000:147,1000000:80 | finds xen=149/150,0.98
no: routes xen 1000:150,10000:149,100000:115 uml 1000:150,10000:149,100000:147
    | finds xen=149/150,115/150 uml=149/150,0.98
no by more than before: routes xen 1000:150,10000:190 | finds xen=190/150
unsure noise: routes spread=0.1 xen 1000:150,10000:150,100000:136 | finds xen=1,136/150
unsure as much as the generator sends: routes runc 1000:980,10000:978,100000:975 | finds runc=978/980,975/980
    | generator 1000000
no from the most that the generator sends: routes runc 1000:980,100000:600 | finds runc=600/980 | generator 1000000
unsure not with 100000: routes native 0:750,1000:700,10000:600,100000:400 xen 1000:150,10000:149 | finds xen=149/150
    | lacks routes 100000
unsure not with 10000: routes native 0:750,1000:700,10000:600,100000:400 xen 1000:150,100000:147 | finds xen=0.98
    | lacks routes 10000
nothing not with 1000: routes native 0:750,1000:700,10000:600,100000:400 xen 0:150,10000:149
nothing native alone: routes native 0:750,1000:700,10000:600,100000:400

M08
yes neither native nor eight count: senders shares=equal native 1:957,2:957,4:400 xen 1:957,2:957,3:955,4:950,8:700
    | finds xen=1,955/957,950/957; xen=1,0.96,0.96
no(no yes) by a total that falls: senders shares=equal xen 1:957,2:957,3:800,4:700
    | finds xen=1,800/957,700/957; xen=1,0.96,0.96
no(no yes) by a total that grows: senders shares=equal xen 1:780,2:957,3:955,4:950
    | finds xen=957/780,955/780,950/780; xen=1,0.96,0.96
no(yes no) by unequal shares: senders shares=unequal xen 1:957,2:957,3:955,4:950
    | finds xen=1,955/957,950/957; xen=1,0.75,0.96
unsure(unsure yes) noise: senders shares=equal spread=0.05 xen 1:957,2:870,3:955,4:950
    | finds xen=870/957,955/957,950/957; xen=1,0.96,0.96
unsure(nothing yes) not from one: senders shares=equal xen 2:957,3:955,4:950 | finds -; xen=1,0.96,0.96
unsure not from three: senders shares=equal xen 1:957,2:957,4:950 | finds xen=1,950/957; xen=1,0.96
    | lacks transmitters 3
unsure two alone: senders shares=equal xen 1:957,2:957 | finds xen=1; xen=1 | lacks transmitters 3, 4
no(no unsure) by two alone: senders shares=equal xen 1:780,2:957 | finds xen=957/780; xen=1 | lacks transmitters 3, 4
no(nothing no) by the shares alone: senders shares=unequal xen 3:957 | finds -; xen=0.75
nothing a NIC each: senders nic=own link_rate_bits_per_second=0 xen 1:957,2:957,3:955,4:950
nothing held to a rate: senders rate_frames_per_second=10000 spread=0 xen 1:110,4:440
nothing: frames native 750 xen 150

M09
yes native is none: routers native 1:120,4:120 xen 1:125,2:110,3:99,4:87.5 | finds xen=0.7
no by no fall: routers xen 1:125,4:87.5 uml 1:90,4:88 | finds xen=0.7 uml=88/90
no by a larger fall: routers xen 1:125,4:65 | finds xen=0.52
unsure noise: routers spread=0.05 xen 1:105,4:83 | finds xen=83/105
yes all of it by one: routers spread=0 xen 1:130 + routers xen 4:91 | finds xen=0.7
unsure as much as the generator sends: routers xen 1:125,4:87.5 | finds xen=0.7 | generator 135000
unsure nothing is lost: routers spread=0 xen 1:130,4:130 | finds xen=
unsure one that loses nothing: routers xen 1:125,4:87.5 + routers spread=0 runc 1:130,4:130 | finds xen=0.7 runc=
nothing a sweep: routers total_rate_frames_per_second=0 xen 1:125,4:87.5
nothing not four: routers xen 1:125,2:110,3:99
nothing on other CPUs: routers xen 1:125 + routers affinity=unpinned xen 4:87.5

M10
yes other NICs are none: frames native 750 xen 150 xen-routed 200 xen-sriov 740 runc 600 qemu-kvm-e1000 300
    | finds frames xen-sriov; frames xen xen-routed
no(no yes) by a slow function: frames native 750 xen 150 xen-routed 200 xen-sriov 560
    | finds frames xen-sriov; frames xen xen-routed
no(yes no) by a fast para-virtualised NIC: frames native 750 xen-sriov 740 qemu-kvm 290
    | finds frames xen-sriov; frames qemu-kvm
unsure noise: frames spread=0.1 native 750 xen-sriov 680 xen 240 | finds frames xen-sriov; frames xen
unsure(unsure yes) as much as the generator sends: frames native 750 xen 150 xen-routed 200 xen-sriov 740
    | finds frames xen-sriov; frames xen xen-routed | generator 760000
unsure(nothing yes) without the device itself: frames native 750 xen 150 xen-routed 200
    | finds -; frames xen xen-routed
no(nothing no) by the NIC alone: frames native 750 qemu-kvm 400 | finds -; frames qemu-kvm
nothing other NICs: frames native 750 runc 600 qemu-kvm-e1000 40
nothing an emulated CPU: frames native 750 qemu-tcg 11
yes with 68 bytes: frames frame_size_bytes=68 native 750 xen 150 xen-routed 200 xen-sriov 740
    | finds frames xen-sriov; frames xen xen-routed
nothing large frames: frames frame_size_bytes=1500 native 750 xen 150 xen-routed 200 xen-sriov 740
nothing tables: routes native 1000:750 xen 1000:150 xen-routed 1000:200 xen-sriov 1000:740

M11
yes only of one product: frames native 750 xen 150 xen-routed 200 uml 50 qemu-kvm 700 qemu-kvm-e1000 40
    | finds xen-routed=200/150
yes with 68 bytes: frames frame_size_bytes=68 native 750 xen 150 xen-routed 200 | finds xen-routed=200/150
no: frames native 750 xen 150 xen-routed 120 | finds xen-routed=0.8
unsure noise: frames spread=0.1 native 750 xen 150 xen-routed 153 | finds xen-routed=1.02
nothing two products: frames native 750 xen 150 runc-routed 500
nothing two types of Xen: frames native 750 xen-hvm 90 xen-routed 200
yes each of its own type: frames native 750 xen 150 xen-routed 200 xen-hvm 900 xen-hvm-routed 950
    | finds xen-routed=200/150 xen-hvm-routed=950/900
nothing bridges alone: frames native 750 xen 150
nothing large frames: frames frame_size_bytes=1500 native 750 xen 150 xen-routed 200

M12
yes an emulated CPU is none: superpi native 100 runc 101 uml 110 qemu-kvm 112 qemu-tcg 90
    + bonnie native 300 runc 306 uml 420 qemu-kvm 400 qemu-tcg 200 + zfg native 200 runc 208 uml 600 qemu-kvm 500
    + masr native 2 runc 2.02 uml 2.5 qemu-kvm 2.4 qemu-tcg 1
    | finds runc=110/101,112/101; runc=420/306,400/306,600/208,500/208; runc=2.5/2.02,2.4/2.02
no(no yes yes) by the CPU: superpi native 100 runc 112 uml 101 + bonnie native 300 runc 306 uml 420
    + masr native 2 runc 2.02 uml 2.5 | finds runc=101/112; runc=420/306; runc=2.5/2.02
no(nothing no nothing) by one disk: bonnie native 300 runc 306 runsc 420 + zfg native 200 runc 400 runsc 300
    | finds -; runc=420/306,300/400; -
unsure noise: superpi spread=0.1 native 100 runc 101 uml 103 + zfg spread=0.1 native 200 runc 208 uml 230
    + masr spread=0.1 native 2 runc 2 uml 2.1 | finds runc=103/101; runc=230/208; runc=1.05
unsure(yes nothing nothing) the CPU alone: superpi native 100 runc 101 xen 110 | finds runc=110/101; -; -
nothing no other kind: superpi native 100 runc 101 openvz 101 qemu-tcg 900 + masr native 2 runc 2.02
nothing no container: superpi native 100 uml 110 qemu-kvm 105 + masr native 2 uml 2.4
""",
    WORDS,
)
