"""The claims of Schlosser et al. 2011 on made-up runs whose truth is known.

Rates are in Mbit/s on the wire, as the paper has them. 64-byte ones are of its Tables 2 and 3; its figures print none.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tests.support.claim_tables import Values, Word, cases, changed
from tests.support.made_up_run import Made

from virtoll.runfolder.conditions import Condition
from virtoll.runfolder.frame_shape import FrameShape

ESXI = {"server": "esx", "password_from": "env:ESXI", "datastore": "one", "port_groups": ["in1", "out1"]}
PLATFORMS: dict[str, dict[str, Any]] = {
    "native": {},
    "netns": {},
    "runsc": {},
    "kvm": {"platform": "qemu-kvm"},
    "kvm-e1000": {"platform": "qemu-kvm", "parameters": {"nic": "e1000"}},
    "kvm-disk": {"platform": "qemu-kvm", "parameters": {"disk": "nvme"}},
    "kvm-disk-e1000": {"platform": "qemu-kvm", "parameters": {"disk": "nvme", "nic": "e1000"}},
    "kvm-rtl8139": {"platform": "qemu-kvm", "parameters": {"nic": "rtl8139"}},
    "kvm-vmxnet3": {"platform": "qemu-kvm", "parameters": {"nic": "vmxnet3"}},
    "xen": {},
    "virtualbox": {},
    "esxi": {"parameters": {**ESXI, "nic": "vmxnet3"}},
    "tcg-e1000": {"platform": "qemu-tcg", "parameters": {"nic": "e1000"}},
    "esxi-e1000": {"platform": "esxi", "parameters": {**ESXI, "nic": "e1000"}},
}
SIZES = (68, 504, 1004, 1504)  # the paper's
ALL_SIZES = (*SIZES, 64, 260, 500, 1500)
# As in the preset schlosser2011.
SWEPT = {"sweep": "rates", "rates_mbit_per_second": [10, 40, 100, 400, 1000], "point_milliseconds": 100}
# As in the preset schlosser2011-neighbours.
BESIDE = {"sweep": "from-flat-out", "point_milliseconds": 1000, "cpu_milliseconds": 0}
HEAVY = Condition("heavy", affinity="apart")
CONDITIONS = {
    "idle": Condition("idle", affinity="apart"),
    "light": Condition("light", affinity="apart"),
    "heavy": HEAVY,
    "unpinned": HEAVY.replace(affinity="unpinned"),
    "light-unpinned": Condition("light", affinity="unpinned"),
    "flood": Condition("network-flood", affinity="apart", rate_share=0.95),
    "half": Condition("forward", affinity="apart", rate_share=0.5),
    "full": Condition("forward", affinity="apart", rate_share=0.95),
    "same-cpu-idle": Condition("idle"),
    "same-cpu-heavy": Condition("heavy"),
}


def condition(key: str) -> Mapping[str, Condition | None]:
    """Alone is 0; `2*idle`: two guests; `idle@netns`: of another platform."""
    if key == "0":
        return {}
    count, _, name = key.rpartition("*")
    name, _, platform = name.partition("@")
    return {"condition": CONDITIONS[name].replace(guests=int(count or 1), platform=platform or None)}


class Router(Word):
    """Frames that a guest forwards, Mbit/s on the wire from all sources.

    `flat_out`: Mbit/s that are left of the largest rate. `through`: Mbit/s into each second guest, and out of it.
    `lossless`: nothing is lost flat out, of all or of one key.
    """

    def made(self, label: str, values: Values, options: Mapping[str, Any]) -> list[Made]:
        return [self._made(label, key, value, dict(options)) for key, value in values.items()]

    def _made(self, label: str, key: str, value: float, options: dict[str, Any]) -> Made:
        lossless = options.pop("lossless", False)
        flat_out, neighbour = options.pop("flat_out", None), options.pop("through", None)
        plain = changed(Made(label, self.workload, self.parameters), {**self.by(key), **options})
        of_size = FrameShape(frame_size_bytes=plain.parameters["frame_size_bytes"]).frames_per_second
        through = None
        if neighbour is not None and plain.condition is not None:
            small = FrameShape(frame_size_bytes=68).frames_per_second
            through = small(neighbour[0]), small(neighbour[1])
        return replace(
            plain,
            value=of_size(value),
            flat_out=None if flat_out is None else of_size(flat_out),
            lossless=lossless is True or str(lossless) == key,
            neighbour=through,
        )


def router(given: Mapping[str, Any], by: Callable[[str], Mapping[str, Any]] = lambda _: {}) -> Router:
    return Router("forward", given, by=by)


def sources(key: str) -> Mapping[str, Any]:
    """From one source, two and three, each with an egress link of its own."""
    return {"sources": int(key) + 1, "egress": "each"}


WORDS: dict[str, Word] = {
    "sizes": router(SWEPT, lambda key: {"frame_size_bytes": SIZES[int(key)]}),
    **{f"{size}": router({**SWEPT, "frame_size_bytes": size}) for size in ALL_SIZES},
    **{f"sources-{size}": router({**SWEPT, "frame_size_bytes": size}, sources) for size in ALL_SIZES},
    **{f"3x{size}": router({**SWEPT, "frame_size_bytes": size, "sources": 3, "egress": "each"}) for size in ALL_SIZES},
    **{f"beside-{size}": router({**BESIDE, "frame_size_bytes": size}, condition) for size in ALL_SIZES},
}

# "accept up to 600 Mbit/s input rates"
OFFERED = FrameShape(frame_size_bytes=68).frames_per_second(600)
# Table 1: of OpenVZ, under heavy load, 18.2 % less at 64 bytes, 11.4 % at 500, nothing at 1000.
_LARGER = "beside-504 spread=0.003 netns 0:900,heavy:900,unpinned:797.4"
_LARGER += " + beside-1004 spread=0.003 netns 0:1000,heavy:1000,unpinned:1000"
WITHOUT_LIGHT = f"beside-68 spread=0.003 netns 0:133,heavy:133,unpinned:109,light-unpinned:134 + {_LARGER}"
CONTAINER = WITHOUT_LIGHT.replace("heavy:133", "heavy:133,light:133", 1)
# Table 3: Mbit/s into and out of the second guest, where the first one's frames have 1500 bytes, and 64.
TABLE_3 = "beside-1504 through={} {label} 0:1000,full:900 + beside-68 through={} {label} 0:133,full:100"
OPENVZ = TABLE_3.format("127,127", "124.4,62.7", label="netns")
XEN = TABLE_3.format("72,56.2", "72,47.2", label="xen")
KVM = TABLE_3.format("72.1,63.2", "72.1,64.6", label="kvm")
KVM_AND_GVISOR = f"{KVM} + {KVM.replace('kvm', 'runsc')}"

CASES = cases(
    f"""
