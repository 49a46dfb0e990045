"""Virtoll: what a virtualisation platform costs against the bare host, on this machine."""

__version__ = "0.1.0"
