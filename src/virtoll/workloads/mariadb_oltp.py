"""MariaDB under sysbench's OLTP transactions x threads (Camargos et al. 2008, Figure 9; Suresh 2014, Table 3).

The server is started for the trial inside the guest, with an empty database and a socket instead of a port. So neither
a network nor what an earlier trial left is measured. The client runs beside it, as in Camargos' experiment. The number
of transactions is given and their time is measured.

On the bare host one server may serve all clients that begin at once (Figure 11): each with a database of its own, or
all with the same. It is reached at a name that is no file: clients of one host have a file system each.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from pydantic import Field

from virtoll.experiment.model import Parameters
from virtoll.workloads.base import DURATION, Bench, Figures, Measurement, Metric, Needs
from virtoll.workloads.programs import ProgramOutput, ProgramWorkload, folder_of_its_own, run, serving

_MIB = 2**20
_POOL_BYTES, _INSTALLING_POOL_BYTES = 32 * _MIB, 8 * _MIB
_ROW_BYTES = 250  # with its share of the indexes
_FILES_BYTES = 64 * _MIB
# Measured: server and client take 67 MiB besides the page cache when the pool is full, 50 MiB with 10 000 rows, and 0.7
# MiB for each further thread; making the empty database takes 40 MiB.
_SERVER_BYTES, _THREAD_BYTES = 68 * _MIB, _MIB
_NATIVE_TRANSACTIONS_PER_SECOND = 700.0
LIMIT_BYTES = 256 * 1024
"""What is kept of sysbench's output: its histogram has up to 1024 lines."""
_START_SECONDS = 900.0
_REPORT = {
    "transactions": (r"^\s*transactions:\s+([0-9]+)\s", int),
    "transactions_per_second": (r"^\s*transactions:\s+[0-9]+\s+\(([0-9.]+) per sec\.\)$", float),
    "queries": (r"^\s*queries:\s+([0-9]+)\s", int),
    "queries_per_second": (r"^\s*queries:\s+[0-9]+\s+\(([0-9.]+) per sec\.\)$", float),
    "ignored_errors": (r"^\s*ignored errors:\s+([0-9]+)\s", int),
    "reconnects": (r"^\s*reconnects:\s+([0-9]+)\s", int),
    "total_seconds": (r"^\s*total time:\s+([0-9.]+)s$", float),
    "events": (r"^\s*total number of events:\s+([0-9]+)$", int),
}
_LATENCIES = {"minimum": "min", "average": "avg", "maximum": "max", "p95": "95th percentile"}
_BUCKET = re.compile(r"^\s*([0-9.]+) \|[* ]+ ([0-9]+)$", re.MULTILINE)  # its upper end in ms, and how many are in it


_SHARED_SOCKET = "@virtoll-mariadb"
_DEFAULT_CONNECTIONS, _SPARE_CONNECTIONS = 151, 8


class OltpParameters(Parameters):
    """``transactions`` by ``threads`` together on a table of ``rows``; ``mode``: sysbench's script of that name.

    Camargos: 10 000 transactions on 10 000 rows by 1 thread. Suresh: 2, 4 and 8 threads on what fits in memory.
    """

    mode: Literal["read-only", "read-write"] = Field(default="read-write", description="sysbench's script of that name")
    threads: int = Field(default=1, ge=1, le=256, description="threads of the client")
    transactions: int = Field(default=200, ge=1, le=100_000_000, description="transactions in all")
    rows: int = Field(default=1000, ge=100, le=10_000_000, description="rows of the table")


class MariadbOltpParameters(OltpParameters):
    """``server``: each guest has its *own*, or all guests at once share one, on the bare host alone.

    *shared*: each client has a database of its own there; *shared-database*: they share that too, and so wait for each
    other's rows.
    """

    server: Literal["own", "shared", "shared-database"] = Field(
        default="own",
        description="each guest has its own, or all guests at once share one of the host, or its database too",
    )


@dataclass(frozen=True)
class Database:
    """Where a client finds its table: the server's socket, and the name of the database."""

    socket: str
    name: str = "sbtest"


