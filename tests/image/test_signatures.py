"""What a mirror may not do: what is refused of a small signed archive, with nothing cached."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.facts import refused
from tests.support.signed_archive import ARCHIVE, copy_archive, recipe_of

from virtoll.errors import ImageError
from virtoll.image import Cache, debian
from virtoll.image.apt_sources import refuse_unsigned
from virtoll.image.cache import file_digest
from virtoll.image.tools import prepare_tools

pytestmark = pytest.mark.skipif(shutil.which("apt-get") is None, reason="apt is not on this machine")


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy that may be damaged: the only source that apt knows here, with its key."""
    folder = copy_archive(tmp_path / "archive")
    configuration = f'Dir::Etc::SourceList "{tmp_path}/apt.list";\nDir::Etc::SourceParts "-";\n'
    (tmp_path / "apt.conf").write_text(configuration, encoding="ascii")
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    source(folder, f"signed-by={folder}/ours.gpg")
    return folder


def source(archive: Path, options: str) -> None:
    """Names the archive to apt with these options."""
    line = f"deb [{options}] copy:{archive} ./\n"
    (archive.parent / "apt.list").write_text(line, encoding="ascii")


def silent(_: str) -> None:
    """Says nothing."""


def fetch(cache: Cache, folder: Path) -> None:
    """One package into the cache, as a guest's shell is."""
    del folder
    package = debian.fetch_package(cache, "word", pattern=None, offline=False, progress=silent)
    assert package.sha256 == file_digest(ARCHIVE / "word.deb")


def fetch_all(cache: Cache, folder: Path) -> None:
    """A package with what it depends on, as an emulator is."""
    del cache
    (folder / "debs").mkdir()
    assert debian.fetch_closure(folder / "debs", ["word"], silent) == {"word": "1.2-3"}


def by_another_key(archive: Path) -> None:
    shutil.copyfile(archive / "InRelease.others", archive / "InRelease")


def without_a_signature(archive: Path) -> None:
    (archive / "InRelease").unlink()
    text = (archive / "InRelease.ours").read_text(encoding="ascii")
    plain = text.split("\n\n", 1)[1].partition("-----BEGIN PGP SIGNATURE")[0]
    (archive / "Release").write_text(plain, encoding="ascii")


def allowed_by_the_host(archive: Path) -> None:
    """Not signed, and a configuration of the host's that takes it all the same."""
    without_a_signature(archive)
    with (archive.parent / "apt.conf").open("a", encoding="ascii") as file:
        file.write('Acquire::AllowInsecureRepositories "true";\nAPT::Get::AllowUnauthenticated "true";\n')


def trusted_by_the_host(archive: Path) -> None:
    without_a_signature(archive)
    source(archive, "trusted=yes")


def a_changed_list(archive: Path) -> None:
    flip(archive / "Packages", 20)


def a_changed_signed_text(archive: Path) -> None:
    text = (archive / "InRelease").read_text(encoding="ascii")
    (archive / "InRelease").write_text(text.replace("Virtoll test", "Virtoll tesT"), encoding="ascii")


def a_changed_package(archive: Path) -> None:
    flip(archive / "word.deb", 700)


def flip(file: Path, at: int) -> None:
    """Another bit at a byte of a file."""
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(bytes(content))


@pytest.mark.parametrize("way", [fetch, fetch_all])
def test_what_is_signed_is_taken(way: Callable[[Cache, Path], None], archive: Path, cache: Cache) -> None:
    way(cache, archive.parent)


@pytest.mark.parametrize(
    ("way", "harm", "fact"),
    [
        (fetch, by_another_key, "signed"),
        (fetch, without_a_signature, "signed"),
        (fetch, allowed_by_the_host, "signed"),
        (fetch, trusted_by_the_host, "trusted=yes"),
        (fetch, a_changed_signed_text, "signed"),
        (fetch, a_changed_list, "Hash Sum mismatch"),
        (fetch, a_changed_package, "Hash Sum mismatch"),
        (fetch_all, by_another_key, "signed"),
        (fetch_all, trusted_by_the_host, "trusted=yes"),
        (fetch_all, a_changed_package, "Hash Sum mismatch"),
    ],
)
def test_what_a_mirror_changed_is_refused_and_not_kept(
    way: Callable[[Cache, Path], None], harm: Callable[[Path], None], fact: str, archive: Path, cache: Cache
) -> None:
    harm(archive)
    with refused(fact, error=ImageError):
        way(cache, archive.parent)
    kept = [path for path in cache.home.rglob("*") if path.is_file() and path.name != "lock"]
    kept += (archive.parent / "debs").iterdir() if way is fetch_all else ()
    assert kept == []


