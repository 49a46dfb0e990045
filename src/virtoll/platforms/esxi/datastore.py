"""Files on an ESXi host's datastore: room, upload and download over HTTPS with the session's cookie, removal.

Main type: ``Datastore``. All that one machine needs is in one folder of its own, named as the machine is.
"""

from __future__ import annotations

import contextlib
import http.client
import urllib.parse
from pathlib import Path
from typing import Any

from pyVmomi import vim

from virtoll.errors import GuestError
from virtoll.platforms.esxi.session import Session

_ANSWER_SECONDS = 600.0
_MIB = 2**20


class Datastore:
    """The datastore that the experiment names; ``GuestError`` where the host has none of that name, or no access."""

    def __init__(self, session: Session) -> None:
        """Look it up."""
        self._session = session
        self.name = session.parameters.datastore
        known = {datastore.name: datastore for datastore in session.centre.datastoreFolder.childEntity}
        if self.name not in known:
            raise GuestError(
                f"datastore: {self.name} is not on {session.parameters.server}; it has: {', '.join(sorted(known))}"
            )
        self.reference: Any = known[self.name]
        if not self.reference.summary.accessible:
            raise GuestError(
                f"datastore: {self.name} cannot be accessed by {session.parameters.server}; check it there"
            )

    @property
    def file_system(self) -> str:
        """Its kind, as the API names it: VMFS, NFS."""
        return str(self.reference.summary.type)

    def path(self, name: str) -> str:
        """A file's name as the API writes it."""
        return f"[{self.name}] {name}"

    def require(self, needed_bytes: int) -> None:
        """A ``GuestError`` where there is less room than this."""
        free = int(self.reference.summary.freeSpace)
        if free < needed_bytes:
            raise GuestError(
                f"datastore: {self.name} has {free // _MIB} MiB free and a guest needs {-(-needed_bytes // _MIB)} MiB; "
                "remove something there or name another"
            )

    def make_folder(self, name: str) -> None:
        """A folder that was not there; the API's fault where it was."""
        self._session.content.fileManager.MakeDirectory(
            name=self.path(name), datacenter=self._session.centre, createParentDirectories=False
        )

    def remove_folder(self, name: str) -> None:
        """A folder and all in it; harmless when it is gone."""
        manager = self._session.content.fileManager
        with contextlib.suppress(vim.fault.FileNotFound):
            self._session.finish(
                manager.DeleteDatastoreFile_Task(name=self.path(name), datacenter=self._session.centre)
            )

    def folders(self, prefix: str) -> list[str]:
        """Folders whose names begin so."""
        browser = vim.host.DatastoreBrowser
        spec = browser.SearchSpec(query=[browser.FolderQuery()], matchPattern=[f"{prefix}*"])
        task = self.reference.browser.SearchDatastore_Task(datastorePath=f"[{self.name}]", searchSpec=spec)
        listing = self._session.finish(task)
        return sorted(str(folder.path) for folder in listing.file if str(folder.path).startswith(prefix))

    def upload(self, source: Path, name: str) -> None:
        """Put a file of this machine there, holes and all."""
        with source.open("rb") as stream:
            self._put(name, stream, source.stat().st_size)

    def write(self, name: str, content: bytes) -> None:
        """Make a file there."""
        self._put(name, content, len(content))

    def _put(self, name: str, body: Any, length: int) -> None:
        status, answer = self._ask("PUT", name, body, {"Content-Length": str(length)})
        if status not in (200, 201):
            why = f"HTTP {status} {answer.decode(errors='replace')[:80]}".strip()
            raise GuestError(
                f"datastore: {self.name} did not take {name} ({why}); check its space and the user's rights"
            )

    def download(self, name: str) -> bytes:
        """A file from there; empty where it is not there."""
        status, content = self._ask("GET", name, None, {})
        return content if status == 200 else b""

    def _ask(self, method: str, name: str, body: Any, headers: dict[str, str]) -> tuple[int, bytes]:
        host, port = self._session.parameters.address
        where = urllib.parse.urlencode({"dcPath": self._session.centre.name, "dsName": self.name})
        connection = http.client.HTTPSConnection(
            host, port, context=self._session.context, timeout=_ANSWER_SECONDS, blocksize=_MIB
        )
        try:
            path = f"/folder/{urllib.parse.quote(name)}?{where}"
            connection.request(method, path, body, {"Cookie": self._session.cookie, **headers})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()