class MariadbOltp(ProgramWorkload[MariadbOltpParameters]):
    """The check value is what sysbench counted and how many rows are left: each transaction puts back what it takes."""

    name: ClassVar[str] = "mariadb-oltp"
    title: ClassVar[str] = "MariaDB OLTP"
    about: ClassVar[str] = "database transactions, client in the guest"
    origin: ClassVar[str] = "Camargos 2008"
    resource: ClassVar[str] = "application"
    parameter_model = MariadbOltpParameters
    metrics: ClassVar[tuple[Metric, ...]] = (
        DURATION,
        Metric("transactions_per_second", "transactions/s", "higher", "figures"),
        Metric("latency_average", "ns", "lower", "figures"),
        Metric("latency_p95", "ns", "lower", "figures"),
        Metric("latency_p99", "ns", "lower", "figures"),
    )
    packages: ClassVar[tuple[str, ...]] = ("mariadb-server", "sysbench")
    most_slowdown: ClassVar[float] = 12.0
    limit_bytes: ClassVar[int] = LIMIT_BYTES

    def native_seconds(self) -> float:
        """See the function."""
        return native_seconds(self.parameters)

    def needs(self) -> Needs:
        """The server with its threads, and room for its files."""
        return replace(database_needs(self.parameters), bare_host=self._shared)

    def measure(self, bench: Bench) -> Measurement:
        """A server of its own for the trial; it and its files are gone afterwards, also when the trial fails."""
        with self._server(bench):
            return super().measure(bench)

    @contextlib.contextmanager
    def _server(self, bench: Bench) -> Iterator[None]:
        """The guest's own, or the first guest's for all, from before the first to after the last."""
        folder, group = folder_of(bench), bench.group
        if not self._shared or group is None:
            with database_server(bench, server_command(folder, self._database(bench).socket, self.parameters)):
                yield
            return
        command = server_command(folder, _SHARED_SOCKET, self.parameters, clients=group.guests)
        with database_server(bench, command) if group.number == 0 else contextlib.nullcontext():
            group.meet()
            yield
            group.meet()

    def _database(self, bench: Bench) -> Database:
        if not self._shared:
            return own_database(bench)
        number = 0 if bench.group is None or self._one_database else bench.group.number
        return Database(_SHARED_SOCKET, f"sbtest{number + 1}")

    @property
    def _shared(self) -> bool:
        return self.parameters.server != "own"

    @property
    def _one_database(self) -> bool:
        return self.parameters.server == "shared-database"

    def command(self, bench: Bench) -> list[str]:
        """A given number of transactions, without a limit of time."""
        database = self._database(bench)
        return transactions_command(by_socket(database.socket), self.parameters, database.name)

    def prepare(self, bench: Bench) -> str | None:
        """The table, filled with the same numbers each time; one for all is made by the guest with the server.

        The others' marks wait for it, as for all that any guest prepares.
        """
        if not self._one_database or bench.group is None or bench.group.number == 0:
            make_table(bench, self.parameters, self.deadline_seconds(), self._database(bench))
        return None

    def figures(self, program: ProgramOutput) -> Figures:
        """Rates and latencies by the guest's clock."""
        return parse(program.output)

    def check(self, bench: Bench, figures: Figures) -> str:
        """What the tool counted, and the rows that the server counts."""
        return counted(bench, figures, self._database(bench))

    def expected_check(self) -> str | None:
        """What was asked for."""
        return asked_for(self.parameters)


def native_seconds(parameters: OltpParameters) -> float:
    """About 700 transactions a second on a bare host; what more threads bring is not counted on."""
    return 0.5 + parameters.transactions / _NATIVE_TRANSACTIONS_PER_SECOND


def database_needs(parameters: OltpParameters) -> Needs:
    """The server with its threads, and room for its files: the table twice, and what each thread may have to undo."""
    threads_bytes = parameters.threads * _THREAD_BYTES
    return Needs(
        _SERVER_BYTES + threads_bytes, data_bytes=_FILES_BYTES + 2 * _ROW_BYTES * parameters.rows + threads_bytes
    )


@contextlib.contextmanager
def database_server(bench: Bench, command: list[str]) -> Iterator[None]:
    """A server of the guest with an empty database, gone with its files after the context."""
    guest, folder = bench.guest, folder_of(bench)
    socket = next(word.partition("=")[2] for word in command if word.startswith("--socket="))
    ping = client(socket, "mariadb-admin", "ping")
    with folder_of_its_own(guest, folder):
        run(guest, install_command(folder), _START_SECONDS)
        with serving(guest, command, f"{folder}/log", ping, _START_SECONDS):
            yield


def make_table(bench: Bench, parameters: OltpParameters, seconds: float, at: Database) -> None:
    """The table, filled by the guest itself, with the same numbers each time."""
    run(bench.guest, client(at.socket, "mariadb", f"--execute=CREATE DATABASE {at.name}"))
    run(bench.guest, [*_sysbench(by_socket(at.socket), parameters, at.name), "prepare"], seconds + _START_SECONDS)


def transactions_command(server: list[str], parameters: OltpParameters, database: str) -> list[str]:
    """sysbench with a given number of transactions, without a limit of time; ``server``: its words for where it is."""
    how_many = [f"--threads={parameters.threads}", f"--events={parameters.transactions}", "--time=0", "--histogram=on"]
    return [*_sysbench(server, parameters, database), *how_many, "run"]


def counted(bench: Bench, figures: Figures, at: Database) -> str:
    """The check value: what sysbench counted, and the rows that the server counts afterwards."""
    counting = ["--batch", "--skip-column-names", f"--database={at.name}", "--execute=SELECT COUNT(*) FROM sbtest1"]
    rows = run(bench.guest, client(at.socket, "mariadb", *counting), 600.0).strip()
    return f"{figures['events']} events, {rows} rows"


def asked_for(parameters: OltpParameters) -> str:
    """The check value of a right answer."""
    return f"{parameters.transactions} events, {parameters.rows} rows"


