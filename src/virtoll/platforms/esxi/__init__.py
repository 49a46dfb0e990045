"""The platform ``esxi``: VMware ESXi through its API. ``driver`` is where to begin reading."""

from virtoll.platforms.esxi.driver import Esxi
from virtoll.platforms.esxi.parameters import EsxiParameters

__all__ = ["Esxi", "remove_leftovers_by_api"]


def remove_leftovers_by_api(parameters: EsxiParameters, alive: frozenset[str] = frozenset()) -> list[str]:
    """As ``leftovers`` has it; imported here, it would bring VMware's library with every platform."""
    from virtoll.platforms.esxi import leftovers

    return leftovers.remove_leftovers_by_api(parameters, alive)
