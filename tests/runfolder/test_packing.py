"""A run in one file: the same bytes each time, read as its folder is, and refused where it is not what was packed."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer.testing
import zstandard
from tests.support.commands import environment, in_process, output_of
from tests.support.facts import Command, Fact, assert_facts, assert_refused
from tests.support.made_up_folder import write_run
from tests.support.made_up_run import Made, made_up_run
from tests.support.pack_archives import Member, archive_of, files_of, listed, listing, member, plain
from tests.support.repository import ROOT

import virtoll
from virtoll.cli import app
from virtoll.errors import StorageError, UsageError
from virtoll.runfolder import packing, unpacking
from virtoll.runfolder.packing import FORMAT, LIST, PackedFile, pack
from virtoll.runfolder.store import RunFolder
from virtoll.runfolder.sums import SUMS, UNDER_WAY, differences
from virtoll.runfolder.unpacking import unpack
from virtoll.runfolder.writer import writing

pytestmark = pytest.mark.usefixtures("undrawn")
NAME = "20261121T001500Z-made-up-1a2b"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of three platforms, with evidence."""
    factors = {"native": 1.0, "native-again": 1.0, "runc": 2.0}
    made = [Made(label, "superpi", value=3e7 * factor) for label, factor in factors.items()]
    folder = write_run(tmp_path_factory.mktemp("pack") / NAME, made_up_run({label: {} for label in factors}, made))
    (folder / "evidence" / "runc").mkdir()
    (folder / "evidence" / "runc" / "console.txt").write_bytes(b"\0 a console\r\n" * 1000)
    RunFolder.open(folder).set_state("complete", None)
    return folder


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    return Path(shutil.copytree(finished, tmp_path / NAME))


@pytest.fixture
def archive(run: Path, tmp_path: Path) -> Path:
    pack(run, tmp_path / "run.virtoll.tar.zst")
    return tmp_path / "run.virtoll.tar.zst"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An own cache, runs folder and current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VIRTOLL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("VIRTOLL_RUNS", str(tmp_path / "runs"))
    return tmp_path / "cache"


def content(folder: Path) -> dict[str, bytes | None]:
    """Every file and folder below, but for a report."""
    every = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    return {
        name: path.read_bytes() if path.is_file() else None
        for name, path in every.items()
        if name.split("/")[0] != "report"
    }


def test_a_run_comes_back_byte_for_byte(run: Path, tmp_path: Path) -> None:
    (run / "report").mkdir()
    (run / "report" / "index.html").write_text("made anew")
    file = tmp_path / f"{NAME}.virtoll.tar.zst"
    assert_facts(output_of("pack", run), file)
    assert_facts(output_of("unpack", file), tmp_path / "runs" / NAME)
    assert content(tmp_path / "runs" / NAME) == content(run)
    assert not (tmp_path / "runs" / NAME / "report").exists()
    assert_facts(output_of("verify", "latest"), tmp_path / "runs" / NAME)
    output_of("unpack", file, "--into", tmp_path / "own" / "place")
    assert content(tmp_path / "own" / "place") == content(run)
    assert {one.name for one in tmp_path.iterdir() if one.name.startswith(".")} == set()


def test_the_bytes_are_the_same_whenever_and_whoever(run: Path, archive: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(run, tmp_path / "elsewhere" / "named-otherwise"))
    for path in other.rglob("*"):
        path.chmod(0o700)
        os.utime(path, (1, 1))
    pack(other, tmp_path / "other.zst")
    assert (tmp_path / "other.zst").read_bytes() == archive.read_bytes()


def test_any_tar_lists_it(archive: Path, run: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(plain(archive))) as tar:
        members = tar.getmembers()
    announced = json.loads(files_of(archive)[LIST])
    assert {(one.uid, one.gid, one.uname, one.gname, one.mtime) for one in members} == {(0, 0, "", "", 1_795_219_200)}
    assert {one.mode for one in members} == {0o644, 0o755}
    names = [one.name for one in members]
    assert names[:2] == [LIST, NAME]
    assert names[2:] == sorted(names[2:])
    digests = {tuple(line.split("  ")) for line in (run / SUMS).read_text().splitlines()}
    assert digests < {(one["sha256"], name) for name, one in announced["files"].items()}
    assert (announced["format"], announced["anonymised"]) == (FORMAT, None)