def install_command(folder: str) -> list[str]:
    """The empty database; everything belongs to root, the guest's only user."""
    return [
        "mariadb-install-db",
        "--no-defaults",
        "--user=root",
        "--basedir=/usr",
        f"--datadir={folder}/data",
        f"--tmpdir={folder}",
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
        "--skip-name-resolve",
        *_memory(_INSTALLING_POOL_BYTES),
    ]


def server_command(
    folder: str,
    socket: str,
    parameters: OltpParameters,
    network: Sequence[str] = ("--skip-networking",),
    *,
    clients: int = 1,
) -> list[str]:
    """A socket, and the same small buffers everywhere; ``network``: its words for ports, by default for none.

    ``clients``: how many it serves, each with as many threads; it has a pool as large as so many servers together.
    """
    connections = max(_DEFAULT_CONNECTIONS, clients * parameters.threads + _SPARE_CONNECTIONS)
    return [
        "mariadbd",
        "--no-defaults",
        "--user=root",
        "--basedir=/usr",
        f"--datadir={folder}/data",
        f"--socket={socket}",
        f"--pid-file={folder}/pid",
        f"--tmpdir={folder}",
        *network,
        "--skip-name-resolve",
        f"--max-connections={connections}",
        *_memory(clients * _POOL_BYTES),
    ]


def _memory(pool_bytes: int) -> list[str]:
    """Small buffers, and an address space that every kernel gives.

    Without ``innodb-buffer-pool-size-max`` MariaDB 10.11 reserves 8 TiB of address space, which User-mode Linux has
    not. Native asynchronous input and output is io_uring here and not there, so that nobody gets it.
    """
    return [
        f"--innodb-buffer-pool-size={pool_bytes}",
        f"--innodb-buffer-pool-size-max={pool_bytes}",
        f"--innodb-log-file-size={8 * _MIB}",
        f"--innodb-log-buffer-size={2 * _MIB}",
        f"--key-buffer-size={_MIB}",
        f"--aria-pagecache-buffer-size={8 * _MIB}",
        "--innodb-use-native-aio=0",
        "--performance-schema=0",
    ]


def parse(output: str) -> Figures:
    """Counts, rates (1/s), total time (s) and latencies (ns) as sysbench 1.0 prints them; ValueError otherwise.

    It prints one percentile and the histogram from which it takes it: the 99th comes from there, by its own rule.
    """
    figures: dict[str, object] = {}
    for name, (pattern, kind) in _REPORT.items():
        figures[name] = kind(_only(pattern, output, name))
    for name, word in _LATENCIES.items():
        milliseconds = float(_only(rf"^\s*{word}:\s+([0-9.]+)$", output, f"latency {name}"))
        figures[f"latency_{name}"] = round(milliseconds * 1e6)
    figures["latency_p99"] = percentile_ns(output, 99)
    return figures


def percentile_ns(output: str, percent: float) -> int:
    """A percentile of latency, ns, from sysbench's histogram: the end of the first bucket up to which so many are.

    As ``sb_histogram_get_pct`` (sysbench, src/sb_histogram.c), so that it gives what sysbench would print, with a digit
    more. A bucket is 1.8 % wide. ValueError where there is no histogram.
    """
    buckets = [(float(end), int(count)) for end, count in _BUCKET.findall(output)]
    if not buckets:
        raise ValueError(f"no latency histogram in it: {output.strip()[-120:]!r}")
    rank = math.floor(sum(count for _, count in buckets) * percent / 100 + 0.5)
    counted = itertools.accumulate(count for _, count in buckets)
    end = next(end for (end, _), so_many in zip(buckets, counted, strict=True) if so_many >= rank)
    return round(end * 1e6)


def _only(pattern: str, output: str, name: str) -> str:
    match = re.search(pattern, output, re.MULTILINE)
    if match is None:
        raise ValueError(f"no {name.replace('_', ' ')} in it: {output.strip()[-120:]!r}")
    return match[1]


def client(socket: str, program: str, *arguments: str) -> list[str]:
    """A program that asks the server by its socket."""
    return [program, "--no-defaults", "--user=root", f"--socket={socket}", *arguments]


def by_socket(socket: str) -> list[str]:
    """sysbench's words for the server's socket."""
    return [f"--mysql-socket={socket}", "--mysql-user=root"]


def own_database(bench: Bench) -> Database:
    """That of the guest's own server."""
    return Database(f"{folder_of(bench)}/socket")


def folder_of(bench: Bench) -> str:
    """Where the database is in the guest."""
    return f"{bench.data.path}/virtoll-mariadb"


def _sysbench(server: list[str], parameters: OltpParameters, database: str) -> list[str]:
    script = f"oltp_{parameters.mode.replace('-', '_')}"
    table = [f"--mysql-db={database}", "--tables=1", f"--table-size={parameters.rows}", "--rand-seed=1"]
    return ["sysbench", script, "--db-driver=mysql", *server, *table]
