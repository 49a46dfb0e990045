#!/usr/bin/env python3
"""Runs commands in a minimal Debian, as on a newcomer's machine: only what the README asks for is there.

`python3 tools/fresh.py [--full] [--keep FOLDER] [-- COMMAND ...]`: the README's two commands, or another one. Needs
root and mmdebstrap. The root holds Debian's required packages and apt, Python 3.11 and make; Go and Rust are this
machine's toolchains, mounted for reading, because Debian 12's own are too old. The clone in it has the committed files
alone. With `--full` the root is that of somebody who has used it for years: fonts, the programs of all workloads and
hypervisors, Docker, libvirt and Slurm, a Turkish locale, a time zone with summer time, another `python3` first in the
PATH, and configuration files of pip, Cargo, git and fontconfig.

Network, kernel, /dev and /sys are this machine's. Mounts and processes are in namespaces of their own: they end with
this process, however it ends. Must not: import anything of Virtoll, or write outside the root's folder.
Exit codes: the command's own, 1 when the root could not be made, 2 when this machine lacks something.
"""

import argparse
import contextlib
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
SUITE = "bookworm"
GIVEN_PACKAGES = ("make", "python3")
"""What the README asks for and Debian 12 has."""
CLONE = Path("/root/virtoll")
COMMANDS = (("make", "demo"), ("make", "test"))
FULL_PACKAGES = (
    *("fonts-liberation", "fonts-noto-core", "fonts-roboto", "fonts-dejavu-extra"),
    *("bonnie++", "bzip2", "dbench", "fio", "iperf", "iperf3", "mariadb-server", "nginx-light", "povray", "rsync"),
    *("stress-ng", "sysbench"),
    *("docker.io", "libvirt-daemon-system", "lxc", "podman", "qemu-system-x86", "slurm-wlm", "systemd-container"),
    *("exim4-daemon-light", "git", "locales-all", "tzdata"),
)
"""What people have that Virtoll does not ask for, or has a way of its own to start."""
FULL_VARIABLES = {"LC_ALL": "tr_TR.UTF-8", "TZ": "Europe/Berlin"}
FULL_FILES = {
    "root/.cargo/config.toml": '[build]\ntarget-dir = "/root/elsewhere"\n[term]\ncolor = "always"\nverbose = true\n',
    "root/.config/pip/pip.conf": "[global]\nuser = true\nverbose = 2\n",
    "root/.config/git/config": "[core]\nautocrlf = true\n[init]\ndefaultBranch = trunk\n[color]\nui = always\n",
    "root/.config/fontconfig/fonts.conf": (
        '<?xml version="1.0"?><fontconfig><alias><family>Liberation Sans</family>'
        "<prefer><family>Roboto</family></prefer></alias></fontconfig>\n"
    ),
    "usr/local/bin/python3": '#!/bin/sh\nOTHER_PYTHON=1 exec /usr/bin/python3 "$@"\n',
}
"""By their path in the root. The other Python is first in the PATH, and no file of a virtual environment's."""
_PLACES = {"go": Path("/opt/go"), "rust": Path("/opt/rust")}
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_AUTHORITIES = Path("/usr/local/share/ca-certificates")
_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
_HOST_FILES = (Path("/etc/resolv.conf"), Path("/etc/hosts"))
_CACHES = ("PIP_CACHE_DIR", "VIRTOLL_CACHE")
_MNT_DETACH = 2  # <sys/mount.h>
_KEPT_VARIABLES = ("http_proxy", "https_proxy", "no_proxy", "GOPROXY", "GOSUMDB", "PIP_INDEX_URL", *_CACHES)


class FreshError(Exception):
    """What this machine lacks for a fresh root; the message ends in what to do next."""


