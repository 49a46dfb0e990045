"""The ``testbed`` section of an experiment: which host and which of its NICs generates, sinks, and holds the guests.

Main types: ``Testbed``, ``Role``, ``HostAddress``. Plain, checked data: nothing here reaches a host.
"""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class HostAddress(_Model):
    """A host: ``local`` (this one), ``ssh`` (user@host), or for tests ``netns`` (a name or a process's number)."""

    local: bool = False
    ssh: str | None = Field(default=None, pattern=r"^[A-Za-z0-9._@%:\[\]][A-Za-z0-9._@%:\[\]-]*$")
    netns: str | int | None = None

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, given: Any) -> Any:
        return {"local": True} if given == "local" else given

    @model_validator(mode="after")
    def _one(self) -> Self:
        if [self.local, self.ssh is not None, self.netns is not None].count(True) != 1:
            raise ValueError("one of 'local', {ssh: user@host} and {netns: name} is allowed")
        return self

    @property
    def words(self) -> str:
        """``local``, ``ssh user@host`` or ``netns name``."""
        return "local" if self.local else f"ssh {self.ssh}" if self.ssh is not None else f"netns {self.netns}"


class Role(_Model):
    """Who plays a part: a host, and its NICs for it in order."""

    host: HostAddress
    interfaces: list[str] = Field(min_length=1, max_length=4)


class Testbed(_Model):
    """``generator`` has a NIC a source; ``sink`` one; ``hypervisor`` (this machine) those that face them, sink's last.

    The hypervisor's NICs are moved into the lab for the run; physical ones come back when it ends.
    """

    generator: Role
    sink: Role
    hypervisor: Role

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if not self.hypervisor.host.local:
            raise ValueError("hypervisor: only 'local' yet: run Virtoll on the machine that holds the guests")
        if len(self.sink.interfaces) != 1 or len(self.generator.interfaces) > 3:
            raise ValueError("the sink has one interface, the generator one a source, at most 3")
        if len(self.hypervisor.interfaces) != len(self.generator.interfaces) + 1:
            raise ValueError("hypervisor.interfaces: one that faces each of the generator's, then the sink's")
        if self.generator.host.local or self.sink.host.local:
            raise ValueError("generator and sink: hosts that are not this one; leave 'testbed' out to use this one")
        return self

    @property
    def far(self) -> tuple[tuple[HostAddress, tuple[str, ...]], ...]:
        """The host of generator and sink with its interfaces for them, or the generator's and then the sink's."""
        sources, sink = tuple(self.generator.interfaces), tuple(self.sink.interfaces)
        if self.generator.host == self.sink.host:
            return ((self.generator.host, (*sources, *sink)),)
        return ((self.generator.host, sources), (self.sink.host, sink))

    @property
    def this_machine(self) -> bool:
        """Generator and sink run on this machine's CPUs (namespaces), so its pinning holds for them."""
        return all(host.netns is not None for host, _ in self.far)
