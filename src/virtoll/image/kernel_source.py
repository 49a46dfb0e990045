"""Where the guest kernel's package comes from: what the user names, the cache, the lock's addresses, apt.

The lock (`kernels.yaml`) comes before apt, so that two hosts with empty caches get the same kernel. A kernel that apt
brought into the cache stays until the cache is cleared, and is what runs here use.

Main functions: `kernel_package`, and `kernel_download`, which says beforehand what would be downloaded. Must not:
unpack a package.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache as once
from importlib.resources import files
from pathlib import Path
from typing import Final

import yaml

from virtoll.errors import ImageError, UsageError, remedy_for
from virtoll.image import deb, debian
from virtoll.image.cache import Cache, Progress, file_digest
from virtoll.image.download import DownloadFailed, Unreachable, download_first

VARIABLE: Final = "VIRTOLL_KERNEL"
_BY_APT: Final = "apt"
_METAPACKAGES: Final = {"amd64": "linux-image-amd64", "arm64": "linux-image-arm64"}
_CONCRETE: Final = r"linux-image-\d[\w.+-]*"
_URL: Final = re.compile(r"(https?://[^#\s]+)#sha256=([0-9a-fA-F]{64})")
_FORMS: Final = "apt, the path of a .deb file, or http(s)://...deb#sha256=HEX with its 64 digits"
_REMEDY: Final = f"check the network and http_proxy, or let {VARIABLE} name another source"


@dataclass(frozen=True)
class LockedKernel:
    """A kernel's package of the lock. `urls`: where the same file is; `bytes` and `sha256` are that file's."""

    package: str
    version: str
    bytes: int
    sha256: str
    urls: tuple[str, ...]


@dataclass(frozen=True)
class KernelDownload:
    """What has to be downloaded before a machine can be started; `bytes`: None where that is known only then."""

    what: str
    bytes: int | None


def locked_kernel() -> LockedKernel:
    """The lock's kernel for this machine's architecture; `ImageError` where Debian has none that is tried."""
    architecture = debian.architecture()
    try:
        return locked_kernels()[architecture]
    except KeyError:
        raise ImageError(
            f"There is no guest kernel for {architecture}: use one of {', '.join(locked_kernels())}."
        ) from None


def kernel_package(
    cache: Cache,
    *,
    offline: bool,
    progress: Progress,
    locked: LockedKernel | None = None,
    file: Path | None = None,
) -> debian.Package:
    """The guest kernel's package for this machine's architecture; downloaded on first use. `locked`: another lock's.

    `file`: a package of the user's own, whatever else is named; `UsageError` where it is none for this machine.

    `UsageError` for a `VIRTOLL_KERNEL` that names none. `ImageError` where it is not cached and `offline`, or cannot be
    had: it says what failed of each source.
    """
    if file is not None:
        return _local(file, str(file))
    locked = locked or locked_kernel()
    named = os.environ.get(VARIABLE, "")
    if named == _BY_APT:
        return _by_apt(cache, offline=offline, progress=progress)
    if named:
        chosen = _address(named, locked)
        return (
            _local(Path(named).absolute(), VARIABLE) if chosen is None else _fetched(cache, chosen, offline, progress)
        )
    object_folder = cache.find(_reference(locked)) or cache.find(_apt_reference())
    if object_folder is not None or offline:
        return _read(object_folder, f"The guest kernel {locked.package}")
    try:
        return _fetched(cache, locked, offline, progress)
    except DownloadFailed as error:
        progress(f"{error}; asking apt")
        try:
            return _by_apt(cache, offline=offline, progress=progress)
        except ImageError as second:
            by_apt = f"by apt: {str(second).rstrip('.')}"
            if isinstance(error, Unreachable):  # apt asks the same hosts, and says it at length
                progress(by_apt)
                by_apt = "apt has none either"
            raise ImageError(
                f"The guest kernel {locked.package} is not available ({error}; {by_apt}): {_REMEDY}."
            ) from second


def kernel_download(cache: Cache) -> KernelDownload | None:
    """What a run with a machine would download for its kernel; None where it has it. Without the network."""
    locked = locked_kernel()
    named = os.environ.get(VARIABLE, "")
    if named == _BY_APT:
        return None if cache.find(_apt_reference()) else KernelDownload("Debian's kernel by apt", None)
    if named:
        chosen = _address(named, locked)
        lacks = chosen is not None and cache.find(_reference(chosen)) is None
        return KernelDownload(named.partition("#")[0], None) if lacks else None
    if cache.find(_reference(locked)) or cache.find(_apt_reference()):
        return None
    return KernelDownload(f"{locked.package} {locked.version}", locked.bytes)


@once
def locked_kernels() -> Mapping[str, LockedKernel]:
    """The lock's kernel for each architecture, by Debian's name for it."""
    document = yaml.safe_load((files("virtoll.image") / "kernels.yaml").read_text(encoding="utf-8"))
    return {name: LockedKernel(**{**entry, "urls": tuple(entry["urls"])}) for name, entry in document.items()}


def _reference(locked: LockedKernel) -> str:
    return f"package-sha256-{locked.sha256[:32]}"


def _apt_reference() -> str:
    return f"package-{_METAPACKAGES[debian.architecture()]}"


def _address(named: str, locked: LockedKernel) -> LockedKernel | None:
    """What the variable names by an address and a digest; None for a file. `UsageError` for what is neither."""
    if "://" not in named:
        if not Path(named).is_file():
            raise UsageError(f"{VARIABLE} is {named!r}, and there is no such file; give {_FORMS}")
        return None
    match = _URL.fullmatch(named)
    if match is None:
        raise UsageError(f"{VARIABLE} is {named!r}, an address without its digest or of another kind; give {_FORMS}")
    return replace(locked, package="the guest kernel", version="", sha256=match[2].lower(), urls=(match[1],))


def _by_apt(cache: Cache, *, offline: bool, progress: Progress) -> debian.Package:
    name = _METAPACKAGES[debian.architecture()]
    return debian.fetch_package(cache, name, pattern=_CONCRETE, offline=offline, progress=progress)


def _local(file: Path, by: str) -> debian.Package:
    """A package of the user's own file; `UsageError` where it is none for this machine. `by`: what names it."""
    try:
        facts = _facts(file, str(file))
        return debian.Package(**facts, sha256=file_digest(file), file=file, source=f"file {file.name}")
    except (ImageError, OSError) as error:
        named = f"{by} names a file that is of no use" if by == VARIABLE else f"{by} is of no use as a guest kernel"
        raise UsageError(f"{named}: {error}") from error