def test_what_takes_a_run_takes_the_file(run: Path, archive: Path, cache: Path) -> None:
    for command in (["claims"], ["advise", "--need", "superpi duration<1s"], ["export", "--format", "markdown"]):
        assert output_of(command[0], archive, *command[1:]) == output_of(command[0], run, *command[1:]), command
    assert_facts(output_of("verify", archive), archive)
    loaded = virtoll.load(archive)
    assert loaded.rows() == virtoll.load(run).rows()
    assert repr(loaded) == f"virtoll.load({str(archive)!r})"
    assert output_of("validation", archive, run)
    assert len(list((cache / "objects").iterdir())) == 1  # it was unpacked once
    assert str(cache) in output_of("clean", "--cache")
    assert not (cache / "objects").exists()


def test_a_report_is_next_to_the_archive(run: Path, archive: Path, cache: Path, tmp_path: Path) -> None:
    document = json.loads(output_of("report", archive, "--json"))
    page = tmp_path / "run-report" / "index.html"
    assert (document["run"]["page"], document["run"]["folder"]) == (str(page), str(archive))
    assert page.is_file()
    assert virtoll.load(archive).figures().keys() == {path.stem for path in (page.parent / "figures").glob("*.svg")}
    (copy,) = (cache / "objects").iterdir()
    assert content(copy / NAME) == content(run)
    assert not (copy / NAME / "report").exists()


def test_a_copy_that_was_changed_is_made_anew(archive: Path, cache: Path) -> None:
    printed = output_of("claims", archive)
    (copy,) = (cache / "objects").iterdir()
    (copy / NAME / "trials.jsonl").write_bytes(b"")
    assert output_of("claims", archive) == printed


def test_nothing_is_measured_into_a_packed_run(archive: Path, run: Path, cache: Path) -> None:
    output_of("claims", archive)
    (copy,) = (cache / "objects").iterdir()
    for given in (archive, copy / NAME):
        for words in (["resume"], ["extend", "--blocks", "+1"]):
            assert_refused(in_process(words[0], given, *words[1:]), Command("virtoll unpack"))
    assert content(copy / NAME) == content(run)


def test_a_run_that_was_interrupted_has_digests_too(run: Path, tmp_path: Path) -> None:
    RunFolder.open(run).set_state("interrupted", "a test")
    (run / "trials.jsonl").write_bytes((run / "trials.jsonl").read_bytes()[:-20])  # torn
    output_of("pack", run, "--output", "half.zst")
    assert_refused(in_process("verify", "half.zst"), SUMS)
    output_of("unpack", "half.zst", "--into", tmp_path / "back")
    assert content(tmp_path / "back") == content(run)


def test_what_cannot_be_packed(run: Path, tmp_path: Path) -> None:
    with writing(run):
        assert_refused(in_process("pack", run), run, os.getpid())
    (run / "link").symlink_to("/etc/passwd")
    assert_refused(in_process("pack", run), run / "link", "link")
    (run / "link").unlink()
    assert_refused(in_process("pack", run, "--hide", "name"), "--anonymous")
    assert_refused(in_process("pack", run, "--output", tmp_path), tmp_path, "folder")
    assert_refused(in_process("pack", run, "--output", tmp_path / "none" / "file"), tmp_path / "none", "folder")
    output_of("pack", run, "--output", "there.zst")
    assert_refused(in_process("pack", run, "--output", "there.zst"), "there.zst", "--force")
    output_of("pack", run, "--output", "there.zst", "--force")
    assert_refused(in_process("unpack", "there.zst", "--into", run), run)
    assert {one.name for one in tmp_path.iterdir()} == {NAME, "there.zst"}


def test_damage_is_reported_on_packing_and_on_reading(run: Path) -> None:
    state = run / "state.json"
    state.write_bytes(state.read_bytes() + b" ")
    found = typer.testing.CliRunner().invoke(app, ["pack", str(run), "--output", "damaged.zst"])
    assert (found.exit_code, "state.json" in found.stderr) == (0, True)
    (change,) = differences(run) or ()
    assert_facts(change, "state.json", "changed")
    output_of("unpack", "damaged.zst", "--into", "back")
    assert differences(Path("back")) == differences(run)
    assert_refused(in_process("pack", run, "--anonymous", "--output", "none.zst"), run, "state.json", "--anonymous")