def make_root(
    root: Path, suite: str = SUITE, packages: Sequence[str] = GIVEN_PACKAGES, *, configured: bool = True
) -> None:
    """Installs a minimal Debian into the new folder `root`, without services and without this machine's files.

    Not `configured`: its packages are only unpacked, which takes a third of the time. Programs run, and apt knows none.
    """
    if shutil.which("mmdebstrap") is None:
        raise FreshError("mmdebstrap is missing: apt-get install mmdebstrap")
    variant = ["--variant=minbase"] if configured else ["--variant=extract", "--include=?essential"]
    command = [
        "mmdebstrap",
        "--mode=root",
        *variant,
        f"--include={','.join(packages)}",
        "--dpkgopt=force-unsafe-io",
        '--aptopt=Acquire::Check-Valid-Until "false"',
        "--quiet",
        suite,
        str(root),
        f"deb {_mirror()} {suite} main",
    ]
    inherited = {name: text for name, text in os.environ.items() if name in {"PATH", "LANG", "TMPDIR"}}
    if subprocess.run(_apart(command), env=inherited, stdin=subprocess.DEVNULL, check=False).returncode != 0:
        raise FreshError(f"mmdebstrap could not install Debian {suite}, see above: check the network")
    if not configured:  # what base-files and base-passwd make then
        (root / "mnt").mkdir()
        for name in ("passwd", "group"):
            shutil.copyfile(root / f"usr/share/base-passwd/{name}.master", root / "etc" / name)
    for file in _HOST_FILES:
        shutil.copyfile(file, root / file.relative_to("/"))
    if _AUTHORITIES.is_dir():  # a mirror behind a proxy may have a certificate of this network's own
        shutil.copytree(_AUTHORITIES, root / _AUTHORITIES.relative_to("/"), dirs_exist_ok=True)


def trust_authorities(root: Path) -> None:
    """Gives a root without the package ca-certificates this machine's: a proxy's may be among them."""
    bundle = root / _BUNDLE.relative_to("/")
    bundle.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(_BUNDLE, bundle)


def clone_into(root: Path) -> None:
    """Puts a clone of the commit that is checked out here into the root."""
    target = root / CLONE.relative_to("/")
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(REPOSITORY), str(target)], check=True)


def run_in(root: Path, argv: Sequence[str], folder: Path = CLONE, variables: Mapping[str, str] | None = None) -> int:
    """Runs a program of the root with this machine's toolchains, in a folder of the root; its exit code."""
    places = {source: str(_PLACES[name]) for name, source in toolchains().items()}
    command = command_in(root, argv, folder, places)
    started = {**environment(), **(variables or {})}
    return subprocess.run(command, env=started, stdin=subprocess.DEVNULL, check=False).returncode


def command_in(root: Path, argv: Sequence[str], folder: Path, read_only: Mapping[str, str]) -> list[str]:
    """What runs a program of the root, in a folder of it, with the root as its own; to be started in `environment()`.

    `read_only`: for folders of this machine the places in the root where the program finds them.
    """
    order = {"root": str(root), "folder": str(folder), "argv": list(argv), "read_only": dict(read_only)}
    return _apart([sys.executable, str(Path(__file__).resolve()), "--inside", json.dumps(order)])


def _apart(command: Sequence[str]) -> list[str]:
    """What runs a program in mount and PID namespaces of its own, which end with this process."""
    apart = ["setpriv", "--pdeathsig", "KILL", "--", "unshare", "--mount", "--pid", "--fork", "--kill-child=KILL"]
    return [*apart, "--mount-proc", "--propagation", "private", "--", *command]


def fill(root: Path) -> None:
    """Puts the files of a long user into a root."""
    for name, text in FULL_FILES.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        file.chmod(0o755 if text.startswith("#!") else 0o644)


def environment() -> dict[str, str]:
    """A newcomer's: nothing of this machine's but how it reaches the package registries, and its caches."""
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    folders = ":".join(str(place / "bin") for place in _PLACES.values())
    own = {"PATH": f"{folders}:{_SYSTEM_PATH}", "HOME": "/root", "LANG": "C.UTF-8", "TERM": "dumb"}
    trust = {name: str(_BUNDLE) for name in ("SSL_CERT_FILE", "PIP_CERT")} if _AUTHORITIES.is_dir() else {}
    return {**kept, **own, **trust, "GOTOOLCHAIN": "local"}


def toolchains() -> dict[str, str]:
    """The folders of this machine's Go and Rust."""
    asked = {"go": ["go", "env", "GOROOT"], "rust": ["rustc", "--print", "sysroot"]}
    found = {}
    for name, command in asked.items():
        if shutil.which(command[0]) is None:
            raise FreshError(f"{command[0]} is missing here, and the fresh root borrows it: install {name}")
        found[name] = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return found