def _fetched(cache: Cache, kernel: LockedKernel, offline: bool, progress: Progress) -> debian.Package:
    """From the cache, or downloaded and checked now."""

    def fill(folder: Path) -> None:
        size = f" ({kernel.bytes / 1e6:.0f} MB)" if kernel.version else ""
        progress(f"downloading {kernel.package}{size} from {kernel.urls[0]}")
        file = folder / "package.deb"
        source = download_first(kernel.urls, file, kernel.sha256)
        facts = {**_facts(file, source), "sha256": kernel.sha256, "source": source}
        (folder / "package.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")

    named = f"The guest kernel of {kernel.urls[0]}" if not kernel.version else f"The guest kernel {kernel.package}"
    object_folder = cache.find(_reference(kernel))
    if object_folder is None and not offline:
        try:
            object_folder = cache.build(_reference(kernel), fill, progress)
        except DownloadFailed as error:
            if kernel.version:  # of the lock: another source is tried
                raise
            raise ImageError(f"The guest kernel is not available: {error}: {_REMEDY}.") from error
    return _read(object_folder, named)


def _read(object_folder: Path | None, named: str) -> debian.Package:
    if object_folder is None:
        raise ImageError(f"{named} is not in the cache: {remedy_for('image')}.")
    return debian.cached_package(object_folder)


def _facts(file: Path, named: str) -> dict[str, str]:
    """Name, version and architecture of a package; `ImageError` where it is for another machine than this."""
    fields = deb.control_fields(file)
    facts = {key: fields.get(key.capitalize(), "") for key in ("version", "architecture")}
    if facts["architecture"] not in (debian.architecture(), "all"):
        raise ImageError(
            f"{named} is a package for {facts['architecture']}, and this is {debian.architecture()}; name another."
        )
    return {"name": fields.get("Package", file.name), **facts}
