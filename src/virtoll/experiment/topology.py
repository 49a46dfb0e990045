"""The ``testbed`` section of an experiment: which host and which of its NICs generates, sinks, and holds the guests.

Main types: ``Testbed``, ``Role``, ``NeighbourNics``, ``HostAddress``. Plain, checked data: nothing here reaches a host.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, field_validator, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from virtoll.experiment.describe import Words
from virtoll.experiment.near import did_you_mean, near


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


NESTED = "nested:"
FUNCTIONAL_ONLY = "nested: functional only"
"""The caveat of everything measured in a nested host: its timing is that of an emulated host."""
_ALLOWED = "one of 'local', 'nested:KIND', {ssh: user@host}, {node: label}, {api: host} and {netns: name} is allowed"


class HostAddress(_Model):
    """A host: ``local`` (this one), ``ssh`` (user@host), ``nested`` (a testbed emulated for the run, of this kind),
    ``node`` (a label; where a run is measured it is told which host that is: ``virtoll.hosts.nodes``), ``api`` (one
    that is driven by its product's own API, by its name), ``guests`` (each guest has NICs of its own that its user
    wired), or for tests ``netns`` (a name or a process's number).
    """

    local: bool = Field(default=False, description="this machine")
    ssh: Annotated[str, Words("user@host or a name of ~/.ssh/config")] | None = Field(
        default=None, pattern=r"^[A-Za-z0-9._@%:\[\]][A-Za-z0-9._@%:\[\]-]*$", description="a host over SSH"
    )
    node: Annotated[str, Words("a label, such as generator")] | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$",
        description="a host by its label, as a batch system gives another one to each task",
    )
    netns: str | int | None = Field(
        default=None, description="for tests: a network namespace's name, or a process's number"
    )
    api: Annotated[str, Words("a host name or address, with :port where it is another")] | None = Field(
        default=None, pattern=r"^[A-Za-z0-9._-]+(:[0-9]+)?$", description="a host that its product's own API drives"
    )
    nested: Literal["xen", "xen-hvm", "xen-pci", "kvm", "virtualbox"] | None = Field(
        default=None, description="a hypervisor host emulated for the run, of this kind"
    )
    guests: bool = Field(default=False, description="each guest has NICs of its own, that its user wired")

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """A file names a host by a word, or by a mapping of one key."""
        properties = handler.resolve_ref_schema(handler(core))["properties"]
        kinds = get_args(get_args(cls.model_fields["nested"].annotation)[0])
        words = {"enum": ["local", "guests", *(f"{NESTED}{kind}" for kind in kinds)]}
        keys = {key: properties[key] for key in ("ssh", "node", "api", "netns")}
        mapping = {"type": "object", "properties": keys, "additionalProperties": False, "minProperties": 1}
        return {"anyOf": [words, {**mapping, "maxProperties": 1}]}

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, written: Any) -> Any:
        if isinstance(written, str) and written.startswith(NESTED):
            return {"nested": written.removeprefix(NESTED)}
        if not isinstance(written, str):
            return written
        if written not in ("local", "guests"):
            question = did_you_mean(near(written, ["local", "guests"]))
            raise ValueError(f"{written!r} is no host; {question}{_ALLOWED}")
        return {written: True}

    @model_validator(mode="after")
    def _one(self) -> Self:
        kinds = [
            self.local,
            self.ssh is not None,
            self.node is not None,
            self.netns is not None,
            self.nested is not None,
            self.api is not None,
            self.guests,
        ]
        if kinds.count(True) != 1:
            raise ValueError(_ALLOWED)
        return self

    @property
    def words(self) -> str:
        """``local``, ``ssh user@host``, ``node label``, ``nested xen``, an API's host, ``each guest``, ``netns n``."""
        if self.guests:
            return "each guest"
        if self.local or self.nested is not None:
            return "local" if self.local else f"nested {self.nested}"
        if self.api is not None:
            return self.api
        if self.node is not None:
            return f"node {self.node}"
        return f"ssh {self.ssh}" if self.ssh is not None else f"netns {self.netns}"

    @property
    def caveat(self) -> str | None:
        """What everything measured there is marked with; None: nothing."""
        return FUNCTIONAL_ONLY if self.nested is not None else None


class Role(_Model):
    """Who plays a part: a host, and its NICs for it in order."""

    host: HostAddress = Field(description="the host: local, {ssh: user@host}, {node: label} or {api: host}")
    interfaces: list[str] = Field(min_length=1, max_length=7, description="its NICs by name, in order")


class NeighbourNics(_Model):
    """NICs of one guest beside the measured one, on the hosts of these roles: one to send from, one to count at.

    ``hypervisor`` has the two that face them, in this order.
    """

    generator: str = Field(description="NIC to send from, on the generator's host")
    sink: str = Field(description="NIC to count at, on the sink's host")
    hypervisor: list[str] = Field(description="the hypervisor's two NICs that face them, in this order")

    @field_validator("generator", "sink", mode="before")
    @classmethod
    def _one_name(cls, written: Any) -> Any:
        if not isinstance(written, str):
            raise ValueError("the name of one interface is allowed, on the host of this role")
        return written

    @field_validator("hypervisor", mode="before")
    @classmethod
    def _two_names(cls, written: Any) -> Any:
        if not isinstance(written, list) or len(written) != 2:
            raise ValueError("a list of two interfaces is allowed: one that faces the generator's, one the sink's")
        return written


class Testbed(_Model):
    """``generator`` has a NIC a source; ``sink`` one for all of them, or one a source.

    Each may be a list, of which the first is ``generator`` or ``sink``, and the others are ``more_generators`` or
    ``more_sinks``; their interfaces are in order.

    ``hypervisor`` has those that face them, in this order: the generator's, the sink's, the timekeeper's.

    Either the guests are on this machine, and generator and sink elsewhere: then the hypervisor's NICs are moved into
    the lab for the run. Or the guests are on a host over SSH, and generator and sink on this machine, whose NICs are
    moved. Then ``timekeeper`` may name one more here, which faces one more of the hypervisor's, for the marks. Without
    ``hypervisor`` the NICs that face this machine's are each guest's own, which its platform names (``ssh``). Physical
    NICs come back when the run ends.

    ``neighbour``: NICs of one guest beside the measured one, where that shall have some.
    ``flow_control``: whether this machine's NICs obey and send pause frames (IEEE 802.3) meanwhile; None: as they are.
    """

    generator: Role = Field(description="who sends, with a NIC a source; or a list of such hosts")
    more_generators: tuple[Role, ...] = Field(default=(), description="further generators, from a list")
    sink: Role = Field(description="who counts, with one NIC for all sources or one a source; or a list of such hosts")
    more_sinks: tuple[Role, ...] = Field(default=(), description="further sinks, from a list")
    hypervisor: Role = Field(
        description="who holds the guests, with the NICs that face the generator's, the sink's, the timekeeper's"
    )
    timekeeper: Role | None = Field(
        default=None, description="this machine's NIC for marks, which faces one more of the hypervisor's"
    )
    neighbour: NeighbourNics | None = Field(default=None, description="NICs of one guest beside the measured one")
    flow_control: bool | None = Field(
        default=None, description="whether this machine's NICs obey and send pause frames; without it, as they are"
    )

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """A file has further generators and sinks in a list, and may leave the hypervisor out."""
        schema = handler.resolve_ref_schema(handler(core))
        properties = {key: dict(value) for key, value in schema["properties"].items()}
        for key, more in (("generator", "more_generators"), ("sink", "more_sinks")):
            role = properties.pop(more)["items"]
            texts = {"description": properties[key]["description"]}
            properties[key] = {**texts, "anyOf": [role, {"type": "array", "items": role, "minItems": 1}]}
        return {**schema, "properties": properties, "required": ["generator", "sink"]}

    @model_validator(mode="before")
    @classmethod
    def _lists(cls, written: Any) -> Any:
        """A list of generators or sinks."""
        made = dict(written) if isinstance(written, dict) else written
        for key, more in (("generator", "more_generators"), ("sink", "more_sinks")):
            if isinstance(written, dict) and isinstance(roles := written.get(key), list) and roles:
                made |= {key: roles[0], more: roles[1:]}
        return made

    @model_validator(mode="before")
    @classmethod
    def _without_hypervisor(cls, written: Any) -> Any:
        """Left out, the NICs that face this machine's are each guest's own: its first, second, ... one."""
        if not isinstance(written, dict) or "hypervisor" in written:
            return written
        roles = [written[key] for key in ("generator", "sink", "timekeeper") if written.get(key) is not None]
        if not roles or any(not isinstance(role, dict) or role.get("host") != "local" for role in roles):
            return written
        count = sum(len(names) for role in roles if isinstance(names := role.get("interfaces"), list))
        return {**written, "hypervisor": {"host": "guests", "interfaces": [str(number) for number in range(count)]}}

    @model_validator(mode="after")
    def _roles_fit(self) -> Self:
        here = (self.generator.host.local, self.sink.host.local)
        if self.hypervisor.host.local and any(here):
            raise ValueError("generator and sink: hosts that are not this one; leave 'testbed' out to use this one")
        for key, roles in (("generator", self.generators), ("sink", self.sinks)):
            if len(roles) > 1 and (not self.hypervisor.host.local or any(role.host.local for role in roles)):
                raise ValueError(f"{key}: a list is of hosts that are not this one, for guests on this machine")
        if self.generator.host.guests or self.sink.host.guests:
            raise ValueError("generator and sink: 'guests' is none of their hosts; name one")
        return self

    @model_validator(mode="after")
    def _hypervisor_fits(self) -> Self:
        address = self.hypervisor.host
        there = address.ssh is not None or address.api is not None or address.guests
        if address.guests and self.hypervisor.interfaces != [str(number) for number in range(len(self.near))]:
            raise ValueError("hypervisor: leave it out where each guest names its own 'interfaces'")
        if not self.hypervisor.host.local and not (there and self.generator.host.local and self.sink.host.local):
            raise ValueError(
                "hypervisor: {ssh: user@host} or {api: host} with generator and sink 'local', or 'local' with them "
                "elsewhere"
            )
        if self.timekeeper is not None and (self.hypervisor.host.local or not self.timekeeper.host.local):
            raise ValueError("timekeeper: 'local', for a hypervisor over SSH; leave it out")
        return self

    @model_validator(mode="after")
    def _interfaces_fit(self) -> Self:
        sources, sinks = len(self.source_interfaces), len(self.sink_interfaces)
        if not sinks <= sources <= 3:
            raise ValueError("the generator has one interface a source, at most 3, and the sink no more than it")
        marks = len(self.timekeeper.interfaces) if self.timekeeper else 0
        if marks > 1 or len(self.hypervisor.interfaces) != sources + sinks + marks:
            raise ValueError(
                "hypervisor.interfaces: one that faces each of the generator's, then the sink's, then the timekeeper's"
            )
        return self

    @model_validator(mode="after")
    def _neighbour_fits(self) -> Self:
        neighbour, host = self.neighbour, self.hypervisor.host
        if neighbour is None:
            return self
        if host.guests or host.api is not None:
            raise ValueError(
                "neighbour: its guest is on this machine, or on a hypervisor over SSH; leave it out with others"
            )
        if host.local and not self.one_host:
            raise ValueError("neighbour: one agent sends to its guest and counts; put generator and sink on one host")
        roles = (self.generator, self.sink, self.hypervisor, *([self.timekeeper] if self.timekeeper else []))
        named = [(role.host, name) for role in roles for name in role.interfaces]
        interfaces = [(self.generator.host, neighbour.generator), (self.sink.host, neighbour.sink)]
        for address, name in [*interfaces, *((host, name) for name in neighbour.hypervisor)]:
            if (address, name) in named:
                raise ValueError(f"neighbour: {name} ({address.words}) is there twice; name an interface of its own")
            named.append((address, name))
        return self

    @property
    def generators(self) -> tuple[Role, ...]:
        """All of them."""
        return (self.generator, *self.more_generators)

    @property
    def source_interfaces(self) -> tuple[str, ...]:
        """Their interfaces, one a source."""
        return tuple(name for role in self.generators for name in role.interfaces)

    @property
    def sinks(self) -> tuple[Role, ...]:
        """All sinks."""
        return (self.sink, *self.more_sinks)

    @property
    def sink_interfaces(self) -> tuple[str, ...]:
        """Their interfaces, in order."""
        return tuple(name for role in self.sinks for name in role.interfaces)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The labels of its hosts that are nodes, each once."""
        named = (role.host.node for role in (*self.generators, *self.sinks))
        return tuple(dict.fromkeys(label for label in named if label is not None))

    def on(self, hosts: Mapping[str, HostAddress]) -> Self:
        """The same with these hosts in the place of its nodes, by their labels; each of ``nodes`` must be there."""

        def placed(role: Role) -> Role:
            label = role.host.node
            return role if label is None else role.model_copy(update={"host": hosts[label]})

        generators, sinks = map(placed, self.generators), map(placed, self.sinks)
        (generator, *more_generators), (sink, *more_sinks) = generators, sinks
        return self.model_copy(
            update={
                "generator": generator,
                "more_generators": tuple(more_generators),
                "sink": sink,
                "more_sinks": tuple(more_sinks),
            }
        )

    @property
    def one_host(self) -> bool:
        """Generator and sink are on one host, so that one agent carries a whole trial out."""
        return not self.more_generators and not self.more_sinks and self.generator.host == self.sink.host

    @property
    def far(self) -> tuple[tuple[HostAddress, tuple[str, ...]], ...]:
        """The host of generator and sink with its interfaces for them, or each generator's and then each sink's.

        Empty where both are this machine.
        """
        if self.generator.host.local:
            return ()
        if self.one_host:
            return ((self.generator.host, (*self.source_interfaces, *self.sink_interfaces)),)
        return tuple((role.host, tuple(role.interfaces)) for role in (*self.generators, *self.sinks))

    @property
    def far_of_neighbour(self) -> tuple[tuple[HostAddress, tuple[str, ...]], ...]:
        """That host once more, with its interfaces for the guest beside the measured one.

        Empty where it is this machine, and where no NICs are named for that guest.
        """
        if self.neighbour is None or self.generator.host.local:
            return ()
        return ((self.generator.host, (self.neighbour.generator, self.neighbour.sink)),)

    @property
    def near(self) -> tuple[str, ...]:
        """This machine's NICs for measured guests, in the order of those that they face."""
        if self.hypervisor.host.local:
            return tuple(self.hypervisor.interfaces)
        roles = (self.generator, self.sink, *([self.timekeeper] if self.timekeeper else []))
        return tuple(name for role in roles for name in role.interfaces)

    @property
    def near_of_neighbour(self) -> tuple[str, ...]:
        """This machine's NICs for the guest beside the measured one, in the order of those that they face."""
        if self.neighbour is None:
            return ()
        if self.hypervisor.host.local:
            return tuple(self.neighbour.hypervisor)
        return (self.neighbour.generator, self.neighbour.sink)

    @property
    def moved(self) -> tuple[str, ...]:
        """All of this machine's NICs that are moved into the lab."""
        return (*self.near, *self.near_of_neighbour)

    @property
    def this_machine(self) -> bool:
        """Generator and sink run on this machine's CPUs (its own or in namespaces), so its pinning holds for them."""
        return all(host.netns is not None for host, _ in self.far)
