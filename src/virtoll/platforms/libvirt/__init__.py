"""libvirt, by `virsh` alone: `driver`, the connection, the lab's own daemon, the domain's XML."""
