"""Platforms on the host's own kernel, and gVisor: processes of this machine in namespaces."""
