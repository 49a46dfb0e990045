"""What a nested host of each kind is made of: plain data; ``build`` makes its files of it, ``machine`` boots it.

Main type: ``NestedKind``. The CPU flags are those with which QEMU's emulated AMD-V was seen to carry the product. Each
that is left away has its reason beside it, as seen with QEMU 7.2 (SHA's excepted); with the emulator of today none of
them was tried again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class NestedKind:
    """``packages`` are Debian's, taken with all that they depend on. Of their files only ``programs`` go in, with the
    libraries that they load, and ``data`` (files, or folders with a slash at the end).

    ``modules`` are loaded at its start; ``start`` is the part of its init that makes the product ready: lines of a
    shell script. ``hypervisor``: the file that is booted in the kernel's place, by multiboot, with its own arguments.
    ``devices``: what the emulated machine has besides, as QEMU's ``-device`` names it, in front of all others.
    ``suite``: the packages are installed, from this suite of Debian, into a folder, because their own scripts make what
    is needed (kernel modules by dkms). Kernel and modules are then those of that folder.
    """

    name: str
    title: str
    cpu: str
    cpus: int
    memory_mib: int
    packages: tuple[str, ...]
    programs: tuple[str, ...]
    modules: tuple[str, ...]
    data: tuple[str, ...] = ()
    start: tuple[str, ...] = ()
    console: str = "ttyS0"
    hypervisor: str | None = None
    hypervisor_arguments: str = ""
    kernel_arguments: str = ""
    devices: tuple[str, ...] = ()
    suite: str | None = None


_WITHOUT_SHA = "-sha-ni"
"""QEMU 8.2 to 11.1 does not check CR0.TS at SHA instructions (docs/decisions/emulator-of-nested-hosts.md)."""
_COMMON_PACKAGES = ("busybox-static", "bash", "iproute2", "dropbear-bin", "e2fsprogs", "util-linux", "libgcc-s1")
_COMMON_PROGRAMS = ("usr/bin/bash", "usr/bin/ip", "usr/sbin/dropbear", "usr/sbin/mke2fs", "usr/bin/flock")
DISK_DRIVER = "virtio_blk"
"""The module of the disk that an image too large for memory is on: kinds whose guests can have such a one load it."""
_COMMON_MODULES = ("virtio_pci", "virtio_net", "virtio_rng", DISK_DRIVER, "bridge", "tun", "veth", "8021q", "ipv6")

KVM = NestedKind(
    name="kvm",
    title="KVM of Debian's kernel, under emulated AMD-V",
    cpu=f"max,+svm,{_WITHOUT_SHA}",
    cpus=1,  # a second gains a seventh of a guest's start (docs/decisions/emulator-of-nested-hosts.md)
    memory_mib=2048,
    packages=(*_COMMON_PACKAGES, "qemu-system-x86", "seabios", "qemu-system-data"),
    programs=(*_COMMON_PROGRAMS, "usr/bin/qemu-system-x86_64"),
    modules=(*_COMMON_MODULES, "kvm_amd", "vhost_net"),
    data=(
        "usr/share/seabios/bios-256k.bin",
        "usr/share/seabios/bios.bin",
        "usr/share/qemu/bios-microvm.bin",
        "usr/share/qemu/linuxboot_dma.bin",
        "usr/share/qemu/kvmvapic.bin",
        "usr/share/qemu/pvh.bin",
        "usr/share/qemu/bios-256k.bin",
        "usr/share/qemu/linuxboot.bin",
        "usr/share/qemu/multiboot_dma.bin",
    ),
)

# Does what Debian's script of this name does with a bridge that is there already, by five programs in place of some
# forty: libxl gives a script 40 s, which those take on a busy machine. Source: tools/hotplug/Linux of Xen 4.17.
_VIF_BRIDGE = r"""#!/bin/busybox sh
fail() {
  xenstore-write "$XENBUS_PATH/hotplug-error" "vif-bridge $1: $2" "$XENBUS_PATH/hotplug-status" error
  exit 1
}
case "$1 $2" in
  "online type_if=vif")
    device=$vif
    name=$(xenstore-read "$XENBUS_PATH/vifname" 2>/dev/null)
    if [ -n "$name" ] && [ "$name" != "$device" ]; then
      ip link set dev "$device" name "$name" || fail "$device" "cannot be named $name"
      device=$name
    fi ;;
  "add type_if=tap") device=$INTERFACE ;;
  *) exit 0 ;;  # an interface that goes leaves its bridge
