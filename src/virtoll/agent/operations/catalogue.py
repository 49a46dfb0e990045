"""All operations by name: for whoever reads requests, or looks whether each has what it needs."""

from __future__ import annotations

from typing import Any, Final

from virtoll.agent.operations.counters import CountersRequest
from virtoll.agent.operations.hand_over import HandOverRequest
from virtoll.agent.operations.http import HttpLoadRequest
from virtoll.agent.operations.jobs import RunRequest, ServeCloseRequest, ServeFinishRequest, ServeRequest
from virtoll.agent.operations.network import NetworkRequest
from virtoll.agent.operations.programs import DataRequest, EndRequest, ExecRequest, ProgressRequest, SpawnRequest
from virtoll.agent.operations.session import (
    ClocksRequest,
    FactsRequest,
    HelloRequest,
    ShutdownRequest,
    TerminalCloseRequest,
    TerminalInputRequest,
    TerminalRequest,
    TerminalResizeRequest,
)
from virtoll.agent.operations.timekeeping import MarksRequest, PathDelayRequest, TimekeeperStartRequest
from virtoll.agent.operations.traffic import (
    SendRequest,
    SinkCloseRequest,
    SinkFinishRequest,
    SinkOpenRequest,
    TrafficRequest,
    TrafficStartRequest,
    TrafficStopRequest,
)
from virtoll.agent.request import Request

OPERATIONS: Final[dict[str, type[Request[Any]]]] = {
    str(request.__struct_config__.tag): request
    for request in (
        HelloRequest,
        ClocksRequest,
        FactsRequest,
        NetworkRequest,
        RunRequest,
        ExecRequest,
        SpawnRequest,
        ProgressRequest,
        EndRequest,
        DataRequest,
        ServeRequest,
        ServeFinishRequest,
        ServeCloseRequest,
        TerminalRequest,
        TerminalInputRequest,
        TerminalResizeRequest,
        TerminalCloseRequest,
        ShutdownRequest,
        TimekeeperStartRequest,
        MarksRequest,
        PathDelayRequest,
        TrafficRequest,
        TrafficStartRequest,
        TrafficStopRequest,
        SinkOpenRequest,
        SendRequest,
        SinkFinishRequest,
        SinkCloseRequest,
        HttpLoadRequest,
        CountersRequest,
        HandOverRequest,
    )
}
