"""The image full: by mmdebstrap out of a mirror that the test makes.

What went in is reported, nothing non-free goes in.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.cpio_archive import read_archive
from tests.support.facts import Command, Fact, assert_facts, refused
from tests.support.package_mirror import FREE, Mirror

from virtoll.errors import ImageError
from virtoll.image import FULL, Cache, GuestImage, debian, default_cache, image_form, prepare_image
from virtoll.image.clone import built_agent
from virtoll.image.licences import Installed, licence_names, read_licences, refuse_other_components
from virtoll.image.tools import prepare_tools

made_by_mmdebstrap = [
    pytest.mark.network,  # of the kernel's package alone
    pytest.mark.root,
    pytest.mark.skipif(shutil.which("mmdebstrap") is None, reason="mmdebstrap is not installed"),
]


def example_mirror(folder: Path) -> Mirror:
    """With the package `word`, which needs `needed`."""
    folder.mkdir()
    made = Mirror(folder)
    made.add("word", depends="needed")
    made.add("needed", licence="Under the GPL: /usr/share/common-licenses/GPL-2.\n")
    return made


@dataclass(frozen=True)
class Build:
    """What the image full is built of; it also reads the machine's own cache, for the kernel."""

    folder: Path
    mirror: Mirror

    @property
    def cache(self) -> Cache:
        machine = default_cache()
        return Cache(self.folder / "cache", (machine.home, *machine.others))

    def image(self, *names: str, agent: str = "agent", offline: bool = False) -> GuestImage:
        """The image full with other packages and such an agent, which is never started."""
        program = self.folder / agent
        program.write_bytes(f"\x7fELF {agent}".encode())
        program.chmod(0o755)
        recipe = self.mirror.recipe(*(names or ("word",)))
        return prepare_image("full", kernel=True, cache=self.cache, agent=program, recipe=recipe, offline=offline)


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """Nothing is built yet."""
    return Build(tmp_path, example_mirror(tmp_path / "mirror"))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """The image of `word` is built; tests change nothing of it."""
    folder = tmp_path_factory.mktemp("built")
    made = Build(folder, example_mirror(folder / "mirror"))
    made.image()
    return made


def silent(_: str) -> None:
    """Says nothing."""


