"""How a wheel is built: with the static agent inside, for the agent's own machine, the same bytes each time.

The agent is ``build/virtoll-agent`` (``make agent``), or what ``$VIRTOLL_AGENT`` names. A wheel is refused in one
sentence where it is missing, not static, not executable, or of a machine that no wheel is made for. An editable
install of a clone needs no agent. The manual pages (``make man``) of the folder that ``$VIRTOLL_MAN`` names go into
``share/man/man1``: writing them takes Virtoll's own dependencies, which a build has not. All else is in
``pyproject.toml``.
"""

import hashlib
import importlib.util
import os
import platform
import shutil
import stat
import tomllib
from pathlib import Path
from types import ModuleType

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
PACKAGED = Path("virtoll") / "bin" / "virtoll-agent"


def agent() -> Path:
    """The agent that a wheel carries, wherever it is."""
    return Path(os.environ.get("VIRTOLL_AGENT") or ROOT / "build" / "virtoll-agent")


def of_the_package(name: str) -> ModuleType:
    """A module of ``virtoll.image`` that needs the standard library alone, without importing the package."""
    place = ROOT / "src" / "virtoll" / "image" / f"{name}.py"
    specification = importlib.util.spec_from_file_location(f"virtoll_{name}", place)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def machine_of(program: Path) -> str:
    """For which machine the agent is, as ``uname -m`` says it; ends the build where a wheel may not carry it."""
    elf = of_the_package("elf")
    build = (
        "build it with 'make agent' in the source's folder (needs Rust 1.90 and clang), or let VIRTOLL_AGENT name one"
    )
    here = platform.machine()
    if not program.is_file() and (platform.system() != "Linux" or here not in elf.MACHINES.values()):
        known = " or ".join(elf.MACHINES.values())
        raise SystemExit(
            f"virtoll: it runs on Linux on {known}, and this is {platform.system()} on {here}: install it there"
        )
    if not program.is_file():
        raise SystemExit(f"virtoll: a wheel carries the agent, and {program} is missing; {build}")
    head = elf.read_head(program.read_bytes())
    if head is None:
        raise SystemExit(f"virtoll: {program} is no 64-bit ELF program; {build}")
    if head.machine not in elf.MACHINES.values():
        raise SystemExit(f"virtoll: {program} is for {head.machine}; wheels are for {', '.join(elf.MACHINES.values())}")
    if not head.static:
        raise SystemExit(f"virtoll: {program} is not static and would not start in a guest; unset RUSTFLAGS, {build}")
    if not program.stat().st_mode & stat.S_IXUSR:
        raise SystemExit(f"virtoll: {program} may not be executed; chmod 0755 {program}")
    return str(head.machine)


def manual_pages() -> list[str]:
    """The pages that the wheel carries, by their paths from here; ends the build where the named folder has none."""
    named = os.environ.get("VIRTOLL_MAN")
    if not named:
        return []
    found = sorted(Path(named).absolute().glob("virtoll*.1"))
    if not found:
        raise SystemExit(f"virtoll: VIRTOLL_MAN is {named}, which holds no manual page; write them with 'make man'")
    return [os.path.relpath(page, ROOT) for page in found]


def bill_of_materials(distribution: Distribution) -> str:
    """What the wheel holds and asks for, as CycloneDX (PEP 770); without what only work on Virtoll itself needs."""
    sbom = of_the_package("sbom")
    content = agent().read_bytes()
    requirements = {"": distribution.install_requires, **distribution.extras_require}
    for name in ("build", "dev"):
        requirements.pop(name, None)
    origins = ROOT / "src" / "virtoll" / "report" / "browser" / "library" / "ORIGINS.toml"
    scripts = tomllib.loads(origins.read_text(encoding="utf-8"))
    digest = hashlib.sha256(content).hexdigest()
    return str(sbom.text(sbom.wheel(distribution.get_version(), content, digest, requirements, scripts)))


class WithAgent(Distribution):
    """A distribution that is for one machine, though none of its Python is compiled."""

    def has_ext_modules(self) -> bool:
        """Whether there is something of one machine in it."""
        return True


class Build(build_py):
    """Copies the package and, unless a clone is to be edited in place, the agent."""

    def run(self) -> None:
        """From an empty folder: a file that was deleted since the last build is in no wheel."""
        if self.editable_mode:
            super().run()
            return
        machine_of(agent())
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()
        target = Path(self.build_lib) / PACKAGED
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(agent(), target)


class Wheel(bdist_wheel):
    """A wheel whose name says the machine of its agent, and any version of Python and of the C library."""

    def get_tag(self) -> tuple[str, str, str]:
        """The agent asks nothing of the C library, so that it runs where the oldest of each kind is."""
        if self.distribution.get_command_obj("editable_wheel", create=False) is not None:
            return super().get_tag()  # of a clone that is edited in place, whose agent may not be built yet
        machine = machine_of(agent())
        kinds = ("manylinux_2_17", "manylinux2014", "musllinux_1_1")
        return "py3", "none", ".".join(f"{kind}_{machine}" for kind in kinds)

    def write_wheelfile(self, *arguments: str, **named: str) -> None:
        """Also writes the bill of materials, and gives every file the same rights, whatever this machine's umask is."""
        super().write_wheelfile(*arguments, **named)
        top = Path(self.bdist_dir)
        for facts in top.glob("*.dist-info"):  # one; an editable wheel holds nothing that there is a bill of
            if self.distribution.get_command_obj("editable_wheel", create=False) is None:
                (facts / "sboms").mkdir(exist_ok=True)
                (facts / "sboms" / "virtoll.cdx.json").write_text(
                    bill_of_materials(self.distribution), encoding="utf-8"
                )
        for path in top.rglob("*"):
            path.chmod(0o755 if path.is_dir() or path.relative_to(top) == PACKAGED else 0o644)


setup(
    distclass=WithAgent,
    cmdclass={"build_py": Build, "bdist_wheel": Wheel},
    data_files=[("share/man/man1", manual_pages())],
)