def expired(archive: Path, asks: str) -> str:
    """An old state of the archive with its old signature, and whether the host's apt asks for Valid-Until; its line."""
    shutil.copyfile(archive / "InRelease.expired", archive / "InRelease")
    with (archive.parent / "apt.conf").open("a", encoding="ascii") as file:  # which the host's own parts would follow
        file.write(f'Dir::Etc::Parts "{archive.parent}/none";\n{asks}')
    source(archive, f"signed-by={archive}/expired.gpg")
    return (archive.parent / "apt.list").read_text(encoding="ascii")


SWITCHED_OFF = 'Acquire::Check-Valid-Until "false";\n'


@pytest.mark.parametrize("way", [fetch, fetch_all])
def test_an_old_state_of_the_archive_is_refused(
    way: Callable[[Cache, Path], None], archive: Path, cache: Cache
) -> None:
    expired(archive, "")
    with refused("expired", error=ImageError):
        way(cache, archive.parent)


@pytest.mark.parametrize("way", [fetch, fetch_all])
def test_an_old_state_is_taken_where_the_hosts_apt_takes_it(
    way: Callable[[Cache, Path], None], archive: Path, cache: Cache
) -> None:
    """As of a mirror of an old day, on purpose."""
    expired(archive, SWITCHED_OFF)
    way(cache, archive.parent)


@pytest.mark.root
@pytest.mark.skipif(shutil.which("mmdebstrap") is None, reason="mmdebstrap is not installed")
@pytest.mark.parametrize("asks", ["", SWITCHED_OFF])
def test_mmdebstrap_asks_how_old_the_archive_is_as_the_hosts_apt_does(asks: str, archive: Path, cache: Cache) -> None:
    recipe = recipe_of(archive, expired(archive, asks).strip())
    if asks:
        prepare_tools(cache, recipe, progress=silent)
        return
    with refused("expired", error=ImageError):
        prepare_tools(cache, recipe, progress=silent)


@pytest.mark.root
@pytest.mark.skipif(shutil.which("mmdebstrap") is None, reason="mmdebstrap is not installed")
@pytest.mark.parametrize("harm", [by_another_key, allowed_by_the_host, a_changed_list, a_changed_package])
def test_mmdebstrap_is_held_to_the_signature_too(harm: Callable[[Path], None], archive: Path, cache: Cache) -> None:
    harm(archive)
    with refused("mmdebstrap", "exit code", error=ImageError):
        prepare_tools(cache, recipe_of(archive), progress=silent)
    assert not list((cache.home / "objects").iterdir())


@pytest.mark.parametrize(
    ("name", "text", "option"),
    [
        (
            "a.list",
            "# deb [trusted=yes] http://one ./\ndeb [arch=amd64 trusted=yes] http://two/debian sid main\n",
            "trusted",
        ),
        ("a.list", "deb [allow-insecure=YES] http://two/debian sid main\n", "allow-insecure"),
        (
            "a.sources",
            "Types: deb\nURIs: http://one\n\nTypes: deb\nURIs: http://x\n http://two/debian/\nTrusted: yes\n",
            "trusted",
        ),
        ("a.sources", "Types: deb\nURIs: http://two/debian\nAllow-Weak: true\n", "allow-weak"),
    ],
)
def test_a_source_that_apt_does_not_verify_is_named(tmp_path: Path, name: str, text: str, option: str) -> None:
    (tmp_path / name).write_text(text, encoding="ascii")
    (tmp_path / "a.list~").write_text("deb [trusted=yes] http://one ./\n", encoding="ascii")
    configured = f"LIST='/nowhere'\nPARTS='{tmp_path}{os.sep}'\n"
    refuse_unsigned(["http://one/pool/a.deb"], configured)
    with refused("apt", "http://two/debian", f"{option}=yes", error=ImageError):
        refuse_unsigned(["http://two/debian/pool/a.deb"], configured)
    refuse_unsigned(["http://two/debian/pool/a.deb"], "")
