"""Debian packages: what is chosen for a release, what nfpm is told, and one that comes and goes in a bare root."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tests.support.bare_roots import bare, done_in
from tests.support.facts import assert_facts
from tests.support.repository import ROOT, load_tool
from tests.support.wheels import build_wheel, copy_source

from virtoll import __version__
from virtoll.host import packages

deb: ModuleType = load_tool("deb")
LOCK = """\
colorama==0.4.6 ; sys_platform == 'win32' \\
    --hash=sha256:aa
numpy==2.4.6 ; python_full_version < '3.12' \\
    --hash=sha256:bb \\
    --hash=sha256:cc
numpy==2.5.5 ; python_full_version >= '3.12' \\
    --hash=sha256:dd
    # via scipy
setuptools==84.2.1 \\
    --hash=sha256:ee
typer==0.29.2 \\
    --hash=sha256:ff
"""
WHEEL = f"virtoll-{__version__}-py3-none-manylinux_2_17_x86_64.musllinux_1_1_x86_64.whl"
EPOCH = 1_700_000_000


@pytest.fixture
def order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Path]:
    """A wheel by its name alone, and the time that a build is told."""
    (tmp_path / WHEEL).write_bytes(b"a wheel\n")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(EPOCH))
    return "trixie", tmp_path / WHEEL


def test_of_the_lock_only_what_the_release_has_a_use_for(order: tuple[str, Path]) -> None:
    new, old = deb.order_for(*order), deb.order_for("bookworm", order[1])
    kept = [deb.pinned(LOCK, one) for one in (old, new)]
    names = [re.findall(r"^([\w.-]+==[\w.]+) ", text, re.MULTILINE) for text in kept]
    mine = f"virtoll=={__version__}"
    assert names == [["numpy==2.4.6", "typer==0.29.2", mine], ["numpy==2.5.5", "typer==0.29.2", mine]]
    assert re.findall(r"sha256:(\w+)", kept[0])[:-1] == ["bb", "cc", "ff"]
    digest = subprocess.run(["sha256sum", order[1]], capture_output=True, text=True, check=True).stdout.split()[0]
    assert kept[0].endswith(f"--hash=sha256:{digest}\n")


def test_the_real_lock_has_every_library_for_both(order: tuple[str, Path]) -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    for release in deb.RELEASES:
        text = deb.pinned(lock, deb.order_for(release, order[1]))
        names = re.findall(r"^([\w.-]+)==", text, re.MULTILINE)
        assert {"numpy", "scipy", "typer", "virtoll"} < set(names)
        assert len(names) == len(set(names))
        assert ";" not in text, "pip would judge a marker by its own Python"


def test_what_it_needs_is_the_list_of_the_set_up(order: tuple[str, Path], tmp_path: Path) -> None:
    told = deb.configuration(tmp_path, tmp_path, deb.order_for(*order))
    assert told["depends"][:2] == ["python3 (>= 3.13~)", "python3 (<< 3.14~)"]
    needed = {name.partition(" |")[0] for name in told["depends"]} | {*told["recommends"]}
    assert {one.name for one in packages.needed("x86_64", tools=True)} <= needed
    assert "runc | containerd.io" in told["depends"]
    every = {one.name for one in packages.needed("x86_64", platforms=True, tools=True)}
    assert every <= needed | {*told["suggests"]}
    assert not needed & {*told["suggests"]}
    assert (told["arch"], told["release"]) == ("amd64", "1+deb13")


@pytest.mark.parametrize(
    ("name", "epoch", "facts"),
    [
        ("virtoll-9.9.9-py3-none-manylinux_2_17_x86_64.whl", str(EPOCH), ("9.9.9", __version__, "'make wheel'")),
        ("virtoll-missing.whl", str(EPOCH), ("virtoll-missing.whl",)),
        (WHEEL, "", ("SOURCE_DATE_EPOCH",)),
    ],
)
def test_what_cannot_be_packed_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    epoch: str,
    facts: tuple[str, ...],
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
    if "missing" not in name:
        (tmp_path / name).write_bytes(b"")
    assert deb.main(["--wheel", str(tmp_path / name), "--into", str(tmp_path / "dist")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert_facts(line, *facts)
    assert not (tmp_path / "dist").exists()


def test_the_copyright_file_has_each_library_and_its_licence() -> None:
    site = Path(str(importlib.metadata.distribution("typer").locate_file("")))
    text = deb.copyright_of(site)
    heads = dict(re.findall(r"^={78}\n(\S+) \S+: ?(.*)\n={78}$", text, re.MULTILINE))
    assert {"numpy", "scipy", "typer", "MLRsearch", "pydantic"} <= set(heads)
    assert [name for name, licence in heads.items() if not licence] == []
    assert text.count("Permission is hereby granted,") > 3, "the texts of the licences"


def the_package(folder: Path, release: str) -> Path:
    """The package of this clone, with the agent that was built here; nfpm comes from the cache or the network."""
    finished = build_wheel(copy_source(folder / "source"), ROOT / "build" / "virtoll-agent", folder / "dist")
    assert finished.returncode == 0, finished.stderr
    (wheel,) = (folder / "dist").iterdir()
    made: Path = deb.make(deb.order_for(release, wheel), folder / "packages")
    return made


@pytest.mark.extended
@pytest.mark.network
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_same_wheel_gives_the_same_bytes_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In two folders, by another umask, in another time zone; the wheel's own time is another."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(EPOCH))
    one = the_package(tmp_path, "bookworm")
    (wheel,) = (tmp_path / "dist").iterdir()
    elsewhere = tmp_path / "deeper" / "and" / "deeper"
    elsewhere.mkdir(parents=True)
    other = elsewhere / wheel.name
    other.write_bytes(wheel.read_bytes())
    os.utime(other, (EPOCH + 86_400, EPOCH + 86_400))
    command = [sys.executable, "tools/deb.py", f"--wheel={other}", f"--into={elsewhere}", "--release=bookworm"]
    environment = {**os.environ, "PYTHONPATH": "src", "TMPDIR": str(elsewhere), "TZ": "Asia/Tokyo"}
    subprocess.run(command, cwd=ROOT, env=environment, umask=0o077, check=True)
    assert (elsewhere / one.name).read_bytes() == one.read_bytes()


def files_of(root: Path) -> set[str]:
    """All below /opt and /usr, without what belongs to dpkg's and apt's own books."""
    return {str(path.relative_to(root)) for top in ("opt", "usr") for path in (root / top).rglob("*")}


@pytest.mark.extended
@pytest.mark.root
@pytest.mark.network
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("release", ["bookworm", "trixie"])
def test_apt_installs_it_into_a_bare_debian_and_nothing_is_left(
    release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(EPOCH))
    package = the_package(tmp_path, release)
    listed = subprocess.run(["dpkg-deb", "--contents", package], capture_output=True, text=True, check=True).stdout
    for place in (*deb.COMPLETIONS.values(), "usr/share/man/man1/virtoll.1.gz", "usr/share/doc/virtoll/copyright"):
        assert re.search(rf"^-rw-r--r-- root/root +[1-9]\d* 2023-11-14 .* \./{place}$", listed, re.MULTILINE), place
    assert re.findall(r"\./(\S+) -> (\S+)$", listed, re.MULTILINE) == [
        (place.removeprefix("/"), there) for place, there in deb.LINKS.items()
    ]
    root = tmp_path / "root"
    bare(root, release)
    shutil.copy(package, root / "root" / package.name)
    done_in(root, "apt-get", "update")
    # What is recommended is an emulator of 300 MB, of which nothing is started here.
    install = ("apt-get", "install", "-y", "--no-install-recommends", "--no-remove")
    required = done_in(root, "dpkg-deb", "-f", package.name, "Depends").strip().split(", ")
    done_in(root, *install, *(name.partition(" |")[0] for name in required if "(" not in name))
    before = files_of(root)
    done_in(root, *install, f"./{package.name}")
    assert list((root / "opt/virtoll/lib").rglob("typer/__pycache__/*.pyc")), "compiled when it was installed"
    own = "import virtoll.errors as errors; print(errors.installation(), errors.remedy_for('agent'))"
    kind, _, remedy = done_in(root, "/opt/virtoll/bin/python3", "-c", own).partition(" ")
    assert kind == "deb"
    assert_facts(remedy, "Debian package")
    assert done_in(root, "virtoll", "--version") == f"virtoll {__version__}\n"
    assert "netns" in done_in(root, "virtoll", "list", "platforms")
    assert_facts(done_in(root, "virtoll", "plan", "quick"), "5 randomised blocks")
    # A part of it starts Virtoll anew by the interpreter's name: it is the package's own.
    assert_facts(done_in(root, "virtoll", "run", "models"), "420 of 420")
    done_in(root, "dpkg", "--purge", "virtoll")
    assert files_of(root) - before == set()
    assert not (root / "opt/virtoll").exists()
