"""POV-Ray: what it printed, and which pictures show its benchmark scene."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from tests.support.commands import environment
from tests.support.facts import Fact, assert_facts, refused
from tests.support.repository import RECORDED
from tests.support.workload_trials import ProgramGuest, assert_problem, measure, result_of

from virtoll.workloads import povray

# POV-Ray 3.7.0.10 of Debian 12, from the image full: 16 x 16 pixels, one thread.
PRINTED = (RECORDED / "povray.txt").read_text(encoding="utf-8")
SIDE = 16
Picture = list[list[tuple[int, int, int]]]


def test_its_statistics() -> None:
    assert povray.parse(PRINTED) == {
        "trace_seconds": 6.426,
        "photon_seconds": 5.218,
        "pixels": 288,
        "rays": 145530,
    }


@pytest.mark.parametrize("missing", ["Trace Time", "Rays", "Pixels"])
def test_statistics_that_are_not_whole_are_refused(missing: str) -> None:
    with refused(missing.lower().replace(" time", ""), error=ValueError):
        povray.parse("".join(line for line in PRINTED.splitlines(keepends=True) if missing not in line))


def scene() -> Picture:
    """A picture of 16 x 16 pixels, each field in the scene's mean colour."""
    return [[povray.SCENE_COLOURS[4 * (y // 4) + x // 4] for x in range(SIDE)] for y in range(SIDE)]


def file(picture: Picture, folder: Path, more: bytes = b"", size: int = SIDE) -> Path:
    """A PPM file with a comment, as POV-Ray writes it."""
    path = folder / "picture.ppm"
    pixels = bytes(part for line in picture for colour in line for part in colour)
    path.write_bytes(b"P6\n# Render Date: Sat Nov 21 2026\n%d %d\n255\n" % (size, size) + pixels + more)
    return path


def summed(path: Path) -> subprocess.CompletedProcess[str]:
    """What the guest's program says of a picture."""
    if shutil.which("perl") is None:
        pytest.skip("perl is not installed (a guest has it)")
    command = ["perl", "-e", povray.SUMS, str(path), "4"]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)


def judged(path: Path) -> str:
    width, height, *sums = map(int, summed(path).stdout.split())
    return povray.compare(width, height, sums)


def test_the_scene_is_known(tmp_path: Path) -> None:
    assert judged(file(scene(), tmp_path)) == povray.PovRay(povray.PovRayParameters()).expected_check()


def mean(colours: Iterable[tuple[int, int, int]]) -> tuple[int, int, int]:
    red, green, blue = (round(sum(parts) / 16) for parts in zip(*colours, strict=True))
    return red, green, blue


@pytest.mark.parametrize("kind", ["upside down", "mirrored", "one colour", "black", "without its last field"])
def test_another_picture_is_not_the_scene(kind: str, tmp_path: Path) -> None:
    right = scene()
    pictures: dict[str, Picture] = {
        "upside down": right[::-1],
        "mirrored": [line[::-1] for line in right],
        "one colour": [[mean(povray.SCENE_COLOURS)] * SIDE] * SIDE,  # the mean colour is right
        "black": [[(0, 0, 0)] * SIDE] * SIDE,
        "without its last field": [*right[:12], *([*line[:12], *[(0, 0, 0)] * 4] for line in right[12:])],
    }
    verdict = judged(file(pictures[kind], tmp_path))
    assert verdict != povray.PovRay(povray.PovRayParameters()).expected_check()
    if kind == "without its last field":
        assert_facts(verdict, "4,4", "0 0 0")


@pytest.mark.parametrize(("off", "right"), [(12, True), (20, False), (-20, False)])
def test_sizes_differ_a_little(off: int, right: bool) -> None:
    """A field of 16 pixels whose red is off by so many of 255."""
    sums = [16 * part for colour in povray.SCENE_COLOURS for part in colour]
    sums[3] += 16 * off
    assert (povray.compare(SIDE, SIDE, sums) == "the scene") == right


@pytest.mark.parametrize(("more", "size", "word"), [(b"\0", SIDE, "too long"), (b"", SIDE + 4, "cut short")])
def test_a_file_that_is_no_whole_picture_is_refused(more: bytes, size: int, word: str, tmp_path: Path) -> None:
    answer = summed(file(scene(), tmp_path, more, size))
    assert answer.returncode != 0
    assert answer.stderr.strip() == word


@pytest.mark.parametrize("pixels", [8, 18, 5000])
def test_sizes_whose_fields_are_not_equal_are_refused(pixels: int) -> None:
    with pytest.raises(ValidationError):
        povray.PovRayParameters(pixels=pixels)


RIGHT = " ".join(str(16 * part) for colour in povray.SCENE_COLOURS for part in colour)


@pytest.mark.parametrize(
    ("perl", "facts"),
    [
        ({"stdout": f"16 16 {RIGHT}\n"}, ()),
        ({"stdout": f"32 32 {RIGHT}\n"}, ("32 x 32 pixels",)),
        ({"status": 1, "stderr": "cut short\n"}, ("cut short",)),
    ],
)
def test_a_trial_is_right_when_its_picture_is(perl: dict[str, Any], facts: tuple[Fact, ...]) -> None:
    guest = ProgramGuest({"perl": [perl]}, timed={"stderr": PRINTED})
    measured = measure("povray", guest)
    assert guest.names == ["rm", "povray", "sha256sum", "povray", "perl", "rm"]
    assert {"+W16", "+H16", "+WT1"} <= set(guest.timed_commands[0])
    if facts:
        assert_problem(measured, *facts)
    else:
        figures = result_of(measured)["figures"]
        assert figures["rays"] == 145530
        assert len(figures["colour_sums"]) == 48
