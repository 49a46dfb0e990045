"""The web server under test: nginx, started for the trial in the guest, with a configuration of the trial's own.

Debian's own configuration listens on [::]:80, which a kernel without IPv6 (User-mode Linux, gVisor) refuses. This one
listens on one IPv4 address and writes nothing outside its folder.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from pydantic import ByteSize, Field

from virtoll.agent.client import Caller
from virtoll.experiment.model import Parameters
from virtoll.workloads.programs import folder_of_its_own, run, serving, write

PORT = 8080
PATH = "/file"
_BLOCK_BYTES = 64
_START_SECONDS = 300.0
MEMORY_BYTES = 48 * 2**20


class WebParameters(Parameters):
    """``requests`` at a fixed rate for a file of ``size_bytes`` (a multiple of 64 B), each given up after a time.

    ``connections``: the most that are open at once; ``workers``: nginx's processes that serve.
    """

    rate_requests_per_second: float = Field(default=200.0, gt=0, le=1e6, description="requests per second")
    requests: int = Field(default=400, ge=10, le=100_000_000, description="requests in all")
    size_bytes: ByteSize = Field(
        default=ByteSize(1024),
        ge=_BLOCK_BYTES,
        le=16 * 2**20,
        multiple_of=_BLOCK_BYTES,
        description="size of the file that is asked for",
    )
    connections: int = Field(default=256, ge=1, le=900, description="connections that are open at once at most")
    workers: int = Field(default=1, ge=1, le=64, description="nginx's processes that serve")
    timeout_milliseconds: int = Field(default=2000, ge=1, le=600_000, description="when a request is given up, in ms")

    @property
    def schedule_seconds(self) -> float:
        """From the first request's due time to an interval after the last one's."""
        return self.requests / self.rate_requests_per_second


@contextlib.contextmanager
def web_server(guest: Caller, folder: str, address: str, parameters: WebParameters) -> Iterator[None]:
    """nginx with one file, listening on one address; it and its folder are gone afterwards."""
    with folder_of_its_own(guest, folder):
        run(guest, ["mkdir", f"{folder}/html"])
        write(guest, f"{folder}/nginx.conf", configuration(folder, address, parameters))
        blocks = parameters.size_bytes // _BLOCK_BYTES
        output = f"of={folder}/html{PATH}"
        run(guest, ["dd", "if=/dev/zero", output, f"bs={_BLOCK_BYTES}", f"count={blocks}", "status=none"])
        command = ["nginx", "-e", "stderr", "-p", folder, "-c", f"{folder}/nginx.conf"]
        with serving(guest, command, f"{folder}/log", ["test", "-s", f"{folder}/pid"], _START_SECONDS):
            yield


def configuration(folder: str, address: str, parameters: WebParameters) -> str:
    """nginx.conf: no log, no limit on the requests of a connection, one address of IPv4."""
    return f"""daemon off;
user root;
worker_processes {parameters.workers};
pid {folder}/pid;
error_log stderr warn;
events {{ worker_connections {parameters.connections + 100}; }}
http {{
    access_log off;
    sendfile on;
    default_type application/octet-stream;
    keepalive_requests 1000000000;
    keepalive_timeout 600s;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen {address}:{PORT} backlog=1024;
        root {folder}/html;
    }}
}}
"""
