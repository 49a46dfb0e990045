#!/usr/bin/env python3
"""Makes a fresh clone ready to measure: Debian packages, virtual environment, agent, guest image.

`python3 tools/setup.py [--dev]`. Each step looks first whether there is anything to do, so that a second call takes
about a second. Standard library only, because it runs before anything is installed; Python >= 3.11.

Must not: touch the network when nothing is missing, install a package as an ordinary user, or leave a half-made
virtual environment or agent that is taken for whole (a stamp is written last, the agent is renamed into place).
Exit codes: 0 ready, 1 a step failed (its output stands above), 2 the user has to install something first.
"""

import argparse
import hashlib
import importlib.util
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "virtoll"
OLDEST_PYTHON = (3, 11)
SYSTEM_PYTHON = Path("/usr/bin/python3")

# What a clone needs besides what measuring needs (virtoll/host/packages.py).
BUILD_PACKAGES = (
    "clang",  # compiles the XDP programs of generator and sink
    "gcc",  # the linker that rustc calls
    "libc6-dev",  # what a static agent is linked against
    "python3-venv",
)
DEV_PACKAGES = (
    "chromium-headless-shell",  # tests open the report in a real browser
    "cpio",  # tests have the initramfs read by another program than ours
    "ethtool",  # tests look at interfaces with another program than ours
    "groff-base",  # reads the manual pages, whose tests want no warning of it
    "iptables",  # tests drop known frames at a known place
    "kmod",  # depmod, by which tests judge the order of the guest's modules
    "libclang-rt-dev",  # libFuzzer, by which `make fuzz` need not compile its own
    "libfaketime",  # tests set the clock that a run sees
    "libfuse3-3",  # tests measure on disks that fail
    "libxml2-utils",  # xmllint, by which virt-xml-validate judges libvirt's domains
    "munge",  # who a message of Slurm's is from, in the cluster of tests
    "openssh-server",  # tests reach hosts by the real SSH; each sshd is started by its test in a namespace
    "slurm-client",  # tests have a Slurm cluster of their own, in namespaces
    "slurmctld",
    "slurmd",
    "tshark",  # tests have frames judged by another parser than ours
    "zstd",  # tests pack kernels as distributions do
)
# Each test starts what it needs of sshd, munge and Slurm by itself: systemctl asks systemd for nothing then.
NO_SERVICES = {"SYSTEMD_OFFLINE": "1"}
RUST_ADVICE = "Rust is missing: install stable Rust (cargo and rustc), for example with rustup, and call this again."


class SetupError(Exception):
    """A step that could not be done; the message ends in what to do next."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def needed_packages(
    machine: str, *, dev: bool = False, platforms: bool = False, tools: bool = False
) -> tuple[str, ...]:
    """Debian packages that Virtoll needs here, sorted.

    With `dev` its tests, with `platforms` all platforms, with `tools` the image that holds the workloads' tools.
    """
    measuring = host_packages().needed(machine, platforms=dev or platforms, tools=dev or tools)
    return tuple(sorted({*(one.name for one in measuring), *BUILD_PACKAGES, *(DEV_PACKAGES if dev else ())}))


def missing_packages(needed: Sequence[str]) -> tuple[str, ...]:
    """Those of the needed packages that dpkg does not know as installed."""
    try:
        missing: tuple[str, ...] = host_packages().missing_packages(needed)
    except FileNotFoundError:
        raise SetupError("This is not a Debian system (no dpkg-query): run Virtoll on Debian 12 or later.", 2) from None
    return missing


def install_packages(needed: Sequence[str], *, root: bool) -> None:
    """Installs what is missing when root, else raises with the exact command."""
    missing = missing_packages(needed)
    if not missing:
        return
    if not root:
        raise SetupError(host_packages().missing_sentence(missing), 2)
    install_by_apt(missing)
    later = [name for name in missing_packages(needed) if name not in missing]
    if later:  # apt's lists had them only after they were fetched
        install_by_apt(later)


def install_by_apt(missing: Sequence[str]) -> None:
    """What measuring needs first; then, without their services, what tests need."""
    measuring = [name for name in missing if name not in DEV_PACKAGES]
    for names, more in ((measuring, {}), ([*set(missing) - set(measuring)], NO_SERVICES)):
        if not names:
            continue
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"} | more
        command: list[str] = host_packages().install_command(sorted(names))
        with step(f"installing {' '.join(sorted(names))}"):
            if subprocess.run(command, env=environment, check=False).returncode != 0:
                run(["apt-get", "update"], environment)  # the lists may be missing or older than the mirror
                run(command, environment)


@contextmanager
def step(title: str) -> Iterator[None]:
    """Says what is under way, and how long it took."""
    print(f"setup: {title} ...", flush=True)
    start = time.monotonic()
    yield
    print(f"setup: {title}: {time.monotonic() - start:.1f} s", flush=True)


def run(arguments: Sequence[str | Path], environment: dict[str, str] | None = None) -> None:
    """Runs a program in the project's folder; its output goes to the terminal."""
    try:
        subprocess.run(arguments, cwd=ROOT, env=environment, check=True)
    except FileNotFoundError:
        raise SetupError(f"{arguments[0]} is missing: install it and call this again.", 2) from None
    except subprocess.CalledProcessError as error:
        command = shlex.join(map(str, arguments))
        raise SetupError(f"This command failed with exit code {error.returncode}, see above: {command}") from None


