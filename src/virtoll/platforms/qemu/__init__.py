"""QEMU with TCG and with KVM: `driver`, its command line, its monitor."""
