"""`python -m virtoll.image.third_party [--dev]`: products built into the cache, as no Debian package of them works.

gVisor's runsc is a Go module, taken at a pinned version whose content is checked against a pinned hash, and built by
the host's Go. What its build downloads is held to the module's own go.sum. Everything of the build is in the cache's
temporary folder: nothing is left in the user's home. Once it is built, nothing needs the network again. What a clone
pins by the go.mod and go.sum of a folder in ``tools/`` is built in the same way: for the tests (``--dev``) VMware's
simulator of its API, and for ``make deb`` the program that writes packages.

Main functions: ``find_runsc`` (no locks, no network) and ``prepare_runsc``; ``find_vcsim`` and ``prepare_vcsim``;
``prepare_nfpm``. It must not know platforms.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from virtoll.errors import ImageError, VirtollError
from virtoll.image import Cache, clone, default_cache

MODULE = "gvisor.dev/gvisor"
VERSION = "v0.0.0-20260905035102-160fafc42237"
MODULE_HASH = "h1:AU5+CtCvnBnxdZRNcZt1NfSLqgkXZVT3N/u6u1aXg44="  # of the module's files, as go.sum writes it
_REFERENCE = f"runsc-{VERSION}"
_VERSION_VARIABLE = f"{MODULE}/runsc/version.version"
_BUILD_SECONDS = 1800.0


class _Pinned(NamedTuple):
    """A Go program that a folder of a clone's ``tools/`` pins, of the same name; ``go``: the oldest that builds it."""

    name: str
    what: str
    package: str
    files: tuple[str, ...]
    go: str


_SIMULATOR: Final = _Pinned("vcsim", "VMware's simulator of an ESXi host", ".", ("go.mod", "go.sum", "main.go"), "1.23")
_PACKAGER: Final = _Pinned(
    "nfpm", "the package writer nfpm", "github.com/goreleaser/nfpm/v2/cmd/nfpm", ("go.mod", "go.sum"), "1.26"
)


def find_runsc(cache: Cache | None = None) -> Path | None:
    """The runsc that was built into the cache, or None."""
    object_folder = (cache or default_cache()).find(_REFERENCE)
    return object_folder / "runsc" if object_folder is not None else None


def prepare_runsc(cache: Cache | None = None, compiled: Path | None = None) -> Path:
    """The runsc of the cache; where it is not there it is fetched and built. ``ImageError`` says what is missing.

    ``compiled`` holds the packages that Go has compiled, for several builds one after another.
    """
    cache = cache or default_cache()
    program = find_runsc(cache)
    if program is None:
        if shutil.which("go") is None:
            raise ImageError(
                f"gVisor is built from its Go module {MODULE}, and Go is missing: install Go 1.21 or newer."
            )
        program = cache.build(_REFERENCE, lambda folder: _fill(folder, compiled), _say) / "runsc"
    return program


def find_vcsim(cache: Cache | None = None) -> Path | None:
    """The simulator of an ESXi host that was built into the cache from the clone as it stands, or None."""
    return _find_pinned(_SIMULATOR, cache or default_cache())


def prepare_vcsim(cache: Cache | None = None, compiled: Path | None = None) -> Path:
    """The same, built where it is not there. ``ImageError`` says what is missing."""
    return _prepare_pinned(_SIMULATOR, cache or default_cache(), compiled)


def prepare_nfpm(cache: Cache | None = None) -> Path:
    """The program that writes Debian packages, built where it is not there. ``ImageError`` says what is missing."""
    return _prepare_pinned(_PACKAGER, cache or default_cache())


def _find_pinned(program: _Pinned, cache: Cache) -> Path | None:
    if not all((clone.tool_source(program.name) / name).is_file() for name in program.files):
        return None
    object_folder = cache.find(_reference_of(program))
    return object_folder / program.name if object_folder is not None else None


def _prepare_pinned(program: _Pinned, cache: Cache, compiled: Path | None = None) -> Path:
    path = _find_pinned(program, cache)
    if path is None:
        if shutil.which("go") is None:
            raise ImageError(
                f"{program.what} is built from its Go module, and Go is missing: install Go {program.go} or newer."
            )
        made = cache.build(_reference_of(program), lambda folder: _fill_pinned(program, folder, compiled), _say)
        path = made / program.name
    return path


