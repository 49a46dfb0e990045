"""Figures have the same bytes on every host: the host's fonts are not looked up."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.repository import RECORDED, ROOT

DRAW = """
import sys
from virtoll.report.drawer import {converter}
specification = {{"mark": "point", "data": {{"values": [{{"x": 1, "y": "a platform of the host"}}]}},
    "encoding": {{"x": {{"field": "x", "type": "quantitative"}}, "y": {{"field": "y", "type": "nominal"}}}}}}
drawn = {converter}().vegalite_to_svg(specification, config={{"font": "Liberation Sans"}})
sys.stdout.buffer.write({converter}().svg_to_png(drawn))
"""
WITHOUT_CARE = "import vl_convert\ndef converter(): return vl_convert\n"


def drawn(home: Path, program: str) -> bytes:
    """What a new process draws whose user has this home folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FONTCONFIG", "XDG"))}
    variables = {**kept, "HOME": str(home), "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=variables, capture_output=True, check=True).stdout


def test_the_fonts_of_a_user_change_no_picture(tmp_path: Path) -> None:
    with_font, without_font = tmp_path / "with", tmp_path / "without"
    without_font.mkdir()
    (with_font / ".local/share/fonts").mkdir(parents=True)
    shutil.copy(RECORDED / "fonts" / "wide.ttf", with_font / ".local/share/fonts")
    careful = DRAW.format(converter="converter")
    careless = WITHOUT_CARE + careful.replace("from virtoll.report.drawer import converter\n", "")
    assert drawn(with_font, careful) == drawn(without_font, careful)
    assert drawn(with_font, careless) != drawn(with_font, careful), "no converter uses this font"
