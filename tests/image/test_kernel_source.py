"""Where the guest kernel comes from: each source by its digest, then the next one, and what a refusal names."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.support.facts import Command, Fact, assert_facts, refused
from tests.support.made_deb import NAME, kernel_files, made_deb

from virtoll.errors import ImageError, UsageError, remedy_for
from virtoll.image import debian, kernel_source
from virtoll.image.cache import Cache
from virtoll.image.deb import control_fields, unpack
from virtoll.image.kernel import prepare_kernel, unpack_kernel
from virtoll.image.kernel_source import LockedKernel, kernel_download, kernel_package

DEB = made_deb(kernel_files())
DIGEST = hashlib.sha256(DEB).hexdigest()
ALTERED = DEB[:-1] + b"x"
REMEDY = ("http_proxy", kernel_source.VARIABLE)
NOWHERE = "http://127.0.0.1:9/there-is-no-server.deb"


@dataclass
class Server:
    """`asked`: the paths that were asked for, in order."""

    address: str
    asked: list[str] = field(default_factory=list)

    def lock(self, *names: str) -> LockedKernel:
        urls = tuple(name if "://" in name else f"{self.address}/{name}" for name in names)
        return LockedKernel(NAME, "6.1.99-1", len(DEB), DIGEST, urls)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server of this machine: good, altered (another digest), short (it breaks off); anything else is not found."""
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.delenv(kernel_source.VARIABLE, raising=False)
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            sent = {"/good": DEB, "/altered": ALTERED, "/short": DEB[:100]}.get(self.path)
            if sent is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(DEB)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, *_: object) -> None:
            """Nothing: the tests look at what was asked."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield Server(f"http://127.0.0.1:{listening.server_address[1]}", asked)
        listening.shutdown()
        thread.join()


def fetched(cache: Cache, locked: LockedKernel | None = None, *, offline: bool = False) -> debian.Package:
    return kernel_package(cache, offline=offline, progress=lambda _: None, locked=locked)


def test_the_locks_kernel_is_downloaded_once_and_named_with_its_source(server: Server, cache: Cache) -> None:
    locked = server.lock("good")
    package = fetched(cache, locked)
    assert package.file.read_bytes() == DEB
    facts = (package.name, package.version, package.architecture, package.sha256, package.source)
    assert facts == (NAME, "6.1.99-1", debian.architecture(), DIGEST, f"{server.address}/good")
    assert fetched(cache, locked, offline=True) == package
    assert server.asked == ["/good"]


@pytest.mark.parametrize("bad", ["altered", "short", "missing", NOWHERE])
def test_where_a_source_fails_the_next_one_is_asked(server: Server, cache: Cache, bad: str) -> None:
    assert fetched(cache, server.lock(bad, "good")).source == f"{server.address}/good"


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("altered", (f"{len(DEB)} bytes", hashlib.sha256(ALTERED).hexdigest(), DIGEST)),
        ("short", ("100 bytes", len(DEB))),
        ("missing", (404, "Not Found")),
        (NOWHERE, ("Connection refused",)),
    ],
)
def test_a_failed_download_is_refused_and_nothing_is_kept(
    server: Server, cache: Cache, monkeypatch: pytest.MonkeyPatch, name: str, facts: tuple[Fact, ...]
) -> None:
    (url,) = server.lock(name).urls
    monkeypatch.setenv(kernel_source.VARIABLE, f"{url}#sha256={DIGEST}")
    with refused(url, *facts, *REMEDY, error=ImageError):
        fetched(cache)
    assert not list((cache.home / "objects").iterdir())
    assert not list((cache.home / "building").iterdir())


def test_without_a_network_the_refusal_names_hosts_alone(
    server: Server, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The errors of each address and of apt come before it, a line each."""

    def no_apt(*_: object, **__: object) -> debian.Package:
        raise ImageError("E: no.such.package.")

    monkeypatch.setattr(debian, "fetch_package", no_apt)
    messages: list[str] = []
    away = server.lock("http://127.0.0.1:9/main/a.deb", "http://127.0.0.1:9/security/a.deb", "http://127.0.0.2:9/a.deb")
    hosts = ("127.0.0.1:9", "127.0.0.2:9")
    with refused(NAME, *hosts, "apt", *REMEDY, error=ImageError, without=("a.deb", "no.such.package")):
        kernel_package(cache, offline=False, progress=messages.append, locked=away)
    assert_facts(messages[-1], "apt", "no.such.package")


def test_offline_asks_nobody_and_names_what_is_missing(server: Server, cache: Cache) -> None:
    with refused(NAME, Command(remedy_for("image")), error=ImageError):
        fetched(cache, server.lock("good"), offline=True)
    assert server.asked == []


def test_a_kernel_that_apt_brought_stays(server: Server, cache: Cache) -> None:
    def fill(folder: Path) -> None:
        (folder / "package.deb").write_bytes(b"by apt")
        facts = {"name": "linux-image-6.1.0-1-amd64", "version": "6.1.1-1", "architecture": "amd64", "sha256": "e" * 64}
        (folder / "package.json").write_text(json.dumps(facts), encoding="utf-8")

    cache.build(f"package-linux-image-{debian.architecture()}", fill, lambda _: None)
    package = fetched(cache, server.lock("good"))
    assert (package.version, package.source, server.asked) == ("6.1.1-1", "apt", [])
    assert kernel_download(cache) is None