S01
yes whatever VirtualBox does: 1504 native 1000 netns 1000 kvm 960 virtualbox 400 | finds =1,0.96
no one of two: 1504 native 1000 netns 1000 kvm 600 | finds =1,0.6
no less than nine tenths: 1504 native 1000 kvm 830 | finds =0.83
no with FCS too: 1500 native 1000 kvm 600 | finds =0.6
no either size: 1504 native 1000 kvm 990 + 1500 native 1000 kvm 600 | finds =0.6,0.99
no more than a bound: 1504 lossless=yes native 1000 + 1504 kvm 600 | finds =0.6
no more than the generator: 1504 native 1000 kvm 600 | finds =0.6 | generator 85000
yes a bound above native: 1504 native 900 + 1504 lossless=yes kvm 990 | finds =1.1
unsure scattered: 1504 spread=0.1 native 1000 netns 900
yes both lossless: 1504 lossless=yes native 1000 netns 1000 | finds =1
yes native lossless: 1504 lossless=yes native 1000 + 1504 netns 1000 | finds =1
yes both at the generator: 1504 native 1000 netns 1000 | finds =1 | generator 85000
unsure native at the generator: 1504 native 1000 netns 910 | generator 89000
unsure a bound below native: 1504 native 1000 + 1504 lossless=yes kvm 600 | finds =0.6
nothing VirtualBox alone: 1504 native 1000 virtualbox 400
nothing smaller frames: 504 native 1000 kvm 600
nothing two sources: 1504 sources=2 native 2000 kvm 600
nothing native alone: 1504 native 1000
no its only egress link: 1504 egress=each native 1000 kvm 600 | finds =0.6
yes nested it decides nothing: 1504 native 1000 netns 1000 kvm 300 | nested kvm
nothing nested alone: 1504 native 1000 kvm 1000 | nested kvm

