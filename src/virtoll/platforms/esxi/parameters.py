"""What an experiment says of an ESXi host and of the machines on it, and which of it goes together.

Main type: ``EsxiParameters``. It must not connect to anything.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, StringConstraints, field_validator, model_validator

from virtoll.experiment.describe import Words
from virtoll.experiment.model import Switch, refuse
from virtoll.platforms.kernel_settings import KernelSettings

HTTPS_PORT = 443
_THUMBPRINT = r"^([0-9A-Fa-f]{2}:?){19}[0-9A-Fa-f]{2}$|^([0-9A-Fa-f]{2}:?){31}[0-9A-Fa-f]{2}$"
_PASSWORD = r"^(env:[A-Za-z_][A-Za-z0-9_]*|file:/.+)$"  # noqa: S105 - where a password is found, not one
_SERVER = r"^[A-Za-z0-9._-]+(:[0-9]{1,5})?$"
Name = Annotated[str, StringConstraints(min_length=1, max_length=80)]


class EsxiParameters(KernelSettings):
    """The host: ``server`` (name or address, with ``:port``), ``user``, ``datastore``.

    The password is never in the file:
    ``password_from``: ``env:NAME`` or ``file:/path`` (readable by its owner alone). ``verify``: whether its certificate
    must be one that this machine trusts; ``thumbprint`` (SHA-1 or SHA-256) trusts that certificate alone.
    Links (sources, sinks, marks): ``uplinks``, a vmnic for each, on a virtual switch that Virtoll makes; or
    ``port_groups`` that are there. Reservations: ``cpu_reservation_mhz``, ``memory_reservation``.
    ``serial``: ``listen``, the host listens for the agent's channel, from ``serial_port`` on; ``call``, it connects to
    ``callback``, an address of this machine.
    """

    unlabelled: ClassVar[frozenset[str]] = frozenset(
        {
            "server",
            "user",
            "password_from",
            "verify",
            "thumbprint",
            "datastore",
            "port_groups",
            "uplinks",
            "serial",
            "serial_port",
            "callback",
        }
    )
    server: (
        Annotated[
            str, StringConstraints(pattern=_SERVER), Words("a host name or address, with :port where it is another")
        ]
        | None
    ) = Field(default=None, description="the ESXi host")
    user: str = Field(default="root", description="user of the host's API")
    password_from: Annotated[str, StringConstraints(pattern=_PASSWORD), Words("env:NAME or file:/path")] | None = Field(
        default=None, description="where the password is: a variable, or a file that its owner alone may read"
    )
    verify: Switch = Field(
        default="on", description="whether the host's certificate must be one that this machine trusts"
    )
    thumbprint: (
        Annotated[str, StringConstraints(pattern=_THUMBPRINT), Words("an SHA-1 or SHA-256 in hexadecimal")] | None
    ) = Field(default=None, description="fingerprint of the only certificate that is trusted")
    datastore: Name | None = Field(default=None, description="datastore for the guests' files")
    nic: Literal["vmxnet3", "e1000e", "e1000"] = Field(default="vmxnet3", description="model of every link's NIC")
    port_groups: tuple[Name, ...] = Field(
        default=(), description="port groups that are there, one a link: sources, sinks, marks"
    )
    uplinks: tuple[
        Annotated[str, StringConstraints(pattern=r"^vmnic[0-9]+$"), Words("a vmnic such as vmnic1")], ...
    ] = Field(default=(), description="the host's NICs, one a link, each on a virtual switch that Virtoll makes")
    cpu_reservation_mhz: int = Field(default=0, ge=0, description="CPU that is reserved for the guest, in MHz")
    memory_reservation: Literal["none", "full"] = Field(
        default="none", description="whether all of the guest's memory is reserved"
    )
    latency_sensitivity: Literal["normal", "high"] = Field(
        default="normal", description="latency sensitivity, as ESXi has it"
    )
    serial: Literal["listen", "call"] = Field(
        default="listen", description="the agent's channel: the host listens for it, or calls this machine"
    )
    serial_port: int = Field(default=20000, ge=1024, le=65000, description="first TCP port of the agents' channels")
    callback: (
        Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]+$"), Words("a host name or address")] | None
    ) = Field(default=None, description="address of this machine that the host calls")

    @field_validator("latency_sensitivity")
    @classmethod
    def _is_reserved(cls, value: str, information: Any) -> str:
        if value == "high" and information.data.get("memory_reservation") != "full":
            refuse("latency_sensitivity high needs all memory reserved; add 'memory_reservation: full'")
        return value

    @model_validator(mode="after")
    def _goes_together(self) -> EsxiParameters:
        if not self.model_fields_set:
            return self  # none named yet: what 'virtoll doctor' has
        for key in ("server", "password_from", "datastore"):
            if getattr(self, key) is None:
                refuse(f"'{key}' is needed; 'virtoll show platform esxi' has what it is")
        if bool(self.port_groups) == bool(self.uplinks):
            refuse("one of 'uplinks' (vmnics, one a link) and 'port_groups' is needed, and not both")
        if len(set(self.uplinks)) != len(self.uplinks):
            refuse("uplinks: each link has a vmnic of its own; one is named twice")
        if (self.serial == "call") != (self.callback is not None):
            refuse("'serial: call' and 'callback' (this machine's address, as the host sees it) go together")
        return self

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the API."""
        host, _, port = (self.server or "").partition(":")
        return host, int(port or HTTPS_PORT)

    def link_names(self) -> tuple[str, ...]:
        """The vmnic or the port group of each link, in order."""
        return self.uplinks or self.port_groups
