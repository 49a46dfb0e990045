"""MicroVM monitors that are driven by an HTTP API on a Unix socket: Firecracker, Cloud Hypervisor."""