def test_a_named_address_goes_before_the_cache(server: Server, cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched(cache, server.lock("good"))
    other = hashlib.sha256(ALTERED).hexdigest()
    monkeypatch.setenv(kernel_source.VARIABLE, f"{server.address}/altered#sha256={other.upper()}")
    assert fetched(cache).sha256 == other
    assert fetched(cache, offline=True).source == f"{server.address}/altered"
    assert server.asked == ["/good", "/altered"]


def test_a_users_file_is_a_kernel_without_dpkg_and_its_digest_is_kept(
    server: Server, cache: Cache, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "mine.deb"
    file.write_bytes(DEB)
    monkeypatch.setenv(kernel_source.VARIABLE, str(file))
    monkeypatch.setenv("PATH", str(tmp_path))
    kernel = prepare_kernel(cache, offline=True, progress=lambda _: None)
    assert (kernel.source, kernel.package_sha256, kernel.release) == ("file mine.deb", DIGEST, "6.1.0-99-made")
    assert [module.name for module in kernel.modules] == ["failover.ko", "virtio_net.ko"]
    assert kernel.vmlinuz.read_bytes() == b"a kernel"
    assert (kernel_download(cache), server.asked) == (None, [])


def test_a_file_that_is_handed_in_goes_before_all_that_is_named(
    cache: Cache, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Two kernels in one run: the one that the others have, and the one that some are measured with too."""
    file = tmp_path / "other.deb"
    file.write_bytes(DEB)
    monkeypatch.setenv(kernel_source.VARIABLE, "/no/such/kernel.deb")
    kernel = prepare_kernel(cache, offline=True, progress=lambda _: None, file=file)
    assert (kernel.source, kernel.package_sha256) == ("file other.deb", DIGEST)
    file.write_bytes(b"text")
    with refused(file, error=UsageError):
        prepare_kernel(cache, offline=True, progress=lambda _: None, file=file)


@pytest.mark.parametrize(
    "named",
    [
        "/no/such/kernel.deb",
        "http://host/kernel.deb",
        "file:///kernel.deb#sha256=" + "a" * 64,
        "http://host/kernel.deb#sha256=abc",
    ],
)
def test_an_unusable_name_is_refused(cache: Cache, monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    monkeypatch.setenv(kernel_source.VARIABLE, named)
    for ask in (fetched, kernel_download):
        with refused(kernel_source.VARIABLE, repr(named), "apt", ".deb", error=UsageError):
            ask(cache)


@pytest.mark.parametrize(
    ("content", "facts"),
    [
        (b"text", ("mine.deb", "ar")),
        (DEB[:-50], ("mine.deb", "data.tar.xz", "bytes")),
        (made_deb({}, architecture="riscv64"), ("mine.deb", "riscv64")),
        (made_deb({}), ("mine.deb", NAME)),
        (made_deb({"boot/vmlinuz-6": b""}), ("kernel 6", "modules")),
    ],
)
def test_an_unusable_file_is_refused(
    cache: Cache, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes, facts: tuple[Fact, ...]
) -> None:
    file = tmp_path / "mine.deb"
    file.write_bytes(content)
    monkeypatch.setenv(kernel_source.VARIABLE, str(file))
    with pytest.raises((UsageError, ImageError)) as caught:
        prepare_kernel(cache, offline=True, progress=lambda _: None)
    assert_facts(str(caught.value), *facts)


def test_a_package_that_changed_in_the_cache_is_not_unpacked(server: Server, cache: Cache, tmp_path: Path) -> None:
    package = replace(fetched(cache, server.lock("good")), sha256="0" * 64)
    with refused(package.file, "0" * 64, Command("virtoll clean --cache"), error=ImageError):
        unpack_kernel(package, tmp_path / "unpacked")
    assert not (tmp_path / "unpacked").exists()


def test_only_plain_files_below_the_folder_are_taken_from_a_package(tmp_path: Path) -> None:
    deb = tmp_path / "package.deb"
    deb.write_bytes(made_deb({"a/b": b"1", "../out": b"2", "a/link@": b"/etc", "a/not": b"3"}))
    unpack(deb, tmp_path / "into", lambda path: path != "a/not")
    found = [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()]
    assert sorted(found) == ["into/a/b", "package.deb"]
    assert control_fields(deb)["Package"] == NAME


def test_the_lock_has_whole_entries_for_each_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    for architecture in ("amd64", "arm64"):
        monkeypatch.setattr(debian, "architecture", lambda name=architecture: name)
        locked = kernel_source.locked_kernel()
        assert locked.package.endswith(architecture)
        assert len(bytes.fromhex(locked.sha256)) == 32
        assert locked.bytes > 10**7
        for url in locked.urls:
            assert url.endswith(f"/{locked.package}_{locked.version}_{architecture}.deb")
    monkeypatch.setattr(debian, "architecture", lambda: "s390x")
    with refused("s390x", "amd64", "arm64", error=ImageError):
        kernel_source.locked_kernel()
