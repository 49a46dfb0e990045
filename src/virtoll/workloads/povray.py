"""POV-Ray's standard benchmark scene (Suresh and Kannan 2014, 4.5.3: ``povray -benchmark``). Floating point, caches.

The scene and its options are those of Debian's package povray-examples, which are those that the program itself has for
``-benchmark``. From a file the picture can be made smaller, and is written, so that it can be checked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from virtoll.experiment.model import Parameters
from virtoll.workloads.base import Bench, Figures, Needs
from virtoll.workloads.programs import ProgramOutput, ProgramWorkload, attempt, run

_SCENE = "/usr/share/doc/povray/examples/advanced/benchmark/benchmark"
_PICTURE = "/tmp/virtoll-povray.ppm"  # noqa: S108 - in the guest, where nobody else is
_MEMORY_BYTES = 160 * 2**20
# The scene in 4 x 4 fields of equal size, line after line from the top: mean red, green and blue (0 to 255) of POV-Ray
# 3.7's own picture of 128 x 128 pixels.
_FIELDS = 4
SCENE_COLOURS = (
    (186, 194, 208),
    (190, 210, 239),
    (219, 231, 250),
    (214, 224, 244),
    (159, 145, 130),
    (150, 140, 134),
    (137, 129, 130),
    (149, 141, 130),
    (142, 131, 120),
    (141, 121, 100),
    (127, 113, 98),
    (134, 129, 121),
    (213, 189, 165),
    (148, 133, 123),
    (120, 112, 106),
    (100, 98, 102),
)
# How far a field's colour may be: other sizes sample the scene otherwise. 12.3 was seen at 16 x 16, 4.3 at 64 x 64.
_TOLERANCE = 16.0
# Width, height and, field after field, the sum of each colour of a PPM file, which is too large to be brought here.
SUMS = r"""
open F, "<:raw", $ARGV[0] or die "$!\n";
my @head;
while (@head < 4) { defined(my $line = <F>) or die "no PPM\n"; $line =~ s/#.*//; push @head, split " ", $line; }
my ($kind, $width, $height, $most, $fields) = (@head, $ARGV[1]);
$kind eq "P6" && $most == 255 or die "no PPM of 8 bits\n";
my @sums = (0) x (3 * $fields**2);
for my $y (0 .. $height - 1) {
    read(F, my $bytes, 3 * $width) == 3 * $width or die "cut short\n";
    my @line = unpack "C*", $bytes;
    my $first = 3 * $fields * int($y * $fields / $height);
    for my $x (0 .. $width - 1) {
        my $place = $first + 3 * int($x * $fields / $width);
        $sums[$place + $_] += $line[3 * $x + $_] for 0 .. 2;
    }
}
read(F, my $more, 1) and die "too long\n";
print "$width $height @sums\n";
"""
_RIGHT = "the scene"
_FIGURES = {
    "trace_seconds": (r"^\s*Trace Time:.*\(([0-9.]+) seconds\)", float),
    "photon_seconds": (r"^\s*Photon Time:.*\(([0-9.]+) seconds\)", float),
    "pixels": (r"^Pixels:\s+([0-9]+)", int),
    "rays": (r"^Rays:\s+([0-9]+)", int),
}


class PovRayParameters(Parameters):
    """``pixels``: of the picture's side; quick 16, the standard's and the paper's 512. ``threads`` that trace it."""

    pixels: int = Field(
        default=16,
        ge=16,
        le=4096,
        multiple_of=_FIELDS,
        description="side of the picture, in pixels; the paper's size is 512",
    )
    threads: int = Field(default=1, ge=1, le=512, description="threads that trace it")


class PovRay(ProgramWorkload[PovRayParameters]):
    """Ray tracing; the check is whether the picture shows the scene: its colours, field by field."""

    name: ClassVar[str] = "povray"
    title: ClassVar[str] = "POV-Ray benchmark"
    about: ClassVar[str] = "a picture ray-traced"
    origin: ClassVar[str] = "Suresh 2014"
    resource: ClassVar[str] = "CPU"
    parameter_model = PovRayParameters
    packages: ClassVar[tuple[str, ...]] = ("povray", "povray-examples", "povray-includes")
    most_slowdown: ClassVar[float] = 20.0

    def native_seconds(self) -> float:
        """About 5 ms a pixel, and photons before the first one."""
        parameters = self.parameters
        return 1.5 + 5e-3 * parameters.pixels**2 / parameters.threads

    def needs(self) -> Needs:
        """A CPU for each thread, and the scene's memory."""
        parameters = self.parameters
        return Needs(_MEMORY_BYTES + 3 * parameters.pixels**2, vcpus=parameters.threads)

    def command(self, bench: Bench) -> list[str]:
        """The benchmark's own options, but for the size; no display, no pause; the picture as bytes (PPM).

        ``-V``: no line for each block of pixels, which of a large picture are more than is kept of what is printed.
        """
        del bench
        parameters = self.parameters
        return [
            "povray",
            f"{_SCENE}.ini",
            f"+I{_SCENE}.pov",
            f"+W{parameters.pixels}",
            f"+H{parameters.pixels}",
            "-D",
            "-P",
            "-V",
            "+FP8",
            f"+O{_PICTURE}",
            f"+WT{parameters.threads}",
        ]

    def prepare(self, bench: Bench) -> str | None:
        """No picture; the program, its libraries and the scene in the guest's page cache."""
        run(bench.guest, ["rm", "-f", _PICTURE])
        run(bench.guest, ["povray", "--version"], 600.0)
        run(bench.guest, ["sha256sum", f"{_SCENE}.ini", f"{_SCENE}.pov"])
        return None

    def figures(self, program: ProgramOutput) -> Figures:
        """The tool's own times by the guest's clock, and what it counted."""
        return parse(program.complaints)

    def check(self, bench: Bench, figures: Figures) -> str:
        """Whether each field of the picture has the scene's colour, or which one is farthest from it.

        Exact sums are no check value. Two threads do not make the picture of one to the last bit, and the C library's
        functions may round differently on another CPU. They are reported all the same, ``colour_sums``; the file's hash
        would be another each second, which it holds as a comment.
        """
        pixels, guest = self.parameters.pixels, bench.guest
        program = attempt(guest, ["perl", "-e", SUMS, _PICTURE, str(_FIELDS)], 600.0)
        run(guest, ["rm", "-f", _PICTURE])
        if program.status != 0:
            return f"no picture: {program.complaints.strip()}"
        width, height, *sums = map(int, program.output.split())
        figures["colour_sums"] = sums
        return compare(width, height, sums) if (width, height) == (pixels, pixels) else f"{width} x {height} pixels"

    def expected_check(self) -> str | None:
        """The scene."""
        return _RIGHT


def compare(width: int, height: int, sums: Sequence[int]) -> str:
    """Whether a picture shows the scene: the sums of red, green and blue of each field against the scene's.

    Where a field's colour is farther from the scene's than another size of picture makes it, the field is named.
    """
    means = [colour_sum * _FIELDS**2 / (width * height) for colour_sum in sums]
    fields = [tuple(means[start : start + 3]) for start in range(0, len(means), 3)]
    apart = [_distance(field, scene) for field, scene in zip(fields, SCENE_COLOURS, strict=True)]
    if max(apart) <= _TOLERANCE:
        return _RIGHT
    worst = apart.index(max(apart))
    line, column = divmod(worst, _FIELDS)
    return f"field {line + 1},{column + 1} is {_colour(fields[worst])}, not {_colour(SCENE_COLOURS[worst])}"


def _distance(field: Sequence[float], scene: Sequence[float]) -> float:
    return max(abs(mean - colour) for mean, colour in zip(field, scene, strict=True))


def _colour(parts: Sequence[float]) -> str:
    return " ".join(f"{part:.0f}" for part in parts)


def parse(complaints: str) -> Figures:
    """Times (s, by the guest's clock) and counts of POV-Ray 3.7's closing statistics; ValueError where one is missing.

    What a scene has no photons for has no time for them: it is left out.
    """
    figures: dict[str, object] = {}
    for name, (pattern, kind) in _FIGURES.items():
        match = re.search(pattern, complaints, re.MULTILINE)
        if match is not None:
            figures[name] = kind(match[1])
        elif name != "photon_seconds":
            raise ValueError(f"no {name.replace('_', ' ')} in it: {complaints.strip()[-120:]!r}")
    return figures