def test_any_part_of_an_archive_is_refused(archive: Path, tmp_path: Path) -> None:
    whole = archive.read_bytes()
    part = tmp_path / "part"
    part.write_bytes(whole + b"more")
    assert_refused(in_process("claims", part), part)
    for end in [0, 3, 4, 5, 17, *range(100, len(whole), len(whole) // 25), len(whole) - 1]:
        part.write_bytes(whole[:end])
        assert_refused(in_process("claims", part), part)


def test_any_bit_that_is_flipped_is_noticed(archive: Path, tmp_path: Path) -> None:
    whole = archive.read_bytes()
    for place in range(1, len(whole), len(whole) // 40):
        part = tmp_path / "flipped"
        part.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        into = tmp_path / str(place)
        into.mkdir()
        with pytest.raises(UsageError):
            unpack(part, into)


def test_any_byte_of_the_tar_may_be_another(tmp_path: Path) -> None:
    """What is unpacked then is the run all the same, or it is refused; checksums of headers are made right again."""
    folder = member("run", kind=tarfile.DIRTYPE)
    more = member("run/manifest.json", MANIFEST, pax_headers={"comment": "x"})
    whole = plain(archive_of(tmp_path / "whole.zst", FIRST[0], folder, more)).rstrip(b"\0") + bytes(1024)
    dice, file, used = random.Random(17), tmp_path / "changed.zst", [place for place, one in enumerate(whole) if one]
    ended: Counter[bool] = Counter()
    for number in range(150):
        tar = bytearray(whole)
        tar[dice.choice(used)] = dice.randrange(256)
        for place in range(0, len(tar), tarfile.BLOCKSIZE):
            if tar[place + 257 : place + 262] == b"ustar":
                tar[place + 148 : place + 156] = b" " * 8
                tar[place + 148 : place + 156] = b"%06o\0 " % sum(tar[place : place + 512])
        file.write_bytes(zstandard.ZstdCompressor(level=1).compress(tar))
        into = tmp_path / str(number)
        into.mkdir()
        try:
            unpack(file, into)
        except UsageError:
            ended[False] += 1
            continue
        ended[True] += 1
        assert content(into) == {"manifest.json": MANIFEST}
    assert min(ended[True], ended[False]) > 10


MANIFEST = b"{}"
LISTED = {"manifest.json": listed(MANIFEST)}
MANIFEST_MEMBER = member("run/manifest.json", MANIFEST)
FIRST = (listing(LISTED), MANIFEST_MEMBER)
BAD_NAMES = ("../out", "/out", "a/../../out", "a//b", ".", "", "a\0b", "\x1b[2J", "x" * 300)
BAD_HEADERS: tuple[dict[str, str], ...] = (
    {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"},
    {"GNU.sparse.map": "a,b"},
    {"GNU.sparse.size": "z"},
    {"size": "-5"},
    {"size": "9" * 20},
    {"path": "/etc/passwd"},
    {"path": "\udcff", "hdrcharset": "BINARY"},
)


def unsafe() -> Iterator[tuple[str, tuple[Member, ...], tuple[Fact, ...]]]:
    """Archives by somebody malicious or mistaken, each with the facts of its refusal."""
    no_pack = (Command("virtoll pack"),)
    yield "no list", (MANIFEST_MEMBER,), no_pack
    yield "list elsewhere", tuple(reversed(FIRST)), no_pack
    yield "list is a link", (member(LIST, kind=tarfile.SYMTYPE, linkname="/etc/passwd"),), no_pack
    yield "list is no JSON", (member(LIST, b"{"),), (LIST,)
    yield "newer", (listing({}, format=FORMAT + 1, folders=3, virtoll="9.9"),), (FORMAT + 1, FORMAT, "9.9")
    yield "no run", (listing({}),), (LIST, "run")
    yield "name of the run", (listing(LISTED, run="../x"),), (LIST, "run")
    yield "not listed", (*FIRST, member("run/more", b"x")), ("'run/more'",)
    yield "twice", (*FIRST, MANIFEST_MEMBER), ("'run/manifest.json'",)
    yield "missing", FIRST[:1], ("manifest.json",)
    yield "other content", (FIRST[0], member("run/manifest.json", b"[]")), ("manifest.json",)
    yield "larger", (FIRST[0], member("run/manifest.json", b"x" * 3)), ("'run/manifest.json'",)
    for name in BAD_NAMES:
        files = {**LISTED, name: listed(b"x")}
        shown = () if "\0" in name or len(name) > 90 else (repr(name),)  # else another name in the tar
        yield f"name {name!r}", (listing(files), MANIFEST_MEMBER, member(f"run/{name}"[:90], b"x")), shown
    yield "folder", (listing(LISTED, folders=["../out"]), MANIFEST_MEMBER), ("'../out'",)
    same_place = listing({**LISTED, "a": listed(b""), "a/b": listed(b"")})
    yield "one place", (same_place, *map(member, ("run/a", "run/a/b"))), ("two",)
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE):
        linked = member("run/manifest.json", kind=kind, linkname="/etc/passwd")
        yield f"kind {kind!r}", (listing({"manifest.json": listed(b"")}), linked), ("'run/manifest.json'",)
    for header in BAD_HEADERS:
        yield f"{header}", (FIRST[0], member("run/manifest.json", MANIFEST, pax_headers=header)), ()
    for name, size in {"huge": packing.MOST_BYTES + 1, "negative": -1, "dense": packing.MOST_BYTES // 2}.items():
        yield name, (listing({"manifest.json": PackedFile(size, "0" * 64)}),), (f"{size} bytes", "1 files")
    empty = [f"folder-{number}" for number in range(packing.MOST_EMPTY_FOLDERS + 1)]
    yield "folders without a file", (listing(LISTED, folders=empty), MANIFEST_MEMBER), (f"{len(empty)} empty folders",)


@pytest.mark.parametrize(("members", "facts"), [pytest.param(*rest, id=name) for name, *rest in unsafe()])
def test_what_somebody_made_is_refused(
    members: tuple[Member, ...], facts: tuple[Fact, ...], tmp_path: Path, cache: Path
) -> None:
    file = archive_of(tmp_path / "theirs.zst", *members)
    assert_refused(in_process("claims", file), file, *facts)
    assert_refused(in_process("unpack", file, "--into", tmp_path / "into"), file, *facts)
    assert list((cache / "objects").iterdir()) == list((cache / "building").iterdir()) == []
    assert {one.name for one in tmp_path.iterdir()} == {"theirs.zst", "cache"}


def test_what_a_killed_unpack_left_is_removed_and_one_under_way_is_not(archive: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    unpacks = (
        "import os, signal, sys; from pathlib import Path; from virtoll.runfolder import unpacking\n"
        "from virtoll.cli import main\n"
        "def held(archive, into, unpack=unpacking.unpack):\n"
        "    unpack(archive, into); print(into.parent, flush=True); sys.stdin.read()\n"
        "unpacking.unpack = held; main()\n"
    )
    command = [sys.executable, "-c", unpacks, "unpack", str(archive), "--into", str(place / "held")]
    with subprocess.Popen(
        command, env=environment(), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as held:
        assert held.stdout is not None
        beside = Path(held.stdout.readline().strip())
        output_of("unpack", archive, "--into", place / "one")
        assert (beside / "run" / "manifest.json").exists(), "it is under way"
        held.kill()
    output_of("unpack", archive, "--into", place / "two")
    assert {one.name for one in place.iterdir()} == {"one", "two"}


def test_a_link_where_a_run_is_unpacked_is_refused(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    for target in ("elsewhere", "nowhere"):
        (tmp_path / "place").symlink_to(target)
        assert_refused(in_process("unpack", archive, "--into", tmp_path / "place"), tmp_path / "place")
        (tmp_path / "place").unlink()
    assert list((tmp_path / "elsewhere").iterdir()) == []
    left = tmp_path / f".unpack{UNDER_WAY}0123abcd"
    left.symlink_to("elsewhere")
    (tmp_path / "elsewhere" / "mine").touch()
    output_of("unpack", archive, "--into", tmp_path / "place")
    assert left.is_symlink()
    assert (tmp_path / "elsewhere" / "mine").exists()


def test_a_runs_name_is_no_path_of_a_table(run: Path, tmp_path: Path) -> None:
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps({**manifest, "run": str(tmp_path / "elsewhere")}))
    (run / SUMS).unlink()
    command = ("export", run, "--parquet", "--output", tmp_path / "tables")
    assert_refused(in_process(*command), tmp_path / "elsewhere")
    assert not (tmp_path / "elsewhere.parquet").exists()


def test_a_bomb_between_two_files_is_not_taken_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # No archive of a test is as large as the real limit.
    monkeypatch.setattr(unpacking, "_LIST_BYTES", 1 << 20)
    header = member("run/manifest.json", MANIFEST, pax_headers={"comment": "0" * (2 << 20)})
    file = archive_of(tmp_path / "bomb.zst", listing(LISTED), header)
    assert_refused(in_process("claims", file), file, "list")


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_text("a text"),
        lambda path: path.write_bytes(zstandard.ZstdCompressor().compress(b"no tar" * 1000)),
        os.mkfifo,
        str,
    ],
    ids=["empty", "text", "no tar", "pipe", "nothing"],
)
def test_what_is_no_archive_is_refused(make: Callable[[Path], object], tmp_path: Path) -> None:
    make(tmp_path / "file")
    for command in ("report", "unpack"):
        assert_refused(in_process(command, tmp_path / "file"), tmp_path / "file")


def test_where_there_is_no_room_nothing_is_left(archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = shutil.disk_usage(tmp_path)._replace(free=10)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    assert_refused(in_process("unpack", archive), archive, tmp_path / "runs", 10, code=StorageError.exit_code)
    assert list((tmp_path / "runs").iterdir()) == []
