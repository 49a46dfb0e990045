"""The platform ``esxi``: VMware ESXi through its API. ``driver`` is where to begin reading."""

from virtoll.platforms.esxi.driver import Esxi
from virtoll.platforms.esxi.leftovers import remove_leftovers_by_api

__all__ = ["Esxi", "remove_leftovers_by_api"]
