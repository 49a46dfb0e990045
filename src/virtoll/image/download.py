"""Gets one file by its address, and believes it by its digest alone.

A proxy is taken from the environment, as Python's urllib does (http_proxy, https_proxy, no_proxy).

Main functions: `download` and `download_first`. Must not: unpack or keep what has another digest.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from virtoll.errors import ImageError

_STALL_SECONDS = 30.0  # without a byte
_MOST_SECONDS = 900.0  # for one file: as long as apt is given
_PIECE_BYTES = 1 << 20


class DownloadFailed(ImageError):
    """A file was not had from an address: a clause that names the address, what was expected and what came."""


class Unreachable(DownloadFailed):
    """No host was reached that has the file, each for the same reason."""

    def __init__(self, names: Sequence[str], hosts: Sequence[str], reason: str) -> None:
        """``names``: what the sentence says of each, as its address or its host."""
        super().__init__(f"{', '.join(names)} cannot be reached ({reason})")
        self.hosts, self.reason = tuple(hosts), reason


def download_first(urls: Sequence[str], file: Path, sha256: str) -> str:
    """Downloads from the first address that gives the file with this digest, and returns that address.

    `DownloadFailed` says what failed of each; `Unreachable` names the hosts alone, where that is the same of all.
    """
    failed: list[DownloadFailed] = []
    for url in urls:
        try:
            download(url, file, sha256)
        except DownloadFailed as error:
            failed.append(error)
        else:
            return url
    away = [error for error in failed if isinstance(error, Unreachable)]
    if 1 < len(away) == len(failed) and len({error.reason for error in away}) == 1:
        hosts = list(dict.fromkeys(host for error in away for host in error.hosts))
        raise Unreachable(hosts, hosts, away[0].reason)
    raise DownloadFailed("; ".join(map(str, failed)))


def download(url: str, file: Path, sha256: str) -> None:
    """Writes what is at an address to a file; `DownloadFailed`, and no file, where that has not this SHA-256 (hex)."""
    digest = hashlib.sha256()
    try:
        with file.open("wb") as target:
            for piece in _pieces(url):
                target.write(piece)
                digest.update(piece)
        if digest.hexdigest() != sha256:
            raise DownloadFailed(
                f"{url} gave {file.stat().st_size} bytes with SHA-256 {digest.hexdigest()} where {sha256} is expected"
            )
    except DownloadFailed:
        file.unlink()
        raise


def _pieces(url: str) -> Iterator[bytes]:
    """The content at an address, as long as the server said that it is; `DownloadFailed` says what went wrong."""
    import http.client  # these take long to import, and few runs download anything
    import urllib.error
    import urllib.parse
    import urllib.request

    began, got = time.monotonic(), 0
    try:
        with urllib.request.build_opener().open(url, timeout=_STALL_SECONDS) as answer:
            length = answer.headers.get("Content-Length")
            while piece := answer.read(_PIECE_BYTES):
                got += len(piece)
                yield piece
                if time.monotonic() - began > _MOST_SECONDS:
                    raise DownloadFailed(f"{url} gave {got} bytes in {_MOST_SECONDS:.0f} s and was not at its end")
    except urllib.error.HTTPError as error:
        raise DownloadFailed(f"{url} answered {error.code} {error.reason} where a file is expected") from error
    except urllib.error.URLError as error:
        host = urllib.parse.urlsplit(url).netloc
        raise Unreachable([url], [host], str(error.reason)) from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise DownloadFailed(f"{url} broke off after {got} bytes ({str(error) or type(error).__name__})") from error
    if length is not None and length.isdigit() and got != int(length):
        raise DownloadFailed(f"{url} ended after {got} bytes where {length} are expected")
