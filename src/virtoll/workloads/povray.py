"""POV-Ray's standard benchmark scene (Suresh and Kannan 2014, 4.5.3: ``povray -benchmark``). Floating point, caches.

The scene and its options are those of Debian's package povray-examples, which are those that the program itself has
for ``-benchmark``; from a file the picture can be made smaller, and is written, so that it can be checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, ClassVar

from pydantic import Field

from virtoll.experiment import Parameters
from virtoll.workloads.base import Bench, Needs
from virtoll.workloads.programs import ProgramWorkload, Said, run

_SCENE = "/usr/share/doc/povray/examples/advanced/benchmark/benchmark"
_PICTURE = "/tmp/virtoll-povray.ppm"  # noqa: S108 - in the guest, where nobody else is
_MEMORY_BYTES = 160 * 2**20
# Red, green and blue of 255, of the picture of 512 x 512, and how far smaller ones are from it.
_MEAN_COLOUR = (0, 0, 0)
_TOLERANCE = 2.0
# Width, height and the sum of each colour of a PPM file, which is too large to be brought out of the guest.
_SUMS = (
    'local $/; open F, "<:raw", $ARGV[0] or die "$!\\n"; my $bytes = <F>; '
    '$bytes =~ s/^P6\\s+(?:#[^\\n]*\\n)*(\\d+)\\s+(\\d+)\\s+255\\s// or die "no PPM\\n"; '
    "my ($width, $height, $place) = ($1, $2, 0); "
    'length($bytes) == 3 * $width * $height or die "cut short\\n"; my @sums = (0, 0, 0); '
    '$sums[$place++ % 3] += $_ for unpack "C*", $bytes; print "$width $height @sums\\n";'
)
_FIGURES = {
    "trace_seconds": (r"^\s*Trace Time:.*\(([0-9.]+) seconds\)", float),
    "photon_seconds": (r"^\s*Photon Time:.*\(([0-9.]+) seconds\)", float),
    "pixels": (r"^Pixels:\s+([0-9]+)", int),
    "rays": (r"^Rays:\s+([0-9]+)", int),
}


class PovRayParameters(Parameters):
    """``pixels``: of the picture's side; quick 16, the standard's and the paper's 512. ``threads`` that trace it."""

    pixels: int = Field(default=16, ge=8, le=4096)
    threads: int = Field(default=1, ge=1, le=512)


class PovRay(ProgramWorkload):
    """Ray tracing; the check value is the picture's mean colour, which must be the scene's."""

    name: ClassVar[str] = "povray"
    title: ClassVar[str] = "POV-Ray benchmark"
    resource: ClassVar[str] = "CPU"
    parameter_model: ClassVar[type[Parameters]] = PovRayParameters

    def native_seconds(self, parameters: Parameters) -> float:
        """About 5 ms a pixel, and photons before the first one."""
        wanted = _checked(parameters)
        return 1.5 + 5e-3 * wanted.pixels**2 / wanted.threads

    def needs(self, parameters: Parameters) -> Needs:
        """A CPU for each thread, and the scene's memory."""
        wanted = _checked(parameters)
        return Needs(_MEMORY_BYTES + 3 * wanted.pixels**2, wanted.threads)

    def command(self, bench: Bench, parameters: Parameters) -> list[str]:
        """The benchmark's own options, but for the size; no display, no pause; the picture as bytes (PPM)."""
        del bench
        wanted = _checked(parameters)
        return [
            "povray", f"{_SCENE}.ini", f"+I{_SCENE}.pov", f"+W{wanted.pixels}", f"+H{wanted.pixels}", "-D", "-P", "+F",
            "+FP8", f"+O{_PICTURE}", f"+WT{wanted.threads}",
        ]  # fmt: skip

    def prepare(self, bench: Bench, parameters: Parameters) -> str | None:
        """No picture; the program, its libraries and the scene in the guest's page cache."""
        del parameters
        run(bench.guest, ["rm", "-f", _PICTURE])
        run(bench.guest, ["povray", "--version"], 600.0)
        run(bench.guest, ["sha256sum", f"{_SCENE}.ini", f"{_SCENE}.pov"])
        return None

    def figures(self, said: Said) -> dict[str, Any]:
        """The tool's own times by the guest's clock, and what it counted."""
        return parse(said.complaints)

    def check(self, bench: Bench, parameters: Parameters, figures: dict[str, Any]) -> str:
        """The scene's mean colour where the picture's is within 2 of 255 of it, else the picture's.

        The exact sums are no check value: the C library's functions differ in their last bit from CPU to CPU. They are
        told all the same, ``colour_sums``; the file's hash would be another each second, which it holds as a comment.
        """
        pixels, guest = _checked(parameters).pixels, bench.guest
        width, height, *sums = map(int, run(guest, ["perl", "-e", _SUMS, _PICTURE], 600.0).split())
        figures["colour_sums"] = sums
        means = [one / (width * height) for one in sums]
        run(guest, ["rm", _PICTURE])
        if (width, height) != (pixels, pixels):
            return f"{width} x {height} pixels"
        near = all(abs(one - wanted) <= _TOLERANCE for one, wanted in zip(means, _MEAN_COLOUR, strict=True))
        return _words(_MEAN_COLOUR) if near else _words(means)

    def expected_check(self, parameters: Parameters) -> str | None:
        """The scene's mean colour."""
        del parameters
        return _words(_MEAN_COLOUR)


def _words(colour: Iterable[float]) -> str:
    return "mean colour " + " ".join(f"{part:.1f}" for part in colour)


def parse(complaints: str) -> dict[str, Any]:
    """Times (s, by the guest's clock) and counts of POV-Ray 3.7's closing statistics; ValueError where one is missing.

    What a scene has no photons for has no time for them: it is left out.
    """
    found: dict[str, Any] = {}
    for name, (pattern, kind) in _FIGURES.items():
        match = re.search(pattern, complaints, re.MULTILINE)
        if match is not None:
            found[name] = kind(match[1])
        elif name != "photon_seconds":
            raise ValueError(f"no {name.replace('_', ' ')} in it")
    return found


def _checked(parameters: Parameters) -> PovRayParameters:
    if not isinstance(parameters, PovRayParameters):
        raise TypeError("PovRayParameters expected")
    return parameters
