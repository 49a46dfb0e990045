"""The typed operations of the agent against exchanges that really took place (tools/record_protocol.py)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, get_args, get_origin, get_type_hints

import pytest
from tests.support.facts import Command, refused
from tests.support.made_up_points import point_of
from tests.support.repository import RECORDED, ROOT

from virtoll.agent.client import PROTOCOL
from virtoll.agent.operations.catalogue import OPERATIONS
from virtoll.agent.operations.jobs import ServeRequest, StreamExchange
from virtoll.agent.operations.network import Interface, NetworkRequest
from virtoll.agent.operations.session import TerminalExit
from virtoll.agent.request import REBUILD, Request
from virtoll.errors import ProtocolError
from virtoll.runfolder.record import Record
from virtoll.runfolder.store import parse_record
from virtoll.runfolder.traffic_records import Point, TrafficReply

EXCHANGES = sorted((RECORDED / "protocol").glob("*.json"))


def exchange(path: Path) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Operation, request and reply."""
    recorded = json.loads(path.read_text(encoding="utf-8"))
    assert recorded["request"]["op"] == recorded["operation"]
    return recorded["operation"], recorded["request"], recorded["reply"]


@pytest.mark.parametrize("path", EXCHANGES, ids=lambda path: path.stem)
def test_a_recorded_exchange_is_read_and_written_as_it_was(path: Path) -> None:
    op, asked, answered = exchange(path)
    request = OPERATIONS[op].from_json(asked)
    assert request.to_json() == asked
    reply = request.read_reply(answered, "the agent")
    assert contains(reply.to_json(), answered)


def test_each_operation_has_a_recorded_exchange_and_is_specified() -> None:
    assert {exchange(path)[0] for path in EXCHANGES} == set(OPERATIONS)
    assert all(path.stem.startswith(exchange(path)[0]) for path in EXCHANGES)
    page = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
    headings = [
        name for heading in re.findall(r"^###? .*", page, re.MULTILINE) for name in re.findall(r"`(.+?)`", heading)
    ]
    assert set(OPERATIONS) <= {*headings, *re.findall(r"`([a-z-]+) \{", page)}


# SHA-256 of what the requests of the protocol may hold. A change of them is a new protocol: `PROTOCOL` in crates/proto
# and in agent/client.py is raised.
REQUESTS = {6: "56b44abdcf981ae07cc3561d17773a620ed4b7bf1126650a184611ae77e0dfac"}


def test_a_change_of_the_requests_raises_the_number_of_the_protocol() -> None:
    """An agent refuses a field that it does not know: an older one would fail each trial, and not say why."""
    held = {op: dict(shapes(request)) for op, request in OPERATIONS.items()}
    digest = hashlib.sha256(json.dumps(held, sort_keys=True).encode()).hexdigest()
    assert {PROTOCOL: digest} == REQUESTS, "the requests changed: raise PROTOCOL on both sides, and renew this digest"


def shapes(kind: type[Record]) -> Iterator[tuple[str, object]]:
    """The fields of a message with those of the messages that they hold."""
    for name, hint in fields_of(kind):
        yield name, {part.__name__: dict(shapes(part)) for part in messages_in(hint)}


def fields_of(kind: type[Record]) -> list[tuple[str, object]]:
    """The fields of a message with their types."""
    hints = get_type_hints(kind).items()
    return [(name, hint) for name, hint in hints if not name.startswith("_") and get_origin(hint) is not ClassVar]


def messages_in(hint: object) -> list[type[Record]]:
    """The types of messages that a field's type names."""
    if isinstance(hint, type) and issubclass(hint, Record):
        return [hint]
    return [found for part in get_args(hint) for found in messages_in(part)]


def places(value: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The way to every value in a JSON object that is no container."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if parts is None:
        yield path
    for name, part in parts or ():
        yield from places(part, (*path, str(name)))


def put(value: Any, path: tuple[str, ...], new: object) -> None:
    """Replace the value at a place."""
    for name in path[:-1]:
        value = value[int(name) if isinstance(value, list) else name]
    value[int(path[-1]) if isinstance(value, list) else path[-1]] = new


@pytest.mark.parametrize("path", EXCHANGES, ids=lambda path: path.stem)
def test_a_malformed_reply_names_operation_and_field(path: Path) -> None:
    op, asked, answered = exchange(path)
    request = OPERATIONS[op].from_json(asked)
    for place in list(places(answered)):
        if op in ("run", "serve-finish") and (place[0] == "result" or (place[0] == "connections" and len(place) > 1)):
            continue  # the job's own
        broken = json.loads(json.dumps(answered))
        put(broken, place, {"no": ["such", "value"]})
        with refused("guest 1", f"'{op}'", Command(REBUILD), error=ProtocolError) as raised:
            request.read_reply(broken, "guest 1")
        assert f"`$.{place[0]}" in str(raised.value), "the field, or one that holds it"


def test_what_is_not_given_is_not_written() -> None:
    assert Interface(mac="m").to_json() == {"mac": "m"}
    assert Interface(mac="m", name=None, vlans=()).to_json() == {"mac": "m", "vlans": []}
    assert NetworkRequest(interfaces=(Interface(mac="m"),)).replace(ip_forward=None).to_json() == {
        "op": "network",
        "interfaces": [{"mac": "m"}],
    }
    serve = ServeRequest(
        address="10.0.0.1",
        timeout_ns=1,
        exchange=StreamExchange(active="opener", bytes=1, message_bytes=8),
    )
    assert (serve.cpu, serve.port) == (None, 0)
    assert serve.to_json()["exchange"]["kind"] == "stream"
    assert "port" not in serve.to_json()


def all_below(kind: type[Record]) -> set[type[Record]]:
    """Every message class."""
    return {kind}.union(*(all_below(one) for one in kind.__subclasses__()))


def test_no_field_has_the_name_of_what_every_message_has() -> None:
    assert len(all_below(Record)) > 60
    for kind in all_below(Record):
        assert not {name for name, _ in fields_of(kind)} & set(dir(Request)), kind


def test_a_terminals_end_has_the_code_that_a_shell_tells() -> None:
    assert TerminalExit(status=3, signal=None).code == 3
    assert TerminalExit(status=None, signal=9).code == 137


def contains(whole: object, part: object) -> bool:
    """Whether all that ``part`` has is in ``whole`` unchanged; objects may have more keys."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(name in whole and contains(whole[name], value) for name, value in part.items())
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) == len(whole) and all(map(contains, whole, part))
    return whole == part


@pytest.mark.parametrize("case", ["traffic", "traffic-shaped"])
def test_a_point_is_stored_with_all_that_the_agent_answered(case: str) -> None:
    reported = json.loads((EXCHANGES[0].parent / f"{case}.json").read_text(encoding="utf-8"))["reply"]
    point = point_of(None, 5, TrafficReply.from_json(reported))
    stored = parse_record(Point, point.to_json()).to_json()
    assert contains(stored, reported)
    assert (stored["intended_rate_frames_per_second"], stored["duration_ns"], stored["hops"]) == (None, 5, None)