S02
yes: sizes native 290,1000,1000,1000 kvm 72.5,300,600,1000 | finds =0.25,0.83333,0.5,0.6
no the same share: sizes native 290,1000,1000,1000 kvm 145,500,500,500 | finds =1,1,1,1
no large ones lose more: sizes native 290,1000,1000,1000 kvm 290,900,700,500 | finds =2,1000/900,900/700,1.4
no not in order: sizes native 290,1000,1000,1000 kvm 87,750,600,1000 | finds =0.3,0.4,1.25,0.6
yes a little less: 68 native 290 kvm 232 + 1504 native 1000 kvm 1000 | finds =0.8,0.8
no with FCS too: 64 native 290 kvm 290 + 1500 native 1000 kvm 1000 | finds =1,1
yes four bytes more or less: 64 native 290 kvm 72.5 + 68 native 290 kvm 72.5 + 1500 native 1000 kvm 1000
    + 1504 native 1000 kvm 1000 | finds =0.25,1,0.25,1
yes each source by its own link: sizes egress=each native 290,1000,1000,1000 kvm 72.5,300,600,1000
unsure scattered: sizes native 290,1000,1000,1000 + sizes spread=0.1 kvm 261,960,980,1000
yes the link is the limit: 68 native 290 kvm 72.5 + 1504 lossless=yes native 1000 kvm 1000 | finds =0.25,0.25
unsure small ones at the generator: 68 native 290 kvm 285 + 1504 native 1000 kvm 1000 | finds =285/290,285/290
    | generator 420000
yes native's small ones at the generator: 68 native 290 kvm 145 + 1504 native 1000 kvm 1000 | finds =0.5,0.5
    | generator 420000
unsure native not of all: 68 kvm 72.5 + 1504 native 1000 kvm 1000
nothing one size: 68 native 290 kvm 72.5
nothing native alone: sizes native 290,1000,1000,1000
nothing three sources: sizes sources=3 native 300,3000,3000,3000

S03
yes: sources-68 native 290,300,300 + sources-504 native 1000,2000,3000 + sources-1504 native 1000,2000,3000
    | finds =1,1,1,1,1
yes one egress link: sources-68 egress=one native 290,300,300 + sources-1504 egress=one native 1000,2000,3000
    | finds =1,1,1
no two and three as one: sources-68 native 290,300,300 + sources-1504 native 1000,1000,1000 | finds =0.5,0.33333,1
no three as two: sources-68 native 290,300,300 + sources-504 native 1000,2000,2000 | finds =1,0.66667,1
no small ones too: sources-68 native 200,400,500 + sources-1504 native 1000,2000,3000 | finds =1,1,1.25
yes whatever is between: sources-68 native 290,300,300 + sources-260 native 900,900,1200
    + sources-1504 native 1000,2000,3000 | finds =1,1,1
no large ones alone: sources-1504 native 1000,1000,1000 | finds =0.5,0.33333
no with FCS too: sources-64 native 200,400,600 | finds =1.5
no to a bound: sources-1504 lossless=yes native 1000 + sources-1504 native -,1000,1000 | finds =0.5,0.33333
unsure large ones alone: sources-1504 native 1000,2000,3000 | finds =1,1
unsure small ones alone: sources-68 native 290,300,300 | finds =1
unsure scattered: sources-68 native 290,300,300 + sources-1504 spread=0.1 native 1000,1800,2700
unsure the links are the limit: sources-68 lossless=yes native 290,300,300
    + sources-1504 lossless=yes native 1000,2000,3000