def python_version(python: Path) -> tuple[int, int]:
    """(major, minor) of an interpreter; (0, 0) where it does not start."""
    code = "import sys; print(*sys.version_info[:2])"
    try:
        answer = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return 0, 0
    major, minor = answer.stdout.split()
    return int(major), int(minor)


def choose_python() -> Path:
    """The system's Python when it is new enough (every user can execute it), else the one of PATH."""
    on_path = shutil.which("python3")
    for candidate in (SYSTEM_PYTHON, Path(on_path) if on_path else None):
        if candidate is not None and python_version(candidate) >= OLDEST_PYTHON:
            return candidate
    wanted = ".".join(map(str, OLDEST_PYTHON))
    raise SetupError(f"Python {wanted} or newer is missing: install it as python3 and call this again.", 2)


def stamp_of(*files: Path) -> str:
    """One hash over the contents of files and the place of the clone (an editable install points at it)."""
    digest = hashlib.sha256(os.fsencode(ROOT))
    for file in files:
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def wanted_stamps(*, dev: bool) -> tuple[str, ...]:
    """Stamps that satisfy this call, the one to make first: the dev lock holds all of the other."""
    project = ROOT / "pyproject.toml"
    with_dev = stamp_of(ROOT / "requirements-dev.lock", project)
    return (with_dev,) if dev else (stamp_of(ROOT / "requirements.lock", project), with_dev)


def prepare_environment(*, dev: bool) -> Path:
    """Makes or updates .venv from the lock file when the lock changed; its python."""
    folder = ROOT / ".venv"
    stamp = folder / "virtoll-setup.stamp"
    stamps = wanted_stamps(dev=dev)
    python = folder / "bin" / "python"
    if python.exists() and stamp.exists() and stamp.read_text(encoding="ascii") in stamps:
        return python
    with step("virtual environment"):
        stamp.unlink(missing_ok=True)
        if python_version(python) < OLDEST_PYTHON:
            run([choose_python(), "-I", "-m", "venv", "--clear", folder])
        install: list[str | Path] = [python, "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        lock = ROOT / ("requirements-dev.lock" if dev else "requirements.lock")
        run([*install, "--require-hashes", "--only-binary", ":all:", "--requirement", lock])
        run([*install, "--no-index", "--no-deps", "--no-build-isolation", "--editable", ROOT])
        stamp.write_text(stamps[0], encoding="ascii")
    return python


def host_triple() -> str:
    """The compiler's own target, for example x86_64-unknown-linux-gnu."""
    if shutil.which("cargo") is None or shutil.which("rustc") is None:
        raise SetupError(RUST_ADVICE, 2)
    answer = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=False)
    for line in answer.stdout.splitlines():
        if line.startswith("host: "):
            return line.removeprefix("host: ")
    raise SetupError(RUST_ADVICE, 2)


def load_by_path(file: Path) -> ModuleType:
    """A module of the package that needs the standard library alone, without importing the package."""
    specification = importlib.util.spec_from_file_location(f"virtoll_{file.stem}", file)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def host_packages() -> ModuleType:
    """The list of what measuring needs, which an installation has too."""
    return load_by_path(PACKAGE / "host" / "packages.py")


def is_static(program: bytes) -> bool:
    """Whether a 64-bit little-endian ELF program needs no dynamic loader."""
    head = load_by_path(PACKAGE / "image" / "elf.py").read_head(program)
    return head is not None and bool(head.static)


