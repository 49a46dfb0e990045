"""A session with an ESXi host's API, by VMware's own library: logged in, its faults as sentences, logged out.

Main types: ``Session`` (what is in the host's inventory) and ``open_session``. One is opened for each action. So none
runs out of time while a guest is measured, and none stays on the host.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from pyVim.connect import Disconnect, SmartConnect
from pyVmomi import vim, vmodl

from virtoll.errors import GuestError
from virtoll.lab.outside import outside_network
from virtoll.platforms.esxi.parameters import EsxiParameters

Found = TypeVar("Found")
_CONNECT_SECONDS = 10.0
_ANSWER_SECONDS = 60
_POLL_SECONDS = 0.05


class Session:
    """What a host's inventory holds; each attribute of an API object that is read may be a question to the host."""

    def __init__(self, parameters: EsxiParameters, instance: Any, context: ssl.SSLContext) -> None:
        """``instance`` is the API's service instance, logged in."""
        self.parameters = parameters
        self.context = context
        self.instance = instance
        self.content = instance.content
        if self.content.about.apiType != "HostAgent":
            raise GuestError(
                f"server: {parameters.server} is {self.content.about.fullName}, not an ESXi host; name the host itself"
            )
        self.centre = self.content.rootFolder.childEntity[0]
        resource = self.centre.hostFolder.childEntity[0]
        self.host, self.pool = resource.host[0], resource.resourcePool

    @property
    def version(self) -> str:
        """For example ``VMware ESXi 8.0.2 build-21997540``."""
        return str(self.content.about.fullName)

    @property
    def cookie(self) -> str:
        """What a request to the datastore's own address is let in by."""
        return str(self.instance._stub.cookie).split(";")[0]  # noqa: SLF001 - the library has no other way to it

    def machines(self) -> dict[str, Any]:
        """All virtual machines by name, whoever made them."""
        machines = surviving(self.centre.vmFolder.childEntity, lambda entity: str(entity.name))
        return {name: entity for entity, name in machines if isinstance(entity, vim.VirtualMachine)}

    def machine(self, name: str) -> Any | None:
        """The virtual machine of that name, or None."""
        return self.machines().get(name)

    def networks(self) -> dict[str, Any]:
        """All networks that a NIC may be attached to, by name: port groups that are not the host's own."""
        return {
            name: network
            for network, name in surviving(self.centre.networkFolder.childEntity, lambda network: str(network.name))
        }

    def finish(self, task: Any, deadline_seconds: float = 120.0) -> Any:
        """Wait for a task; its result, or its fault raised."""
        deadline = time.monotonic() + deadline_seconds
        while True:
            properties = self._read(task, "info.state", "info.result", "info.error", "info.descriptionId")
            if properties["info.state"] == vim.TaskInfo.State.success:
                return properties.get("info.result")
            if properties["info.state"] == vim.TaskInfo.State.error:
                raise properties["info.error"]
            if time.monotonic() > deadline:
                what = properties.get("info.descriptionId")
                raise GuestError(f"{self.parameters.server}: '{what}' did not end in {deadline_seconds:g} s")
            time.sleep(_POLL_SECONDS)

    def _read(self, thing: Any, *paths: str) -> dict[str, Any]:
        """Some properties of an object, in one question and of one moment; those that are not set are left out."""
        properties = vmodl.query.PropertyCollector
        filter_spec = properties.FilterSpec(
            propSet=[properties.PropertySpec(type=type(thing), pathSet=list(paths))],
            objectSet=[properties.ObjectSpec(obj=thing)],
        )
        (answer,) = self.content.propertyCollector.RetrieveContents([filter_spec])
        return {pair.name: pair.val for pair in answer.propSet}


def surviving(things: Iterable[Any], read: Callable[[Any], Found]) -> list[tuple[Any, Found]]:
    """What is read of each of these objects; those that somebody removes meanwhile are left out."""
    readings = []
    for thing in things:
        with contextlib.suppress(vmodl.fault.ManagedObjectNotFound):
            readings.append((thing, read(thing)))
    return readings


@contextlib.contextmanager
def open_session(parameters: EsxiParameters) -> Iterator[Session]:
    """Logged in for the block, in the network outside the lab; every fault leaves it as a ``GuestError``."""
    password = read_password(parameters.password_from or "")
    host, port = parameters.address
    with outside_network():
        try:
            socket.create_connection((host, port), _CONNECT_SECONDS).close()  # said sooner than by the library
            context = _trust(parameters)
            instance = SmartConnect(
                host=host,
                port=port,
                user=parameters.user,
                pwd=password,
                sslContext=context,
                httpConnectionTimeout=_ANSWER_SECONDS,
            )
            try:
                yield Session(parameters, instance, context)
            finally:
                with contextlib.suppress(Exception):  # a host that has gone cannot be left in order
                    Disconnect(instance)
        except (vmodl.MethodFault, OSError, http.client.HTTPException) as error:
            raise GuestError(sentence(parameters, error)) from error