class TestBuilt:
    """What mmdebstrap makes."""

    pytestmark = made_by_mmdebstrap

    def test_it_holds_the_packages_the_agent_and_nothing_of_this_host(self, built: Build) -> None:
        image = built.image()
        for name in ("word", "needed"):
            assert (image.root / f"usr/share/{name}/word").read_text(encoding="ascii") == f"from {name}\n"
        assert (image.root / "init").read_bytes() == (built.folder / "agent").read_bytes()
        assert {"data", "dev", "proc", "run", "sys", "tmp"} <= {path.name for path in image.root.iterdir()}
        assert list((image.root / "dev").iterdir()) == []
        assert (image.root / "etc/hostname").read_text(encoding="ascii") == "guest\n"
        assert (image.root / "etc/resolv.conf").read_bytes() == b""
        text = b"".join(path.read_bytes() for path in (image.root / "etc").rglob("*") if path.is_file())
        assert b"copy:" not in text
        assert all((path.lstat().st_uid, path.lstat().st_gid) == (0, 0) for path in image.root.rglob("*"))
        assert image.tools is not None
        assert image.tools["packages"] == {"word": "1.2-3", "needed": "1.2-3"}
        assert image.tools["licences"] == {"word": ["Expat"], "needed": ["GPL-2"]}
        assert image.tools["wanted"] == ["word"]
        assert image.tools["bytes"] > 0

    def test_a_machine_is_given_it_as_a_disk_and_not_in_memory(self, built: Build, cache: Cache) -> None:
        image = built.image()
        assert image.needs_disk
        for archive in (image.initramfs, image.disk_initramfs):
            names = {entry.path for entry in read_archive(archive.read_bytes())}
            assert "init" in names
            assert not any(name.startswith("usr/") for name in names)
        with tarfile.open(image_form(image, "oci", cache=cache).file) as layout:
            manifest = json.load(layout.extractfile("manifest.json"))  # type: ignore[arg-type]
            with tarfile.open(fileobj=layout.extractfile(manifest[0]["Layers"][0])) as layer:
                assert {"init", "usr/share/word/word"} <= set(layer.getnames())
        disk = image_form(image, "ext4", cache=cache).file
        result = subprocess.run(["debugfs", "-R", "cat /usr/share/word/word", disk], capture_output=True, check=True)
        assert result.stdout == b"from word\n"

    def test_once_built_it_needs_neither_mirror_nor_program(
        self, built: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        image = built.image()
        away = built.mirror.folder.rename(tmp_path / "away")
        # Whatever starts a program of Debian goes through it.
        monkeypatch.setattr(debian, "_run", lambda *_, **__: pytest.fail("a program was started"))
        assert built.image(offline=True) == image
        away.rename(built.mirror.folder)

    def test_the_same_packages_give_the_same_bytes(self, built: Build, tmp_path: Path) -> None:
        assert Build(tmp_path, built.mirror).image().digest == built.image().digest

    def test_another_agent_takes_no_more_room(self, built: Build) -> None:
        first, second, file = built.image(), built.image(agent="another"), Path("usr/share/word/word")
        assert second.digest != first.digest
        assert (second.root / file).stat().st_ino == (first.root / file).stat().st_ino
        tree = prepare_tools(built.cache, built.mirror.recipe("word"), offline=True, progress=silent, whole=True)
        assert (tree.root / file).read_text(encoding="ascii") == "from word\n"
        assert not (tree.root / "init").exists()

    def test_a_damaged_tree_is_not_built_upon(self, built: Build, tmp_path: Path) -> None:
        shutil.copytree(built.folder / "cache", tmp_path / "cache", symlinks=True)
        copy = Build(tmp_path, built.mirror)
        first, file = copy.image(), Path("usr/share/word/word")
        assert first.root.is_relative_to(tmp_path)
        (first.root / file).write_text("damaged\n", encoding="ascii")
        assert (copy.image(agent="another").root / file).read_text(encoding="ascii") == "from word\n"

    @pytest.mark.parametrize(
        ("section", "licence", "facts"),
        [("non-free/net", FREE, ("main", "other", "non-free/net")), ("net", None, ("other", "copyright"))],
    )
    def test_what_is_not_known_to_be_free_is_refused(
        self, build: Build, section: str, licence: str | None, facts: tuple[Fact, ...]
    ) -> None:
        build.mirror.add("other", section=section, licence=licence)
        with refused(*facts, error=ImageError):
            build.image("word", "other")
        assert list((build.cache.home / "building").iterdir()) == []
        assert not list((build.cache.home / "refs").glob("tools-*"))

    def test_an_unknown_package_is_refused(self, build: Build) -> None:
        with refused("mmdebstrap", "exit code", error=ImageError):
            build.image("nothing-like-it")


def test_offline_without_a_cache_names_the_command(cache: Cache) -> None:
    with refused(Command("virtoll image build full"), error=ImageError):
        prepare_tools(cache, offline=True, progress=silent)


def test_without_mmdebstrap_it_names_what_to_install(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with refused("mmdebstrap", "'virtoll setup --tools'", error=ImageError):
        prepare_tools(cache, progress=silent)


def test_the_mirror_is_that_of_the_hosts_own_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "apt-get"
    program.write_text("#!/bin/sh\nprintf 'http://a one-updates main\\nhttp://b one contrib\\nhttp://c one main\\n'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    # What asks it builds an image for minutes.
    assert debian._mirror() == "http://c"


def test_a_component_before_the_section_is_refused() -> None:
    refuse_other_components((Installed("fio", "fio", "utils"), Installed("x", "x", "main/net")))
    with refused("netperf", "non-free/net", "lmbench", "non-free/utils", error=ImageError, without=("fio",)):
        refuse_other_components(
            (Installed("netperf", "netperf", "non-free/net"), Installed("lmbench", "lmbench", "non-free/utils"))
        )


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (FREE + "\nFiles: a\nLicense:  GPL-2+\n text\n\nLicense: GPL-2+\n", ("Expat", "GPL-2+")),
        ("see /usr/share/common-licenses/GPL-3.\nand `/usr/share/common-licenses/LGPL'", ("GPL-3", "LGPL")),
    ],
)
def test_names_of_licences(text: str, names: tuple[str, ...]) -> None:
    assert licence_names(text) == names


def test_a_licence_without_a_name_refers_to_its_file() -> None:
    (unnamed,) = licence_names("")
    assert_facts(unnamed, "copyright")
    assert licence_names("License: is a word in this prose\n") == (unnamed,)


def with_installed(tree: Path, *packages: tuple[str, str]) -> Path:
    """A tree whose dpkg knows these packages, each with its source; the first has its copyright file."""
    database = tree / "var/lib/dpkg"
    database.mkdir(parents=True)
    entries = (
        f"Package: {name}\nSource: {source}\nStatus: install ok installed\nVersion: 1\nSection: libs\n"
        for name, source in packages
    )
    (database / "status").write_text("\n".join(entries))
    documents = tree / "usr/share/doc" / packages[0][0]
    documents.mkdir(parents=True)
    (documents / "copyright").write_text(FREE)
    return tree


def test_packages_of_one_source_may_share_a_copyright_file(tmp_path: Path) -> None:
    tree = with_installed(tmp_path, ("word", "words"), ("word-common", "words"))
    assert read_licences(tree) == {"word": ("Expat",), "word-common": ("Expat",)}


def test_a_package_without_a_copyright_file_is_refused_by_name(tmp_path: Path) -> None:
    tree = with_installed(tmp_path, ("word", "words"), ("alone", "another"))
    with refused("alone", "copyright", error=ImageError):
        read_licences(tree)


def test_the_real_image_holds_every_tool() -> None:
    if not built_agent().exists():
        pytest.skip("no agent is built: make agent")
    try:
        image = prepare_image("full", offline=True)
    except ImageError as error:
        pytest.skip(f"{error} (or make tools)")
    assert image.tools is not None
    assert set(FULL.packages) <= set(image.tools["packages"])
    assert set(image.tools["licences"]) == set(image.tools["packages"])
    programs = ("bonnie++", "bzip2", "dbench", "fio", "gcc", "httperf", "iperf", "iperf3", "make", "mariadbd", "nginx")
    for program in (*programs, "povray", "rsync", "stress", "stress-ng", "sysbench"):
        found = [image.root / place / program for place in ("usr/bin", "usr/sbin")]
        assert any(path.exists() and os.access(path, os.X_OK) for path in found), program
    assert (image.root / "usr/src/linux-source-6.1.tar.xz").is_file()