def place(source: Path, target: Path) -> bool:
    """Copies a program by rename so that no reader sees half of it; False when it is there already."""
    content = source.read_bytes()
    if target.exists() and target.read_bytes() == content:
        return False
    target.parent.mkdir(exist_ok=True)
    fresh = target.with_name(f".{target.name}.{os.getpid()}")
    fresh.write_bytes(content)
    fresh.chmod(0o755)
    fresh.replace(target)
    return True


def without_this_machine(triple: str) -> list[str]:
    """Options of cargo by which the program names no folder of this machine's, so that it is the same one everywhere.

    They come to what .cargo/config.toml says. The names are those in panics: of the crates' sources as they were
    downloaded, of what build scripts wrote, and of this clone. Where several begin a path, the last is taken.
    """
    home = os.environ.get("CARGO_HOME") or Path.home() / ".cargo"
    target = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
    names = {ROOT: "/virtoll", target: "/target", Path(home).absolute() / "registry/src": "/crates"}
    flags = [f"--remap-path-prefix={folder}={name}" for folder, name in names.items()]
    return ["--config", f"target.{triple}.rustflags={json.dumps(flags)}"]


def build_agent() -> None:
    """Builds the static agent (cargo decides whether anything is to do) and puts it to build/virtoll-agent."""
    triple = host_triple()
    same = without_this_machine(triple)
    run(["cargo", "build", *same, "--release", "--locked", "--target", triple, "-p", "virtoll-agent"])
    target = Path(os.environ.get("CARGO_TARGET_DIR", "target"))
    built = ROOT / target / triple / "release" / "virtoll-agent"
    if not is_static(built.read_bytes()):
        raise SetupError(f"{built} is not static and would not start in a guest: unset RUSTFLAGS and call this again.")
    if place(built, ROOT / "build" / "virtoll-agent"):
        print("setup: agent: new build in build/virtoll-agent", flush=True)


def build_products(python: Path, *, dev: bool) -> None:
    """Fetches and builds what no Debian package brings (gVisor; for tests VMware's simulator) and the cache has not."""
    run([python, "-I", "-m", "virtoll.image.third_party", *(["--dev"] if dev else [])])


def build_images(python: Path, *, tools: bool, parts: bool = False) -> None:
    """Builds the guest images that are not in the cache yet; with `parts` what goes into them besides the agent."""
    names = ["tiny", "debug", *(["full"] if tools else [])]
    # An ordinary user's PATH lacks the folder of mke2fs.
    environment = os.environ | {"PATH": f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"}
    run([python, "-I", "-m", "virtoll.image", "--quiet", *(["--parts"] if parts else []), *names], environment)


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Command line; the steps by name are for the Makefile."""
    parser = argparse.ArgumentParser(description="Makes a clone of Virtoll ready to measure.")
    parser.add_argument("--dev", action="store_true", help="also what the tests and checkers need")
    parser.add_argument("--platforms", action="store_true", help="also what every platform of this host needs")
    parser.add_argument("--tools", action="store_true", help="also the image with the workloads' tools (a minute)")
    parser.add_argument("--only", choices=("packages", "venv", "agent", "image", "products"), help="one step alone")
    return parser.parse_args(arguments)


def set_up(options: argparse.Namespace) -> None:
    """All steps in order, or the one that was asked for. The agent is built beside what does not need it."""
    only: str | None = options.only
    tools = options.tools or options.dev
    if only in {None, "packages"}:
        needed = needed_packages(platform.machine(), dev=options.dev, platforms=options.platforms, tools=options.tools)
        install_packages(needed, root=os.geteuid() == 0)
    if only in {None, "agent"}:
        host_triple()  # before the long steps: a missing compiler is said at once
    python = ROOT / ".venv" / "bin" / "python"
    with ThreadPoolExecutor(max_workers=1) as beside:
        agent = beside.submit(build_agent) if only in {None, "agent"} else None
        if only in {None, "venv"}:
            python = prepare_environment(dev=options.dev)
        if only == "products" or (only is None and (options.dev or options.platforms)):
            build_products(python, dev=options.dev)
        if only is None:
            build_images(python, tools=tools, parts=True)
        if agent is not None:
            agent.result()
    if only in {None, "image"}:
        build_images(python, tools=tools)


def main(arguments: Sequence[str]) -> int:
    """Runs the set-up; returns the exit code."""
    if sys.version_info < OLDEST_PYTHON:
        print("setup: Python 3.11 or newer is missing: install it as python3 and call this again.", file=sys.stderr)
        return 2
    os.umask(0o022)  # what root sets up, other users must be able to read
    try:
        set_up(parse_arguments(arguments))
    except SetupError as error:
        print(f"setup: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
