"""Print the figures of the house: rooms, arrows, lengths, and what is counted because it should become less.

Run it in the top of a clone: ``python3 tools/house.py``. A room is a folder of ``src/virtoll`` or a file in its root.
An arrow is one room's import of another, late ones and those for type checking included.
"""

from __future__ import annotations

import ast
import re
import statistics
import sys
from pathlib import Path

SOURCE = Path("src")
COUNTED = {
    "dict[str, Any]": re.compile(r"dict\[str, Any\]"),
    "getattr( with a default": re.compile(r"\bgetattr\([^()]*(?:\([^()]*\))?[^()]*,[^()]*,"),
    "import_module": re.compile(r"\bimport_module\("),
    "Site | None": re.compile(r"\bSite \| None"),
    "narrowed(": re.compile(r"\bnarrowed\("),
    "raise TypeError": re.compile(r"\braise TypeError"),
    "# type: ignore, # noqa": re.compile(r"# type: ignore|# noqa"),
}


def module_of(path: Path) -> str:
    """The dotted name of a file."""
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


def room_of(module: str) -> str:
    """The first name below the package."""
    return [*module.split("."), "__init__"][1]


def imports(tree: ast.Module, modules: set[str]) -> set[str]:
    """The package's own modules that a file imports."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in modules else node.module)
    return {name for name in found if name.split(".")[0] == "virtoll"}


def circles(arrows: dict[str, set[str]]) -> int:
    """How many rooms are left when those that import nothing are taken away again and again."""
    left = {room: set(others) for room, others in arrows.items()}
    while leaves := [room for room, others in left.items() if not others & set(left)]:
        for room in leaves:
            del left[room]
    return len(left)


def spread(values: list[int]) -> str:
    """Median and largest."""
    return f"{statistics.median(values):.0f} / {max(values)}"


def main() -> int:
    """Print the table."""
    files = sorted((SOURCE / "virtoll").rglob("*.py"))
    modules = {module_of(path) for path in files}
    texts = {path: path.read_text(encoding="utf-8") for path in files}
    arrows: dict[str, set[str]] = {room_of(module): set() for module in modules}
    functions: list[int] = []
    for path, text in texts.items():
        tree = ast.parse(text)
        room = room_of(module_of(path))
        arrows[room] |= {room_of(name) for name in imports(tree, modules)} - {room, "__init__"}
        functions += [
            (node.end_lineno or node.lineno) - node.lineno + 1
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
    everywhere = [path for top in ("src", "tests", "tools", "benches") for path in Path(top).rglob("*.py")]
    rows = {
        "rooms": len(arrows),
        "arrows": sum(map(len, arrows.values())),
        "rooms in circles": circles(arrows),
        "modules in the root": len(list((SOURCE / "virtoll").glob("*.py"))),
        "lines a file, median / longest": spread([len(text.splitlines()) for text in texts.values()]),
        "lines a function, median / longest": spread(functions),
        **{name: sum(len(pattern.findall(text)) for text in texts.values()) for name, pattern in COUNTED.items()},
        "fmt: skip": sum(path.read_text(encoding="utf-8").count("# fmt: " + "skip") for path in everywhere),
    }
    for name, value in rows.items():
        sys.stdout.write(f"{name:36}{value}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