unsure the generator is the limit: sources-68 native 200,400,400 + sources-1504 native 1000,2000,2000
    | generator 170000
unsure two by one link and three by three: 68 sources=2 native 300 + 3x68 native 900 + 1504 egress=each native 1000
    + 1504 sources=2 egress=each native 2000 + 3x1504 native 3000
nothing one source: sources-68 native 290 + sources-1504 native 1000
nothing guests alone: 1504 kvm 900 + 1504 sources=2 kvm 1800 + 1504 sources=3 kvm 2700

S04
yes OS-level as native with large ones: 3x68 native 300 netns 135 kvm 75 + 3x504 native 3000 netns 1500 kvm 2400
    + 3x1504 native 3000 netns 3000 kvm 2400 | finds =0.45,0.5,0.25,0.8,0.8
no another with large ones: 3x504 native 3000 kvm 600 + 3x1504 native 3000 kvm 3000 | finds =0.2,1
no OS-level with smaller ones: 3x1004 native 3000 netns 3000 kvm 600 + 3x1504 native 3000 kvm 600 | finds =1,0.2,0.2
no gVisor is no container: 3x68 native 300 runsc 75 + 3x1504 native 3000 runsc 3000 | finds =0.25,1
no large ones alone: 3x1500 native 3000 kvm 3000 | finds =1
no one egress link: 64 sources=3 native 300 kvm 300 | finds =1
no large ones by one link: 1504 sources=3 native 3000 kvm 3000 | finds =1
unsure large ones alone: 3x1504 native 3000 kvm 1500 | finds =0.5
unsure OS-level alone: 3x68 native 300 netns 135 + 3x1504 native 3000 netns 3000 | finds =0.45
unsure scattered: 3x504 spread=0.1 native 3000 kvm 2700 + 3x1504 native 3000 kvm 1500
nothing one source: 68 native 290 kvm 76 + 1504 native 1000 kvm 900
nothing native by one link and the guest by three: 68 sources=3 native 300 + 3x68 kvm 76
nothing two sources: 68 sources=2 native 300 kvm 76
nothing native alone: 3x68 native 300 + 3x1504 native 3000

S05
yes E1000 above another's virtio: 68 esxi 289 esxi-e1000 133 kvm 76 + 504 esxi 1000 esxi-e1000 800 kvm 300
    | finds =289/133,1.25
no one of two products: 68 esxi 289 esxi-e1000 133 kvm 76 kvm-e1000 95 | finds =289/133,0.8
yes two emulated ones: 68 kvm 289 kvm-e1000 133 kvm-rtl8139 40 | finds =289/133,7.225
no with FCS too: 64 kvm 76 kvm-e1000 95 | finds =0.8
no 500 bytes: 504 egress=each kvm 400 kvm-e1000 800 | finds =0.5
yes a bound: 68 lossless=yes esxi 289 + 68 esxi-e1000 133 | finds =289/133
unsure scattered: 68 spread=0.1 esxi 140 esxi-e1000 133
unsure as a bound: 68 esxi 289 + 68 lossless=yes esxi-e1000 133 | finds =289/133
unsure below at the generator: 68 kvm 270 kvm-e1000 289 | finds =270/289 | generator 412000
nothing no E1000: 68 native 290 esxi 289 xen 76
nothing another product's: 68 kvm 76 esxi-e1000 133
nothing another disk too: 68 kvm 76 kvm-disk-e1000 95
yes each of its own disk: 68 kvm 289 kvm-e1000 133 kvm-disk-e1000 300 | finds =289/133
no both disks: 68 kvm 289 kvm-e1000 133 kvm-disk 76 kvm-disk-e1000 95 | finds =289/133,0.8
nothing larger frames: 1004 esxi 1000 esxi-e1000 900

