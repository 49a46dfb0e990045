"""The platform ``esxi``: VMware ESXi through its API. ``driver`` is where to begin reading."""

from virtoll.platforms.esxi.driver import Esxi

__all__ = ["Esxi"]