def _mirror() -> str:
    """The address of the Debian mirror that this machine's sources name."""
    listing = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)"]
    for line in subprocess.run(listing, capture_output=True, text=True, check=True).stdout.splitlines():
        words = line.split()
        if len(words) == 3 and words[1:] == [SUITE, "main"]:
            return words[0]
    raise FreshError(f"this machine's apt sources do not name Debian {SUITE}: add its mirror, then apt-get update")


def _inside(root: Path, folder: Path, argv: Sequence[str], read_only: Mapping[str, str]) -> int:
    """As the first process of the new namespaces: the root with its file systems becomes `/`, then the program runs.

    The root is changed by pivot_root(2), as at boot: from within a chroot nobody may make a user namespace.
    """
    _mount("--bind", str(root), str(root))
    _mount("-t", "proc", "proc", str(root / "proc"))
    for name in ("dev", "sys"):
        _mount("--rbind", f"/{name}", str(root / name))
    for name in ("run", "tmp"):
        _mount("-t", "tmpfs", "-o", "mode=1777" if name == "tmp" else "mode=0755", "tmpfs", str(root / name))
    for source, name in read_only.items():
        _mount("--bind", "-o", "ro", source, str(_folder_in(root, name)))
    for cache in (os.environ[name] for name in _CACHES if name in os.environ):
        _mount("--bind", cache, str(_folder_in(root, cache)))
    old = root / "mnt"
    subprocess.run(["pivot_root", str(root), str(old)], check=True)
    os.chdir("/")
    _detach("/mnt")
    os.chdir(folder)
    child = os.posix_spawnp(argv[0], list(argv), os.environ)
    while True:  # the first process of a PID namespace is the parent of all orphans
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _folder_in(root: Path, name: str) -> Path:
    folder = root / name.lstrip("/")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def _detach(mount: str) -> None:
    """As ``umount --lazy``, which not every root has."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.umount2(os.fsencode(mount), _MNT_DETACH) != 0:
        raise OSError(ctypes.get_errno(), f"{mount} is not detached")


@contextlib.contextmanager
def fresh_root(keep: Path | None, *, full: bool) -> Iterator[Path]:
    """A fresh root in a folder that is kept, or in one that goes away."""
    with contextlib.ExitStack() as stack:
        if keep is None:
            folder = tempfile.TemporaryDirectory(prefix="virtoll-fresh-", dir="/var/tmp")
            root = Path(stack.enter_context(folder)) / "root"
        else:
            root = keep
            root.mkdir(parents=True, exist_ok=True)
        if not (root / "etc").exists():
            make_root(root, packages=(*GIVEN_PACKAGES, *(FULL_PACKAGES if full else ())))
            if full:
                fill(root)
        yield root


def main(arguments: Sequence[str]) -> int:
    """Makes the root, runs the commands in it one after the other; the first exit code that is not 0."""
    if arguments[:1] == ["--inside"]:
        order = json.loads(arguments[1])
        return _inside(Path(order["root"]), Path(order["folder"]), order["argv"], order["read_only"])
    parser = argparse.ArgumentParser(description="Runs commands in a minimal Debian 12.")
    parser.add_argument("--full", action="store_true", help="in a root full of what people have")
    parser.add_argument("--keep", type=Path, help="a folder for the root that stays, and is used again")
    parser.add_argument("command", nargs="*", help="instead of the README's two commands")
    options = parser.parse_args(arguments)
    if os.geteuid() != 0:
        raise FreshError("a fresh root needs root (mounts, device nodes): run this as root")
    variables = FULL_VARIABLES if options.full else {}
    with fresh_root(options.keep, full=options.full) as root:
        if not (root / CLONE.relative_to("/")).exists():
            clone_into(root)
        for command in [options.command] if options.command else COMMANDS:
            print(f"fresh: {' '.join(command)}", flush=True)
            code = run_in(root, command, variables=variables)
            print(f"fresh: {' '.join(command)} ended with exit code {code}", flush=True)
            if code != 0:
                return code
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except FreshError as error:
        print(f"fresh: {error}", file=sys.stderr)
        sys.exit(2)
