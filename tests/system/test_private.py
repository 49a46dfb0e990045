"""Folders and files of one user: opened without links, used only if their owner and mode fit."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.facts import assert_facts, refused

from virtoll.system.private import NotPrivate, open_file, open_folder, place_refusal, read_file, writers_refusal

OTHER = 12346


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    path = tmp_path / "own"
    path.mkdir(mode=0o700)
    descriptor = open_folder(path)
    yield descriptor
    os.close(descriptor)


def private(path: Path, content: bytes = b"x") -> Path:
    """A file of mode 0600."""
    path.write_bytes(content)
    path.chmod(0o600)
    return path


def as_link(place: Path, victim: Path) -> None:
    place.symlink_to(victim)


def as_hard_link(place: Path, victim: Path) -> None:
    place.hardlink_to(victim)


def as_pipe(place: Path, _victim: Path) -> None:
    os.mkfifo(place, 0o600)


def as_folder(place: Path, _victim: Path) -> None:
    place.mkdir(0o700)


def as_open_file(place: Path, _victim: Path) -> None:
    private(place).chmod(0o620)


def as_readable_file(place: Path, _victim: Path) -> None:
    private(place).chmod(0o644)


@pytest.mark.parametrize("make", [as_link, as_hard_link, as_pipe, as_folder, as_open_file, as_readable_file])
@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR | os.O_CREAT, os.O_WRONLY | os.O_APPEND | os.O_CREAT])
def test_what_is_no_file_of_this_users_alone_is_refused(
    folder: int, tmp_path: Path, make: Callable[[Path, Path], None], flags: int
) -> None:
    victim = private(tmp_path / "victim", b"precious")
    make(tmp_path / "own" / "name", victim)
    with pytest.raises(NotPrivate) as raised:
        open_file("name", folder, flags)
    assert raised.value.path == str(tmp_path / "own" / "name")
    assert raised.value.exit_code == 2
    assert victim.read_bytes() == b"precious"


def test_a_new_file_is_closed_to_others_whatever_the_umask(folder: int, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        os.close(open_file("new", folder, os.O_WRONLY | os.O_CREAT))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "own" / "new").stat().st_mode) == 0o600


def test_a_file_is_read_up_to_a_bound_and_a_missing_one_is_empty(folder: int, tmp_path: Path) -> None:
    private(tmp_path / "own" / "file", b"12345")
    assert read_file("file", folder, 5) == b"12345"
    assert read_file("missing", folder, 5) == b""
    with refused("4 bytes", error=NotPrivate):
        read_file("file", folder, 4)


@pytest.mark.root
def test_another_users_file_is_refused_by_name(folder: int, tmp_path: Path) -> None:
    os.chown(private(tmp_path / "own" / "file"), OTHER, OTHER)
    with refused(f"uid {OTHER}", error=NotPrivate):
        open_file("file", folder)


@pytest.mark.root
def test_another_users_folder_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "theirs"
    path.mkdir(mode=0o700)
    os.chown(path, OTHER, OTHER)
    with refused(f"uid {OTHER}", error=NotPrivate):
        open_folder(path)
    assert_facts(str(writers_refusal(path)), f"uid {OTHER}")
    assert_facts(str(place_refusal(path / "mine")), path, f"uid {OTHER}")


@pytest.mark.parametrize("mode", [0o750, 0o705, 0o770, 0o777, 0o1777])
def test_an_open_folder_is_refused_with_its_mode(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "open"
    path.mkdir()
    path.chmod(mode)
    with refused(f"mode {mode:04o}", error=NotPrivate):
        open_folder(path)


def test_a_link_to_an_own_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with refused("link", error=NotPrivate):
        open_folder(tmp_path / "link")
    assert_facts(str(writers_refusal(tmp_path / "link")), "link")


@pytest.mark.parametrize(("mode", "fits"), [(0o755, True), (0o775, False), (0o777, False), (0o700, True)])
def test_only_this_user_and_root_may_write_to_what_all_may_read(tmp_path: Path, mode: int, fits: bool) -> None:
    path = tmp_path / "shown"
    path.mkdir()
    path.chmod(mode)
    assert (writers_refusal(path) is None) == fits


def test_a_folder_that_all_may_write_to_must_be_sticky(tmp_path: Path) -> None:
    above = tmp_path / "tmp"
    above.mkdir()
    above.chmod(0o1777)
    assert place_refusal(above / "state") is None
    assert place_refusal(above / "missing" / "state") is None
    above.chmod(0o777)
    assert f"chmod +t {above}" in str(place_refusal(above / "state"))
