"""nginx under a fixed rate of requests from outside the guest (Suresh and Kannan 2014, Figure 5, by httperf).

The generator is the peer's agent. Requests become due at a fixed rate whatever the server does, and each latency counts
from the moment when its request was due. A generator that waits for a slow reply before it sends the next request
leaves out what the server owed meanwhile (coordinated omission). This one does not. All times are of the peer's clock.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from virtoll.agent.client import Caller
from virtoll.agent.operations.http import HttpLoadReply, HttpLoadRequest
from virtoll.experiment.model import Image
from virtoll.lab.network import Link
from virtoll.runfolder.records import Check
from virtoll.workloads.base import Bench, Figures, Measurement, Metric, Needs, Workload, compared
from virtoll.workloads.network_path import LinkParameters, peer_end
from virtoll.workloads.nginx_server import MEMORY_BYTES, PATH, PORT, WebParameters, web_server

_WARM_REQUESTS = 20
_STARTING_SECONDS = 0.1


class NginxParameters(LinkParameters, WebParameters):
    """``keep_alive``: a connection serves many requests; else each request makes its own, as httperf's did.

    ``link_...``: the link between client and server, as network workloads have it.
    """

    keep_alive: bool = Field(
        default=False, description="whether a connection serves many requests; else each request makes its own"
    )


class Nginx(Workload[NginxParameters]):
    """An open loop; the check value is the books: every request is a reply, a timeout or a failure.

    The primary metric is the median latency: at a fixed rate all platforms that keep up reply equally often.
    """

    name: ClassVar[str] = "nginx"
    title: ClassVar[str] = "nginx at a fixed rate from outside"
    about: ClassVar[str] = "latency of web requests, client outside"
    resource: ClassVar[str] = "application"
    loads_peer: ClassVar[bool] = True
    parameter_model = NginxParameters
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("latency_p50", "ns", "lower", "figures"),
        Metric("replies_per_second", "replies/s", "higher", "figures"),
        Metric("latency_p99", "ns", "lower", "figures"),
    )
    image: ClassVar[Image] = "full"
    packages: ClassVar[tuple[str, ...]] = ("nginx-light",)

    def needs(self) -> Needs:
        """The server's memory, and the file."""
        return Needs(MEMORY_BYTES + int(self.parameters.size_bytes))

    def estimate_seconds(self, slowdown: float) -> float:
        """The schedule is the peer's; starting the server is the guest's."""
        return self.parameters.schedule_seconds + _STARTING_SECONDS * slowdown

    def measure(self, bench: Bench) -> Measurement:
        """Start the server, have the generator's end of the link addressed, warm up, and load it once."""
        parameters = self.parameters
        bench.require_sources()
        link = bench.network.sources[0]
        folder = f"{bench.data.path}/virtoll-nginx"
        with web_server(bench.guest, folder, link.guest_address, parameters), peer_end(bench, parameters) as client:
            http_load(client.agent, link, parameters, _WARM_REQUESTS, client.cpu)
            with bench.timekeeper.measuring():
                answer = http_load(client.agent, link, parameters, parameters.requests, client.cpu)
        measured = figures(answer, parameters)
        check, problem = check_books(answer, parameters)
        result = {**answer.to_json(), "shaped_by": client.shaped_by, "figures": measured}
        return Measurement(result=result, check=check, problem=problem)


def http_load(peer: Caller, link: Link, parameters: NginxParameters, requests: int, cpu: int | None) -> HttpLoadReply:
    """Have the agent at the link's other end send so many requests, as parameters say; its answer."""
    timeout_seconds = parameters.timeout_milliseconds / 1000
    request = HttpLoadRequest(
        target=f"{link.guest_address}:{PORT}",
        path=PATH,
        requests=requests,
        keep_alive=parameters.keep_alive,
        rate_requests_per_second=parameters.rate_requests_per_second,
        connections=parameters.connections,
        timeout_ns=parameters.timeout_milliseconds * 1_000_000,
        cpu=cpu,
    )
    return peer.ask(request, 30 + 2 * (requests / parameters.rate_requests_per_second + timeout_seconds))


def figures(answer: HttpLoadReply, parameters: NginxParameters) -> Figures:
    """Replies/s over the schedule, or to the last reply where that is later; latencies in ns from the due time.

    A request that timed out is in the latencies with the time after which it was given up, one that failed is not.
    """
    schedule_ns = parameters.schedule_seconds * 1e9
    last = answer.last_reply_monotonic_ns
    span_ns = max(schedule_ns, (last - answer.start_monotonic_ns) if last is not None else 0.0)
    latency = answer.latency_ns.to_json() if answer.latency_ns is not None else {}
    failed = sum(answer.failures.values())
    return {
        "replies_per_second": answer.replies / span_ns * 1e9,
        **{f"latency_{name}": latency.get(name) for name in ("p50", "p90", "p99", "p999", "maximum", "mean")},
        "unanswered_share": (answer.timeouts + failed) / answer.intended_requests,
    }


def check_books(answer: HttpLoadReply, parameters: NginxParameters) -> tuple[Check, str | None]:
    """The check, and why it is not right: books that do not balance, or a reply that is not the file."""
    failed = sum(answer.failures.values())
    counted = answer.replies + answer.timeouts + failed
    good = answer.statuses.get("200", 0)
    value = f"{counted} requests, {good} of {answer.replies} replies good, {answer.body_bytes} bytes"
    size = int(parameters.size_bytes)
    replies = answer.replies
    expected = f"{parameters.requests} requests, {replies} of {replies} replies good, {replies * size} bytes"
    silent = f"no request was answered: {answer.timeouts} timed out, failures {answer.failures}"
    return compared(value, expected, None if answer.replies else silent)
