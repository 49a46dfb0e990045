"""What a PDF file says of itself, read from its bytes: its page, its fonts, its pictures.

For files as the report writes them: one page, no encryption.
"""

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class PdfFile:
    """`width`, `height`: of the page, in points; `fonts`: the subtypes of its fonts.

    `embedded`: by which keys font files are in it (`FontFile2`: TrueType); `pictures`: how many it is not drawn from.
    """

    width: float
    height: float
    fonts: frozenset[str]
    embedded: frozenset[str]
    pictures: int


def read_pdf(path: Path) -> PdfFile:
    """Read one; ValueError where it has no page."""
    data = path.read_bytes()
    box = re.search(rb"/MediaBox \[\s*0 0 ([\d.]+) ([\d.]+)\s*\]", data)
    if box is None:
        raise ValueError(f"{path} has no page")
    return PdfFile(
        width=float(box[1]),
        height=float(box[2]),
        fonts=frozenset(
            one.decode() for one in re.findall(rb"/Subtype /(Type0|Type1|Type3|TrueType|CIDFontType2)", data)
        ),
        embedded=frozenset(one.decode() for one in re.findall(rb"/(FontFile\d?)\b", data)),
        pictures=len(re.findall(rb"/Subtype /Image\b", data)),
    )
