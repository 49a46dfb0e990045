"""The cache: whole objects or none, however a builder ends; one builder at a time; readable by everyone."""

from __future__ import annotations

import multiprocessing
import os
import signal
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.support.facts import refused

from virtoll.errors import ImageError
from virtoll.image.cache import Cache, _state_of, default_cache, tree_digest  # _state_of: each part of it is a case


def silent(_: str) -> None:
    """Says nothing."""


def fill(folder: Path) -> None:
    """A small object with each kind of file."""
    (folder / "sub").mkdir(mode=0o700)
    (folder / "sub/text").write_text("content", encoding="ascii")
    (folder / "program").write_text("#!/bin/sh\n", encoding="ascii")
    (folder / "program").chmod(0o700)
    (folder / "link").symlink_to("sub/text")


def test_what_was_built_is_found_again(cache: Cache) -> None:
    assert cache.find("thing") is None
    built = cache.build("thing", fill, silent)
    assert cache.find("thing") == built
    assert (built / "link").read_text(encoding="ascii") == "content"
    assert built.name == tree_digest(built)


def test_the_second_build_does_not_call_fill(cache: Cache) -> None:
    built = cache.build("thing", fill, silent)

    def never(_: Path) -> None:
        raise AssertionError("filled twice")

    assert cache.build("thing", never, silent) == built


def test_the_same_content_under_two_names_is_stored_once(cache: Cache) -> None:
    assert cache.build("one", fill, silent) == cache.build("two", fill, silent)
    assert len(list((cache.home / "objects").iterdir())) == 1


@pytest.mark.parametrize("change", ["text", "kind", "permission", "name"])
def test_the_digest_sees_each_change_but_not_times(tmp_path: Path, change: str) -> None:
    fill(tmp_path)
    before = tree_digest(tmp_path)
    os.utime(tmp_path / "sub/text", (1, 1))
    assert tree_digest(tmp_path) == before
    match change:
        case "text":
            (tmp_path / "sub/text").write_text("other", encoding="ascii")
        case "kind":
            (tmp_path / "link").unlink()
            (tmp_path / "link").write_text("sub/text", encoding="ascii")
        case "permission":
            (tmp_path / "program").chmod(0o644)
        case _:
            (tmp_path / "sub").rename(tmp_path / "below")
    assert tree_digest(tmp_path) != before


def test_other_users_can_read_whatever_the_umask_is(cache: Cache) -> None:
    before = os.umask(0o077)
    try:
        built = cache.build("thing", fill, silent)
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (cache.home, built, *built.rglob("*"))}
    assert modes == {"cache": 0o755, built.name: 0o755, "sub": 0o755, "text": 0o644, "program": 0o755, "link": 0o644}


def test_a_fill_that_fails_leaves_nothing(cache: Cache) -> None:
    def fails(folder: Path) -> None:
        fill(folder)
        raise ImageError("no network")

    with pytest.raises(ImageError, match="no network"):
        cache.build("thing", fails, silent)
    assert cache.find("thing") is None
    assert not list((cache.home / "building").iterdir())
    assert not list((cache.home / "objects").iterdir())


