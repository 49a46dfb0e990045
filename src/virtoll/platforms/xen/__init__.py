"""Xen by `xl` in dom0: `driver`, and what it does in dom0."""