S06
yes whatever others do: 68 native 290 netns 133 runsc 320 + 1504 native 1000 netns 1000 runsc 100 | finds =1,133/290
yes from three sources: 3x68 native 300 netns 133 + 3x1504 native 3000 netns 3000 | finds =1,133/300
no large ones slower: 68 native 290 netns 133 + 1504 native 1000 netns 700 | finds =0.7,133/290
no small ones faster: 64 native 290 netns 348 + 1500 native 1000 netns 1000 | finds =1,1.2
yes a little from two sources: 68 sources=2 native 300 netns 270 + 1504 sources=2 native 2000 netns 2000
    | finds =1,0.9
no two sources: 1504 sources=2 native 2000 netns 1000 | finds =0.5
no large ones alone: 1504 native 1000 netns 700 | finds =0.7
unsure large ones alone: 1504 native 1000 netns 1000 | finds =1
unsure small ones alone: 68 native 290 netns 133 | finds =133/290
unsure scattered: 68 spread=0.1 native 290 netns 285 + 1504 native 1000 netns 1000
nothing another family: 68 native 290 kvm 76 + 1504 native 1000 kvm 900
nothing gVisor alone: 68 native 290 runsc 133 + 1504 native 1000 runsc 1000
nothing other sizes: 504 native 1000 netns 800

S07
yes whatever others do: 68 flat_out=60 netns 133 + 68 runsc 76 kvm 76 | finds =60/133
yes some of it: 68 flat_out=110 netns 133 | finds =110/133
yes the best at the generator: 68 flat_out=60 netns 290 | finds =60/290 | generator 412000
no it stays: 68 netns 133 | finds =1
no a little less: 64 flat_out=130 egress=each netns 133 | finds =130/133
unsure in every second block: 68 flat_out=60 netns 133 | finds =0.67166 | others 68 netns 133
unsure nothing lost: 68 lossless=yes netns 133
unsure nothing lost at the generator: 68 lossless=yes netns 133 | generator 190000
unsure the sender slowed down: 68 lossless=yes netns 133 | finds =1 | generator 852000
nothing another family: 68 flat_out=30 native 290 kvm 76
nothing gVisor alone: 68 flat_out=30 runsc 76
nothing larger frames: 504 flat_out=300 netns 900
nothing three sources: 3x68 flat_out=60 netns 133

S08
yes: 68 lossless=yes native 133 + 68 netns 133 kvm 76 | finds =133/600,76/600,1 | generator {OFFERED}
no native drops frames too: 68 native 500 netns 133 | finds =133/600,500/600 | generator {OFFERED}
no one of two: 68 netns 133 kvm 570 | finds =0.22167,0.95 | generator {OFFERED}
no the sender slowed down: 68 egress=each lossless=yes kvm 76 | finds =1 | generator {OFFERED}
no with FCS too: 64 kvm 570 | finds =0.95 | generator 892857.1429
unsure scattered: 68 spread=0.1 kvm 540 | generator {OFFERED}
unsure nothing lost: 68 lossless=yes kvm 76
unsure nothing lost at the generator: 68 lossless=yes kvm 580 | generator {OFFERED}
unsure native not measured: 68 netns 133 kvm 76 | finds =133/600,76/600 | generator {OFFERED}
unsure native alone: 68 lossless=yes native 133 | finds =1 | generator {OFFERED}
nothing larger frames: 504 native 1000 kvm 300
nothing three sources: 3x68 kvm 76

S09
yes whatever a busy one does: beside-68 netns 0:133,idle:133,heavy:60 + beside-1504 kvm 0:950,idle:940
    | finds =1,940/950
no slower: beside-68 kvm 0:75,idle:60 netns 0:133,idle:133 | finds =0.8,1
no faster: beside-504 kvm 0:300,idle:390 | finds =1.3
no on the same CPU: beside-68 kvm 0:75,same-cpu-idle:60 | finds =0.8
no than a bound: beside-68 lossless=0 kvm 0:75,idle:60 | finds =0.8
unsure scattered: beside-68 spread=0.05 kvm 0:76,idle:72.2
unsure alone lossless: beside-68 lossless=0 kvm 0:75,idle:75
unsure beside it lossless: beside-68 lossless=idle kvm 0:75,idle:60 | finds =0.8
unsure at the generator: beside-68 kvm 0:290,idle:290 | generator 412000
nothing busy ones: beside-68 kvm 0:76,light:76,heavy:76
nothing nothing beside: 68 native 290 kvm 76
nothing native alone: beside-68 native 0:290,idle:200
nothing three idle ones: beside-68 kvm 0:75,3*idle:60
nothing one of another platform: beside-68 kvm 0:75,idle@netns:60