def _reference_of(program: _Pinned) -> str:
    content = b"\0".join((clone.tool_source(program.name) / name).read_bytes() for name in program.files)
    return f"{program.name}-{hashlib.sha256(content).hexdigest()[:16]}"


def _fill_pinned(program: _Pinned, folder: Path, compiled: Path | None) -> None:
    """Fills an object with the program; what is downloaded is held to go.sum."""
    private = folder.parent / "go"
    source = private / "source"
    source.mkdir(parents=True)
    for name in program.files:
        shutil.copyfile(clone.tool_source(program.name) / name, source / name)
    _say(f"building {program.what}, which takes about a minute")
    flags = ["-trimpath", "-buildvcs=false", "-modcacherw", "-ldflags=-s -w"]
    target = str(folder / program.name)
    _go(["build", *flags, "-o", target, program.package], source, _environment(private, compiled), program.what)


def _fill(folder: Path, compiled: Path | None) -> None:
    """Fills an object with runsc and runsc.json."""
    started = time.monotonic()
    private = folder.parent / "go"  # beside the object: goes away with the builder's temporary folder
    private.mkdir()
    environment = _environment(private, compiled)
    _say(f"downloading gVisor ({MODULE} {VERSION})")
    downloaded: dict[str, Any] = json.loads(
        _go(["mod", "download", "-json", "-modcacherw", f"{MODULE}@{VERSION}"], private, environment)
    )
    if downloaded["Sum"] != MODULE_HASH:
        raise ImageError(f"{MODULE} {VERSION} came with another content than the pinned one: check GOPROXY.")
    _say("building gVisor's runsc, which takes a minute or two")
    source = private / "source"
    shutil.copytree(downloaded["Dir"], source)
    linker = f"-s -w -X {_VERSION_VARIABLE}={VERSION}"
    flags = ["-trimpath", "-buildvcs=false", "-modcacherw", f"-ldflags={linker}"]
    _go(["build", *flags, "-o", str(folder / "runsc"), "./runsc"], source, environment)
    facts = {"module": MODULE, "version": VERSION, "hash": MODULE_HASH, "go": _go(["version"], source, environment)}
    (folder / "runsc.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")
    size = (folder / "runsc").stat().st_size
    _say(f"gVisor's runsc: {time.monotonic() - started:.0f} s, {size / 2**20:.0f} MiB")


def _environment(private: Path, compiled: Path | None) -> dict[str, str]:
    """The user's own settings of Go (proxy, toolchain), and none of the user's folders to write to."""
    compiled = compiled or private / "cache"
    home = Path.home()
    settings = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "go" / "env"
    places = {"HOME": private, "XDG_CONFIG_HOME": private, "GOPATH": private / "path", "GOCACHE": compiled}
    modules = {"GOMODCACHE": private / "modules", "GOTMPDIR": private, "GOENV": os.environ.get("GOENV", settings)}
    folders = {name: str(path) for name, path in (places | modules).items()}
    inherited = {name: text for name, text in os.environ.items() if name not in ("GOBIN", "GOWORK", "GOFLAGS")}
    return inherited | folders | {"CGO_ENABLED": "0", "GOFLAGS": ""}


def _go(arguments: Sequence[str], folder: Path, environment: dict[str, str], what: str = "gVisor's runsc") -> str:
    try:
        answer = subprocess.run(
            ["go", *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_BUILD_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ImageError(f"'go {arguments[0]}' did not end within {_BUILD_SECONDS:.0f} s: check the network.") from None
    if answer.returncode != 0:
        words = [line for line in (answer.stderr or answer.stdout).splitlines() if line.strip()]
        complaint = words[-1].strip() if words else "no message"
        raise ImageError(
            f"{what} could not be built ('go {arguments[0]}': {complaint}): check the network and GOPROXY."
        )
    return answer.stdout.strip()


def _say(sentence: str) -> None:
    print(f"setup: {sentence} ...", flush=True)


def main() -> int:
    """Builds what is not in the cache yet; returns the exit code."""
    os.umask(0o022)
    try:
        # Both need most of Go's own packages: what one build has compiled serves the other.
        with tempfile.TemporaryDirectory(prefix="virtoll-go-") as compiled:
            prepare_runsc(compiled=Path(compiled))
            if "--dev" in sys.argv[1:]:
                prepare_vcsim(compiled=Path(compiled))
    except VirtollError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
