"""The figures of the house that may only fall (`tools/house.py`)."""

import ast
import json
from pathlib import Path

from tests.support.repository import ROOT, load_tool

house = load_tool("house")


def test_no_figure_has_risen() -> None:
    """If one fell: 'python3 tools/house.py --lower'."""
    record = json.loads(house.RECORD.read_text(encoding="utf-8"))
    now = house.figures(ROOT / "src")
    assert now.keys() == record.keys()
    assert {name: count for name, count in now.items() if count > record[name]} == {}


def test_what_is_counted(tmp_path: Path) -> None:
    long = "\n".join(["def long(one):", *["    found = [a for a in one] if one else None"] * 60])
    (tmp_path / "code.py").write_text(f"{long}\n" + "x: dict[str, Any] = {}\n" * 450, encoding="utf-8")
    counts = house.figures(tmp_path)
    assert counts == {
        "files above 500 lines": 1,
        "private names": 61,
        "functions above 60 lines": 1,
        "dict[str, Any]": 450,
        "comprehensions per 10k lines": 1174,
        "conditionals per 10k lines": 1174,
    }
    assert house.length(ast.parse("x = 1").body[0]) == 0
