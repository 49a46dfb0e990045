"""MariaDB under sysbench's OLTP transactions from outside the guest (Suresh and Kannan 2014, Table 3).

The server is that of ``mariadb-oltp``, and listens at the guest's address besides. The client runs beside the peer, on
another CPU than the guest's, and reaches it over the guest's link, which can be shaped. All times are of the peer's
clock, which is outside the guest.
"""

from __future__ import annotations

from typing import Any, ClassVar

from virtoll.experiment.model import Image
from virtoll.workloads.base import Bench, Measurement, Metric, Needs, Workload, compared
from virtoll.workloads.mariadb_oltp import (
    LIMIT_BYTES,
    Database,
    MariadbOltp,
    OltpParameters,
    asked_for,
    client,
    counted,
    database_needs,
    database_server,
    folder_of,
    make_table,
    native_seconds,
    own_database,
    parse,
    server_command,
    transactions_command,
)
from virtoll.workloads.network_path import FarEnd, LinkParameters, peer_end
from virtoll.workloads.programs import attempt, ending, run

PORT = 3306  # MariaDB's own
USER = "virtoll"
_ROUND_TRIPS = 20  # of a transaction: its queries
_READY_SECONDS = 60.0


class MariadbOltpOutsideParameters(LinkParameters, OltpParameters):
    """As ``mariadb-oltp``, with the link between client and server as network workloads have it."""


class MariadbOltpOutside(Workload[MariadbOltpOutsideParameters]):
    """The check value is as that of ``mariadb-oltp``: what sysbench counted and how many rows are left."""

    name: ClassVar[str] = "mariadb-oltp-outside"
    title: ClassVar[str] = "MariaDB OLTP from outside"
    about: ClassVar[str] = "database transactions, client outside"
    origin: ClassVar[str] = "Suresh 2014"
    resource: ClassVar[str] = "application"
    loads_peer: ClassVar[bool] = True
    parameter_model = MariadbOltpOutsideParameters
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("transactions_per_second", "transactions/s", "higher", "figures"),
        Metric("latency_average", "ns", "lower", "figures"),
        Metric("latency_p95", "ns", "lower", "figures"),
        Metric("latency_p99", "ns", "lower", "figures"),
    )
    image: ClassVar[Image] = "full"
    packages: ClassVar[tuple[str, ...]] = ("mariadb-server", "sysbench")

    def needs(self) -> Needs:
        """As with the client in the guest: what it takes there is little."""
        return database_needs(self.parameters)

    def native_seconds(self) -> float:
        """As ``mariadb-oltp``, and the link's delay twice a query."""
        parameters = self.parameters
        waited = parameters.transactions * _ROUND_TRIPS * 2e-3 * parameters.link_delay_ms / parameters.threads
        return native_seconds(parameters) + waited

    def estimate_seconds(self, slowdown: float) -> float:
        """As ``mariadb-oltp``."""
        return 0.3 + 2 * self.native_seconds() * min(slowdown, MariadbOltp.most_slowdown)

    def measure(self, bench: Bench) -> Measurement:
        """A server of its own for the trial; it and its files are gone afterwards, also when the trial fails."""
        parameters, seconds = self.parameters, 60.0 + 1000.0 * self.native_seconds()
        with peer_end(bench, parameters) as end:
            programs, address = end.require_programs(), bench.network.sources[0].guest_address
            network, at = [f"--bind-address={address}", f"--port={PORT}"], own_database(bench)
            command = server_command(folder_of(bench), at.socket, parameters, network)
            with database_server(bench, command):
                make_table(bench, parameters, seconds, at)
                allow(bench, end, at)
                argv = transactions_command(at_address(address), parameters, at.name)
                run(programs, [argv[0], "--version"])  # into the page cache
                with bench.timekeeper.measuring():
                    program = attempt(programs, argv, seconds, LIMIT_BYTES)
                result: dict[str, Any] = {
                    "argv": argv,
                    "server_argv": command,
                    "status": program.status,
                    "output": program.output,
                    "complaints": program.complaints,
                    "shaped_by": end.shaped_by,
                    "figures": None,
                }
                if program.status != 0:
                    return Measurement(result=result, problem=f"{argv[0]} {ending(program)}")
                try:
                    result["figures"] = figures = parse(program.output)
                except ValueError as error:
                    return Measurement(result=result, problem=f"what {argv[0]} printed cannot be read: {error}")
                check, problem = compared(counted(bench, figures, at), asked_for(parameters))
        return Measurement(result=result, check=check, problem=problem)


def allow(bench: Bench, end: FarEnd, at: Database) -> None:
    """A user of the table, without a password, who comes from the peer's address alone."""
    user = f"'{USER}'@'{end.address}'"
    statement = f"CREATE USER {user}; GRANT ALL ON {at.name}.* TO {user}"
    run(bench.guest, client(at.socket, "mariadb", f"--execute={statement}"), _READY_SECONDS)


def at_address(address: str) -> list[str]:
    """sysbench's words for a server at an address."""
    return [f"--mysql-host={address}", f"--mysql-port={PORT}", f"--mysql-user={USER}"]