S10
yes as in Table 1: {CONTAINER} + beside-68 spread=0.003 xen 0:76,light:81.168,heavy:82.004
    | finds =1,1,1,1,1.079,1.068,0.82,0.886
yes whatever others do unpinned: {CONTAINER} + beside-68 spread=0.003 kvm 0:76,light:76,heavy:76,unpinned:30
    + beside-68 runsc 0:76,unpinned:76
no on other CPUs: {CONTAINER} + beside-68 kvm 0:75,light:75,heavy:60
no faster on other CPUs: beside-1504 kvm 0:500,light:600 | finds =1.2
no unpinned as alone: beside-68 netns 0:133,heavy:133,unpinned:133 + beside-504 netns 0:900,unpinned:700
    | finds =1,1,700/900
no with FCS too: beside-64 netns 0:133,unpinned:133 | finds =1
unsure without the light load: {WITHOUT_LIGHT}
unsure without it on one platform: {WITHOUT_LIGHT} + beside-68 kvm 0:75,light:75,heavy:75
unsure pinned alone: beside-68 kvm 0:76,light:76,heavy:76 | finds =1,1
unsure unpinned alone: beside-68 netns 0:133,unpinned:100 | finds =100/133
unsure scattered: {CONTAINER} + beside-68 spread=0.05 kvm 0:75,light:75,heavy:68
nothing on the same CPU: beside-68 netns 0:133,same-cpu-heavy:66
nothing an idle one: beside-68 netns 0:133,idle:133
nothing nothing beside: 68 native 290 netns 133
nothing two busy ones: beside-68 netns 0:133,2*heavy:66,2*unpinned:66

S11
yes whatever VMXNET 3 of VMware does: beside-504 netns 0:900,full:720 esxi 0:1000,full:1000 native 0:1000,full:1000
    | finds =0.8,1
yes whatever other sizes and loads do: beside-1004 kvm 0:600,half:600,flood:600,full:480 native 0:1000,full:1000
    + beside-1504 kvm 0:950,full:950 + beside-260 kvm 0:180,full:180 native 0:500,full:300 | finds =0.8,1
no native loses too: beside-504 netns 0:900,full:720 native 0:1000,full:800 | finds =0.8,0.8
no one of two: beside-504 netns 0:900,full:720 kvm 0:300,full:300 | finds =0.8,1
no with FCS too: beside-500 xen 0:300,full:330 | finds =1.1
no VMXNET 3 of another: beside-504 kvm-vmxnet3 0:300,full:300 | finds =1
unsure scattered: beside-504 spread=0.05 kvm 0:300,full:285 + beside-504 native 0:1000,full:1000
unsure native not measured: beside-504 netns 0:900,full:720 | finds =0.8
unsure native alone: beside-504 native 0:1000,full:1000 | finds =1
nothing at half its rate: beside-504 kvm 0:300,half:300
nothing other sizes: beside-68 kvm 0:76,full:76 + beside-1504 kvm 0:950,full:950
nothing VMXNET 3 alone: beside-504 esxi 0:1000,full:1000
nothing two that forward: beside-504 kvm 0:300,2*full:300

S12
yes as in Table 3, whatever KVM and VirtualBox do: {OPENVZ} + beside-504 through=125.9,120 netns 0:900,full:700
    + {XEN} + {KVM} + beside-1504 through=72.1,42.1 virtualbox 0:1000,full:900
    + beside-68 through=72.1,42.4 virtualbox 0:133,full:100 | finds =62.7/124.4,47.2/56.2