def read_password(source: str) -> str:
    """The password that ``env:NAME`` or ``file:PATH`` leads to; ``GuestError`` where it leads to none."""
    kind, _, where = source.partition(":")
    if kind == "env":
        password = os.environ.get(where, "")
        if not password:
            raise GuestError(f"password_from: the environment has no {where}; export {where} before the run")
        return password
    path = Path(where)
    try:
        if path.stat().st_mode & 0o077:
            raise GuestError(f"password_from: {path} can be read by others; chmod 0600 {path}")
        password = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise GuestError(f"password_from: {path} cannot be read: {error.strerror}") from error
    if not password:
        raise GuestError(f"password_from: {path} is empty; write the password into it")
    return password


def _trust(parameters: EsxiParameters) -> ssl.SSLContext:
    """The rules by which the host's certificate is trusted; with a thumbprint that certificate and no other."""
    if parameters.thumbprint is not None:
        certificate = _presented(parameters)
        thumbprint = parameters.thumbprint.replace(":", "").lower()
        shown = _thumbprint(certificate, "sha256" if len(thumbprint) == 64 else "sha1")
        if shown.replace(":", "").lower() != thumbprint:
            raise GuestError(
                f"thumbprint: {parameters.server} shows the certificate {shown}; compare it with the host's own console"
            )
        context = ssl.create_default_context(cadata=ssl.DER_cert_to_PEM_cert(certificate))
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.check_hostname = False
        return context
    context = ssl.create_default_context()
    if parameters.verify == "off":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _presented(parameters: EsxiParameters) -> bytes:
    """The certificate that the host shows, in DER, trusted or not."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    host, port = parameters.address
    with (
        socket.create_connection((host, port), _CONNECT_SECONDS) as plain,
        context.wrap_socket(plain, server_hostname=host) as connection,
    ):
        return connection.getpeercert(binary_form=True) or b""


def _thumbprint(certificate: bytes, algorithm: str) -> str:
    digits = hashlib.new(algorithm, certificate).hexdigest().upper()
    return ":".join(digits[at : at + 2] for at in range(0, len(digits), 2))


def sentence(parameters: EsxiParameters, error: Exception) -> str:
    """What went wrong with a host, and what to do, in one sentence."""
    server = parameters.server
    if isinstance(error, vmodl.MethodFault):
        return _refusal(server, parameters.user, error)
    if isinstance(error, ssl.SSLCertVerificationError):
        shown = "it"
        with contextlib.suppress(OSError):
            shown = _thumbprint(_presented(parameters), "sha256")
        return (
            f"{server}: its certificate is not trusted here; give its 'thumbprint' ({shown}, to be compared with the "
            "host's own console) or 'verify: off'"
        )
    if isinstance(error, socket.gaierror):
        return f"server: {server} is not known by that name in the lab; give its address"
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return f"{server} cannot be reached: {reason}; check 'server' and the network"


def _refusal(server: str | None, user: str, error: vmodl.MethodFault) -> str:
    if isinstance(error, vim.fault.InvalidLogin):
        return f"{server} does not let {user} in: wrong user or password; check 'user' and 'password_from'"
    if isinstance(error, vim.fault.RestrictedVersion):
        return f"{server}: its licence lets its API read only, as the free one does; assign one that does not"
    if isinstance(error, vim.fault.NoPermission):
        return f"{server}: {user} lacks the right {error.privilegeId}; docs/platforms/esxi.md has those that are needed"
    if isinstance(error, vim.fault.NotAuthenticated):
        return f"{server}: the session of {user} ended while it was needed; check the host's session limits"
    if isinstance(error, vim.fault.DuplicateName | vim.fault.FileAlreadyExists):
        name = error.name if isinstance(error, vim.fault.DuplicateName) else error.file
        return f"{server}: {name} is there already; remove it or give it another name"
    if isinstance(error, vim.fault.ResourceInUse):
        return f"{server}: {error.name or error.type} is in use; choose another"
    message = str(getattr(error, "msg", None) or "").strip().rstrip(".") or "no message"
    return f"{server} refused with {type(error).__name__.rpartition('.')[2]}: {message}"
