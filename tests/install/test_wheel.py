"""The wheel: everything that the code reads, the agent for its own machine, the same bytes each time, or a refusal."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from tests.support.facts import assert_facts
from tests.support.repository import ROOT, load_tool
from tests.support.wheels import build_sdist, build_wheel, copy_source, tracked

from virtoll.errors import clone_folder

AGENT = "virtoll/bin/virtoll-agent"


def elf(machine: int, *kinds: int) -> bytes:
    """The smallest ELF program of this machine with program headers of these kinds."""
    head = b"\x7fELF\x02\x01\x01" + bytes(9) + (3).to_bytes(2, "little") + machine.to_bytes(2, "little") + bytes(12)
    head += (64).to_bytes(8, "little") + bytes(14) + (56).to_bytes(2, "little") + len(kinds).to_bytes(2, "little")
    return head.ljust(64, b"\0") + b"".join(kind.to_bytes(4, "little") + bytes(52) for kind in kinds)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a wheel is made of, but for the agent."""
    return copy_source(tmp_path_factory.mktemp("wheel") / "source")


def refusal(finished: subprocess.CompletedProcess[str]) -> str:
    """The one line of Virtoll's by which a build is refused."""
    assert finished.returncode != 0
    (line,) = [line for line in finished.stderr.splitlines() if line.startswith("virtoll: ")]
    return line


def program(folder: Path, content: bytes, mode: int = 0o755) -> Path:
    file = folder / "agent"
    file.write_bytes(content)
    file.chmod(mode)
    return file


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel with a small program in the agent's place, which no test here starts."""
    folder = tmp_path_factory.mktemp("built")
    finished = build_wheel(source, program(folder, elf(62, 1)), folder / "dist")
    assert finished.returncode == 0, finished.stderr
    (made,) = (folder / "dist").iterdir()
    return made


def test_the_wheel_holds_every_file_of_the_package_and_the_agent(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if name.startswith("virtoll/")}
    assert names == {AGENT, *(name.removeprefix("src/") for name in tracked())}, "package-data of pyproject.toml"


def test_the_agent_keeps_its_rights_and_the_licences_are_beside_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        assert {info.filename for info in archive.infolist() if info.external_attr >> 16 & 0o111} == {AGENT}
        licences = archive.read("virtoll-0.1.0.dist-info/licenses/crates/agent/LICENCES.txt").decode()
        facts = message_from_bytes(archive.read("virtoll-0.1.0.dist-info/METADATA"))
    assert "LGPL-3.0-only" in str(facts["License-Expression"])
    for part in ("malachite-nz 0.14", "relink the agent", "GNU LESSER GENERAL PUBLIC LICENSE", "Version 2.1"):
        assert part in licences