no Xen loses the same: {OPENVZ} + beside-1504 through=72,56.2 xen 0:1000,full:900
    + beside-68 through=72,56.2 xen 0:133,full:100 | finds =62.7/124.4,1
no large ones lose more: beside-1504 through=127,60 netns 0:1000,full:900
    + beside-68 through=127,120 netns 0:133,full:100 | finds =2
no with FCS too: beside-1500 through=127,127 netns 0:1000,full:900 + beside-64 through=127,127 netns 0:133,full:100
    | finds =1
unsure in every second block: {OPENVZ} | finds =0.70994 | others beside-1504 through=127,127 netns 0:1000,full:900
    + beside-68 through=127,127 netns 0:133,full:100
nothing KVM and gVisor: {KVM_AND_GVISOR}
nothing at half its rate: beside-1504 through=127,127 netns 0:1000,half:900
    + beside-68 through=124.4,62.7 netns 0:133,half:100
nothing one size: beside-68 through=124.4,62.7 netns 0:133,full:100
nothing busy ones: beside-68 netns 0:133,heavy:100 + beside-1504 netns 0:950,heavy:900
nothing two that forward: beside-1504 through=127,127 netns 0:1000,2*full:900
    + beside-68 through=124.4,62.7 netns 0:133,2*full:100
nothing one of another platform: beside-1504 through=72,72 netns 0:1000,full@kvm:900
    + beside-68 through=72,72 netns 0:133,full@kvm:100

S13
yes as in Table 3, whatever others do: {OPENVZ} + {KVM_AND_GVISOR} | finds =62.7/124.4
yes three tenths: beside-68 through=100,70 netns 0:133,full:100 | finds =0.7
no less than a quarter: beside-68 through=100,85 netns 0:133,full:100 | finds =0.85
no most came through: beside-1504 through=127,62.7 netns 0:1000,full:900
    + beside-68 through=124.4,118 netns 0:133,full:100 | finds =118/124.4
no with FCS too: beside-64 through=124.4,118 netns 0:133,full:100 | finds =118/124.4
unsure in every second block: {OPENVZ} | finds =0.70994 | others beside-1504 through=127,127 netns 0:1000,full:900
    + beside-68 through=124.4,124.4 netns 0:133,full:100
nothing another family: {XEN}
nothing gVisor alone: beside-1504 through=127,127 runsc 0:1000,full:900
    + beside-68 through=124.4,62.7 runsc 0:133,full:100
nothing at half its rate: beside-1504 through=127,127 netns 0:1000,half:900
    + beside-68 through=124.4,62.7 netns 0:133,half:100
nothing two that forward: beside-1504 through=127,127 netns 0:1000,2*full:900
    + beside-68 through=124.4,62.7 netns 0:133,2*full:100
nothing large ones: beside-1504 through=127,62.7 netns 0:1000,full:900
nothing one of another platform: beside-68 through=72,30 netns 0:133,full@kvm:100

S14
yes whatever others do: 3x1504 by_source=0.45,0.35,0.2 kvm-e1000 2400 + 3x1504 kvm 2400 tcg-e1000 200 | finds =0.6
no equal parts: 3x504 kvm-e1000 1500 | finds =1
no one of two: 3x504 by_source=0.45,0.35,0.2 kvm-e1000 1500 + 3x504 esxi-e1000 1500 | finds =0.6,1
no one of two sizes: 3x68 by_source=0.45,0.35,0.2 kvm-e1000 70 + 3x1504 kvm-e1000 2400 | finds =0.6,1
unsure in every second block: 3x504 by_source=0.45,0.35,0.2 kvm-e1000 1500 | finds =0.7746
    | others 3x504 kvm-e1000 1500
nothing one source: 1504 kvm-e1000 900
nothing two sources: 1504 sources=2 egress=each by_source=0.7,0.3 kvm-e1000 1500
nothing others: 3x1504 by_source=0.45,0.35,0.2 native 3000 netns 3000 kvm 2400 tcg-e1000 200
""",
    WORDS,
)
