"""Print the figures of the house that may only fall, with what they were at most; ``--lower`` records those that fell.

Run it in the top of a clone: ``python3 tools/house.py``. `tests/house/test_ratchet.py` holds the code to the record.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
RECORD: Final = ROOT / "tests" / "house" / "ratchet.json"
PRIVATE: Final = frozenset({"one", "found", "own", "told", "said", "asked", "wanted", "given"})
"""Names that do not say what they hold."""
LONG_FILE, LONG_FUNCTION = 500, 60  # lines


def figures(source: Path) -> dict[str, int]:
    """Each figure of the Python files below a folder, by its name."""
    counts: Counter[str] = Counter()
    lines = 0
    for path in sorted(source.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        lines += text.count("\n")
        counts["files above 500 lines"] += text.count("\n") > LONG_FILE
        for node in ast.walk(ast.parse(text)):
            counts["comprehensions"] += isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp)
            counts["conditionals"] += isinstance(node, ast.IfExp)
            counts["private names"] += bound_name(node) in PRIVATE
            counts["functions above 60 lines"] += length(node) > LONG_FUNCTION
            counts["dict[str, Any]"] += ast.unparse(node) == "dict[str, Any]" if isinstance(node, ast.Subscript) else 0
    for name in ("comprehensions", "conditionals"):
        counts[f"{name} per 10k lines"] = round(counts.pop(name) * 10_000 / lines)
    return dict(counts)


def bound_name(node: ast.AST) -> str | None:
    """The name that a node binds; None if it binds none."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return node.id
    return node.arg if isinstance(node, ast.arg) else None


def length(node: ast.AST) -> int:
    """The lines of a function; 0 of anything else."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return 0
    return (node.end_lineno or node.lineno) - node.lineno + 1


def main() -> int:
    """Print the table, and lower the record if that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lower", action="store_true", help="record the figures that fell")
    now = figures(ROOT / "src")
    record: dict[str, int] = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else now
    for name, count in now.items():
        sys.stdout.write(f"{name:28}{count:8}  at most {record[name]}\n")
    if parser.parse_args().lower:
        lowered = {name: min(count, record[name]) for name, count in now.items()}
        RECORD.write_text(json.dumps(lowered, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