def test_what_a_link_of_an_object_leads_to_is_not_looked_at(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    found = cache.build("x", lambda folder: (folder / "link").symlink_to(outside), lambda _: None)
    assert cache.find_whole("x") == found
    (outside / "more").write_bytes(b"more")
    monkeypatch.setattr("virtoll.image.cache.tree_digest", lambda _: "hashed again")
    assert cache.find_whole("x") == found


def test_another_cache_is_read_and_not_written(cache: Cache, tmp_path: Path) -> None:
    built = cache.build("thing", fill, silent)
    mine = Cache(tmp_path / "mine", (cache.home,))
    assert mine.find("thing") == built
    assert mine.build("other", fill, silent).is_relative_to(tmp_path / "mine")
    assert [path.name for path in (cache.home / "refs").iterdir()] == ["thing"]


def test_an_object_that_this_user_may_not_read_whole_is_built_anew(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody has closed a folder of root's cache; root reads it all the same."""
    theirs = cache.build("thing", fill, silent)
    scandir = os.scandir

    def refused(folder: bytes) -> object:
        if folder == os.fsencode(theirs / "sub"):
            raise PermissionError(13, "Permission denied", folder)
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", refused)
    own = Cache(tmp_path / "own", (cache.home,))
    assert own.find("thing") == theirs
    assert own.find_whole("thing") is None
    assert own.build("thing", fill, silent) == tmp_path / "own" / "objects" / theirs.name
    assert own.find_whole("thing") is not None


def test_a_reference_without_its_object_is_not_found(cache: Cache) -> None:
    built = cache.build("thing", fill, silent)
    built.rename(cache.home / "away")
    assert cache.find("thing") is None
    assert cache.build("thing", fill, silent) == built


def test_clear_removes_all_objects(cache: Cache) -> None:
    cache.build("thing", fill, silent)
    (cache.home / "building/left").mkdir()
    cache.clear()
    assert cache.find("thing") is None
    assert list(cache.home.glob("*/*")) == []
    assert cache.build("thing", fill, silent).is_dir()


def test_a_cache_that_cannot_be_written_is_refused_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with refused(tmp_path / "file", "VIRTOLL_CACHE", error=ImageError):
        Cache(tmp_path / "file" / "cache").build("thing", fill, silent)


BUILDER = """
    import sys
    from pathlib import Path
    from virtoll.image.cache import Cache
    def fill(folder):
        print("filling", flush=True)
        for number in range(400):
            (folder / str(number)).write_bytes(bytes(5000))
        sys.stdin.read()
    Cache(Path(sys.argv[1])).build("thing", fill, print)
"""


def start_builder(cache: Cache) -> subprocess.Popen[bytes]:
    """A builder in a process of its own, which has filled its folder and ends with its input."""
    command = [sys.executable, "-c", textwrap.dedent(BUILDER), str(cache.home)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


FILES = 30


def build_until(home: Path, last: int, counter: str) -> None:
    """Builds, and is killed when it is about to do the ``last`` thing of which Python tells its audit hooks.

    Those are all that it does with files. When it comes to its end it leaves their number.
    """
    done = 0

    def fill_plainly(folder: Path) -> None:
        for number in range(FILES):
            (folder / str(number)).write_bytes(bytes(5000))

    def watch(*_: object) -> None:
        nonlocal done
        done += 1
        if done == last:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    Cache(home).build("thing", fill_plainly, silent)
    Path(counter).write_text(str(done), encoding="ascii")


def test_kill_9_at_any_moment_leaves_a_whole_object_or_none(cache: Cache, tmp_path: Path) -> None:
    counter = tmp_path / "counter"

    def killed_at(moment: int) -> bool:
        """Whether there is an object then; it is looked at, and the cache is empty again afterwards."""
        builder = multiprocessing.get_context("fork").Process(
            target=build_until, args=(cache.home, moment, str(counter))
        )
        builder.start()
        builder.join()
        assert builder.exitcode in (0, -signal.SIGKILL)
        found, building = cache.find("thing"), cache.home / "building"
        if found is not None:
            assert tree_digest(found) == found.name
            assert len(list(found.iterdir())) == FILES
        left = set(building.iterdir()) if building.exists() else set()
        assert set(cache.sweep()) == left
        assert not building.exists() or not list(building.iterdir())
        cache.clear()
        return found is not None

    assert killed_at(0), "nobody was killed"
    moments = int(counter.read_text(encoding="ascii"))
    assert moments > 4 * FILES, "each file is made, settled and hashed"
    whole = [killed_at(moment) for moment in (*range(1, moments - 20, 15), *range(moments - 20, moments))]
    assert whole == sorted(whole), "once it is there it stays"
    assert not whole[0]
    assert whole[-1]


def test_the_next_builder_sweeps_what_a_killed_one_left(cache: Cache) -> None:
    builder = start_builder(cache)
    assert builder.stdout is not None
    with builder.stdout:
        assert builder.stdout.readline() == b"filling\n"
        builder.kill()
        builder.wait()
    assert list((cache.home / "building").iterdir())
    cache.build("other", fill, silent)
    assert not list((cache.home / "building").iterdir())


def test_what_cannot_be_swept_is_not_named_and_hinders_no_builder(cache: Cache) -> None:
    cache.build("thing", fill, silent)
    stays = cache.home / "building" / "stays"
    stays.touch()  # rmtree refuses a file
    goes = cache.home / "building" / "goes"
    goes.mkdir()
    assert cache.sweep() == (goes,)
    assert cache.build("other", fill, silent).is_dir()
    assert stays.exists()


def test_sweep_leaves_a_builder_at_work_alone(cache: Cache) -> None:
    builder = start_builder(cache)
    assert builder.stdout is not None
    with builder.stdout:
        builder.stdout.readline()
        assert cache.sweep() == ()
        left = list((cache.home / "building").iterdir())
        builder.kill()
        builder.wait()
    assert left


def build_and_count(home: Path, counter: str) -> None:
    """Builds and leaves one line for each fill."""

    def counted(folder: Path) -> None:
        fill(folder)
        with Path(counter).open("a", encoding="ascii") as file:
            file.write("filled\n")

    Cache(home).build("thing", counted, silent)


def test_concurrent_builders_build_once(cache: Cache, tmp_path: Path) -> None:
    counter = str(tmp_path / "counter")
    context = multiprocessing.get_context("fork")
    builders = [context.Process(target=build_and_count, args=(cache.home, counter)) for _ in range(6)]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join()
        assert builder.exitcode == 0
    assert Path(counter).read_text(encoding="ascii") == "filled\n"


def test_the_default_cache_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VIRTOLL_CACHE", str(tmp_path / "named"))
    assert default_cache() == Cache(tmp_path / "named")
    monkeypatch.delenv("VIRTOLL_CACHE")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    assert default_cache() == Cache(tmp_path / "user/virtoll", (Path("/var/cache/virtoll"),))
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_cache().home == tmp_path / ".cache/virtoll"


def test_what_is_made_is_writable_for_its_user_alone_whatever_the_umask(cache: Cache) -> None:
    before = os.umask(0)
    try:
        cache.build("x", fill, silent)
        assert cache.find_whole("x") is not None
    finally:
        os.umask(before)
    open_to_others = [path for path in (cache.home, *cache.home.rglob("*")) if path.lstat().st_mode & 0o022]
    assert [path for path in open_to_others if not path.is_symlink()] == []


@pytest.mark.parametrize("name", ["", "refs", "objects"])
def test_a_cache_to_which_others_may_write_is_not_used(cache: Cache, name: str) -> None:
    """Its programs run as guests, as root's too."""
    cache.build("x", fill, silent)
    (cache.home / name).chmod(0o777)
    assert cache.find("x") is None
    with refused("0777", error=ImageError):
        cache.build("x", fill, silent)


@pytest.mark.root
def test_another_users_cache_is_named_with_its_owner(cache: Cache) -> None:
    cache.build("x", fill, silent)
    os.chown(cache.home, 12346, 12346)
    assert cache.find("x") is None
    with refused(cache.home, 12346, error=ImageError):
        cache.build("x", fill, silent)


def test_a_reference_that_leads_out_of_the_cache_is_none(cache: Cache, tmp_path: Path) -> None:
    cache.build("x", fill, silent)
    (tmp_path / "elsewhere" / "objects" / "0").mkdir(parents=True)
    (cache.home / "refs" / "x").unlink()
    (cache.home / "refs" / "x").symlink_to(tmp_path / "elsewhere" / "objects" / "0")
    assert cache.find("x") is None


def test_notes_that_others_could_write_are_not_believed(cache: Cache) -> None:
    """What says that an object is whole: a note of somebody else's must not stand for a damaged one."""
    whole = cache.build("x", fill, silent)
    (cache.home / "verified").chmod(0o777)
    (whole / "sub/text").write_text("two", encoding="utf-8")
    # A note as the cache writes it; no public function gives one.
    (cache.home / "verified" / whole.name).write_text(_state_of(whole), encoding="ascii")
    assert cache.find_whole("x") is None