def test_the_wheel_says_what_it_is_made_of(wheel: Path) -> None:
    """By PEP 770: the agent as it is, its crates, the page's scripts, and what pip installs besides."""
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read("virtoll-0.1.0.dist-info/sboms/virtoll.cdx.json").decode()
        program = archive.read(AGENT)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    bill = json.loads(text)
    parts = {one["name"]: one for one in bill["components"]}
    assert parts["virtoll-agent"]["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(program).hexdigest()}]
    crates = {one["name"]: one for one in parts["virtoll-agent"]["components"]}
    lock = {one["name"]: one for one in tomllib.loads((ROOT / "Cargo.lock").read_text("utf-8"))["package"]}
    assert {"malachite-nz", "rustix", "serde_json"} <= set(crates)
    for name, crate in crates.items():
        assert crate["hashes"][0]["content"] == lock[name]["checksum"], name
    assert parts["vega"]["purl"] == "pkg:npm/vega@6.2.0"
    assert parts["numpy"]["scope"] == "required"
    assert "version" not in parts["numpy"], "pip chooses it"
    assert parts["pyvmomi"]["scope"] == "optional"
    assert not {"pytest", "ruff", "virtoll"} & set(parts)


@pytest.mark.skipif(shutil.which("cargo") is None, reason="needs cargo")
def test_the_licences_name_what_the_lock_pins() -> None:
    subprocess.run([sys.executable, "tools/licences.py", "--check"], cwd=ROOT, check=True)


@pytest.fixture(scope="module")
def wheel_of_arm(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same source with an agent of the other machine and with the manual pages, which lie beside the wheel."""
    folder = tmp_path_factory.mktemp("arm")
    (folder / "man").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", "1700000000")
        load_tool("manual").write(folder / "man")
    finished = build_wheel(source, program(folder, elf(183, 1)), folder / "dist", manual=folder / "man")
    assert finished.returncode == 0, finished.stderr
    (made,) = (folder / "dist").iterdir()
    return made


def test_the_agents_head_decides_the_tag(wheel: Path, wheel_of_arm: Path) -> None:
    for made, machine in ((wheel, "x86_64"), (wheel_of_arm, "aarch64")):
        kinds = ".".join(f"{kind}_{machine}" for kind in ("manylinux_2_17", "manylinux2014", "musllinux_1_1"))
        assert made.name == f"virtoll-0.1.0-py3-none-{kinds}.whl"


def test_the_same_source_gives_the_same_bytes(source: Path, wheel: Path, tmp_path: Path) -> None:
    (source / "src" / "virtoll" / "left.pyc").write_bytes(b"of an earlier build")
    for old in (source / "build").rglob("units.py"):
        (old.parent / "deleted.py").write_text("since then\n", encoding="ascii")
    finished = build_wheel(source, program(tmp_path, elf(62, 1)), tmp_path / "dist", umask=0o077)
    assert finished.returncode == 0, finished.stderr
    assert (tmp_path / "dist" / wheel.name).read_bytes() == wheel.read_bytes()


def test_a_folder_without_manual_pages_is_refused(source: Path, tmp_path: Path) -> None:
    (tmp_path / "man").mkdir()
    finished = build_wheel(source, program(tmp_path, elf(62, 1)), tmp_path / "dist", manual=tmp_path / "man")
    assert_facts(refusal(finished), "VIRTOLL_MAN", tmp_path / "man", "'make man'")


def test_manual_pages_are_where_pipx_and_man_look_for_them(wheel: Path, wheel_of_arm: Path) -> None:
    """Below `share` of the environment; without the folder's name the wheel has none, whatever lies in build/."""
    pages = list((wheel_of_arm.parent.parent / "man").iterdir())
    with zipfile.ZipFile(wheel_of_arm) as archive, zipfile.ZipFile(wheel) as bare:
        added = {info.filename: info.external_attr >> 16 & 0o777 for info in archive.infolist()}
        for name in bare.namelist():
            del added[name]
        place = "virtoll-0.1.0.data/data/share/man/man1"
        assert added == {f"{place}/{page.name}": 0o644 for page in pages}
        page = next(page for page in pages if page.name == "virtoll-run.1")
        assert archive.read(f"{place}/virtoll-run.1") == page.read_bytes()


@pytest.mark.parametrize(
    ("content", "mode", "facts"),
    [
        (None, 0o755, ("'make agent'",)),
        (b"#!/bin/sh\n", 0o755, ("64-bit", "ELF")),
        (elf(243, 1), 0o755, (243, "x86_64", "aarch64")),
        (elf(62, 1, 3), 0o755, ("static",)),
        (elf(62, 1), 0o644, ("chmod 0755",)),
    ],
)
def test_no_wheel_without_an_agent_that_runs_everywhere(
    source: Path, tmp_path: Path, content: bytes | None, mode: int, facts: tuple[str | int, ...]
) -> None:
    agent = tmp_path / "agent" if content is None else program(tmp_path, content, mode)
    assert_facts(refusal(build_wheel(source, agent, tmp_path / "dist")), agent, *facts)
    assert list(tmp_path.glob("dist/*")) == []


@pytest.mark.skipif(shutil.which("setarch") is None, reason="needs setarch")
def test_a_machine_that_no_wheel_is_for_builds_none(source: Path, tmp_path: Path) -> None:
    finished = build_wheel(source, tmp_path / "agent", tmp_path / "dist", way=["setarch", "linux32"])
    assert_facts(refusal(finished), "Linux", "x86_64", "aarch64")
    assert list(tmp_path.glob("dist/*")) == []


def test_the_same_wheel_is_built_from_the_source_distribution(wheel: Path, tmp_path: Path) -> None:
    """It builds the agent by `make agent` there, and says so; pip does not do it by itself."""
    made = build_sdist(tmp_path / "clone", tmp_path / "dist")
    shutil.unpack_archive(made, tmp_path)
    (source,) = tmp_path.glob("virtoll-*/")
    there = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()}
    left_out = {name for name in tracked(".") if name not in there}
    assert {name for name in left_out if not name.startswith(".")} == set()
    without_agent = build_wheel(source, source / "build" / "virtoll-agent", tmp_path / "wheels")
    assert_facts(refusal(without_agent), "'make agent'", "Rust 1.90", "clang")
    assert build_wheel(source, program(tmp_path, elf(62, 1)), tmp_path / "wheels").returncode == 0
    assert (tmp_path / "wheels" / wheel.name).read_bytes() == wheel.read_bytes()
    if shutil.which("cargo") is not None:  # the workspace is whole: each crate, and what is built of it
        subprocess.run(
            ["cargo", "metadata", "--no-deps", "--offline", "--locked", "--format-version", "1"],
            cwd=source,
            capture_output=True,
            check=True,
        )


def test_this_package_runs_from_a_clone() -> None:
    assert clone_folder() == ROOT