esac
bridge=$(xenstore-read "$XENBUS_PATH/bridge") || fail "$device" "has no bridge"
read -r mtu <"/sys/class/net/$bridge/mtu" || fail "$device" "$bridge is not there"
settings="arp off multicast off address fe:ff:ff:ff:ff:ff mtu $mtu master $bridge up"
ip link set dev "$device" $settings || fail "$device" "cannot be a port of $bridge"
[ "$1" != online ] || xenstore-write "$XENBUS_PATH/hotplug-status" connected
"""

XEN = NestedKind(
    name="xen",
    title="Xen 4.17 with Debian's dom0, under emulated AMD-V",
    # Without smap: iretq of a PV kernel faults; without rdtscp: PVH and HVM guests die of "Insn mismatch".
    # With AVX, programs of dom0 were seen to fail at random while a guest ran (busybox: segfault at 0).
    # With the SHA instructions a digest is wrong where the CPU turns to another guest within it: that one is 11.1's.
    cpu=f"max,+svm,-smap,-rdtscp,-xsave,-avx,-avx2,{_WITHOUT_SHA}",
    cpus=2,
    memory_mib=2048,
    packages=(*_COMMON_PACKAGES, "mount", "xen-utils-4.17", "xen-hypervisor-4.17-amd64", "bridge-utils"),
    programs=(
        *_COMMON_PROGRAMS,
        *(f"usr/lib/xen-4.17/bin/{name}" for name in ("xl", "oxenstored", "xenconsoled", "xen-init-dom0")),
        *(f"usr/bin/xenstore-{name}" for name in ("read", "write", "exists", "list", "rm", "ls")),
        "usr/bin/xenstore",
        "usr/sbin/bridge",
        "usr/sbin/brctl",
        "usr/sbin/losetup",
    ),
    modules=(
        *_COMMON_MODULES,
        "xen_evtchn",
        "xen_gntdev",
        "xen_gntalloc",
        "xenfs",
        "xen_privcmd",
        "xen_netback",
        "xen_blkback",
        "loop",
    ),
    data=("etc/xen/", "etc/default/", "usr/lib/xen-common/", "usr/lib/xen-4.17/boot/"),
    start=(
        "mkdir -p /var/log/xen /var/lib/xen /run/xen /run/xenstored /proc/xen",
        "mount -t xenfs xenfs /proc/xen",
        "oxenstored --pid-file /run/xenstored.pid",
        "for try in $(seq 200); do xenstore-read -s / >/dev/null 2>&1 && break; usleep 50000; done",
        # It names dom0 itself, and must be the first to: it skips the CPU pools otherwise.
        "xen-init-dom0",
        "xenconsoled --pid-file=/run/xenconsoled.pid",
        "ln -sf /usr/lib/xen-4.17/bin/xl /usr/sbin/xl",
        f"cat >/etc/xen/scripts/vif-bridge <<'END'\n{_VIF_BRIDGE}END",
    ),
    console="hvc0",
    hypervisor="boot/xen-4.17-amd64.gz",
    hypervisor_arguments="console=com1 com1=115200,8n1 dom0_mem=1024M,max:1024M",
)

# A kind of its own: QEMU with its libraries more than doubles the root, which PV and PVH guests would wait for.
XEN_HVM = replace(
    XEN,
    name="xen-hvm",
    title="the same with QEMU, the device model of HVM guests",
    packages=(*XEN.packages, "qemu-system-xen", "qemu-system-data", "seabios", "ipxe-qemu"),
    programs=(*XEN.programs, "usr/libexec/xen-qemu-system-i386"),
    data=(
        *XEN.data,
        "usr/share/seabios/bios-256k.bin",
        "usr/share/qemu/keymaps/en-us",
        "usr/share/qemu/kvmvapic.bin",
        "usr/share/qemu/linuxboot.bin",
        "usr/share/qemu/linuxboot_dma.bin",
        "usr/lib/ipxe/qemu/efi-e1000.rom",
        "usr/lib/ipxe/qemu/efi-rtl8139.rom",
    ),
)

# A kind of its own as well: with an IOMMU, without which xl hands no PCI device to a guest.
XEN_PCI = replace(
    XEN,
    name="xen-pci",
    title="the same as xen, with an emulated IOMMU (VT-d): its NICs can be handed to PV guests",
    devices=("intel-iommu",),
    modules=(*XEN.modules, "xen_pciback"),
)

_VIRTUALBOX = "usr/lib/virtualbox"
VIRTUALBOX = NestedKind(
    name="virtualbox",
    title="VirtualBox 7.2 of Debian unstable, under emulated AMD-V",
    # With -cpu max its guest never leaves the reset vector; with AVX the guest's first process dies in a signal.
    cpu=f"EPYC,-monitor,-xsave,-avx,-avx2,{_WITHOUT_SHA}",
    cpus=1,  # its contract takes no longer, and each CPU more is one more to lose an interrupt
    memory_mib=3072,
    packages=(
        *_COMMON_PACKAGES,
        "ethtool",
        "kmod",
        "linux-image-cloud-amd64",
        "linux-headers-cloud-amd64",
        "virtualbox",
        "virtualbox-dkms",
    ),
    programs=(
        *_COMMON_PROGRAMS,
        "usr/sbin/ethtool",
        "usr/bin/taskset",
        *(
            f"{_VIRTUALBOX}/{name}"
            for name in (
                "VBoxManage",
                "VBoxHeadless",
                "VBoxSVC",
                "VBoxXPCOMIPCD.so",
                "VBoxDD.so",
                "VBoxDD2.so",
                "VBoxDDU.so",
                "VBoxRT.so",
                "VBoxVMM.so",
                "VBoxXPCOM.so",
                "VBoxHeadless.so",
                "VBoxGuestControlSvc.so",
                "VBoxGuestPropSvc.so",
                "VBoxHostChannel.so",
                "VBoxSharedFolders.so",
                "VBoxSharedClipboard.so",
                "VBoxDragAndDropSvc.so",
                "VBoxVMMPreload.so",
                "components/VBoxC.so",
                "components/VBoxSVCM.so",
                "components/VBoxXPCOMIPCC.so",
            )
        ),
    ),
    modules=("virtio_pci", "virtio_net", DISK_DRIVER, "bridge", "tun", "veth", "vboxdrv", "vboxnetflt", "vboxnetadp"),
    data=(f"{_VIRTUALBOX}/VBoxDDR0.r0", f"{_VIRTUALBOX}/VMMR0.r0", f"{_VIRTUALBOX}/components/"),
    start=(
        f"ln -sf /{_VIRTUALBOX}/VBoxManage /usr/bin/VBoxManage",
        "mkdir -p /tmp /root; chmod 1777 /tmp; hostname virtualbox; echo 127.0.0.1 localhost virtualbox >/etc/hosts",
    ),
    # VirtualBox reckons its timers by the TSC: the kernel must not take another clock because a busy machine made the
    # TSC seem unstable to it. With high-resolution timers one of its module's interrupts the guest's CPU 1400 times
    # a second, often before the first instruction after VMRUN, which is where a guest died; its contract then takes
    # several times as long. Without nohz=off an idle CPU sets its timer for once, and sleeps for ever if that interrupt
    # is lost; a tick comes again (docs/decisions/emulator-of-nested-hosts.md).
    kernel_arguments="tsc=reliable highres=off nohz=off",
    suite="sid",
)

NESTED_HOSTS: dict[str, NestedKind] = {kind.name: kind for kind in (XEN, XEN_HVM, XEN_PCI, KVM, VIRTUALBOX)}
