"""Imports run one way (docs/design.md): the allowed edges between the rooms of the house, as one table, checked by ast.

A room is a module of ``virtoll`` or one of its packages. What is not in the table is forbidden, late imports and
imports for type checking included. The rules that the table itself must keep are tested beside it.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src"

# Who may import whom. Everything may import `__init__` (the version) and itself.
ALLOWED: dict[str, frozenset[str]] = {
    room: frozenset(others.split())
    for room, others in {
        # knows nothing
        "errors": "",
        "units": "",
        "pi": "",
        "points": "",
        "guest_records": "",
        "records": "guest_records points",
        # the run folder and what comes after it
        "jsonlines": "errors",
        "samples": "errors guest_records jsonlines points records",
        "published": "errors",
        "stats": "errors guest_records points published records units",
        "claims": "published stats units",
        "report": "claims errors guest_records points published samples stats units",
        # what stands by itself
        "paths": "",
        "image": "errors paths units",
        "fetched": "errors image paths",
        "host": "errors units",
        "lab": "errors units",
        "agent": "errors",
        "testbed": "",
        "selection": "errors",
        "sizes": "errors",
        "experiment": "errors paths selection sizes testbed",
        "hosts": "errors testbed",
        "plan": "experiment",
        "progress": "plan",
        # measuring
        "timekeeper": "agent errors lab",
        "hops": "agent errors lab",
        "farpeer": "agent errors hosts lab testbed",
        "footprint": "lab",
        "platforms": "agent errors experiment farpeer fetched footprint hosts image lab pi remote testbed",
        "likeness": "footprint platforms",
        "workloads": "agent errors experiment hops lab pi timekeeper",
        "peer": "agent errors image lab platforms",
        "probes": "experiment image lab platforms",
        # other hosts that hold guests
        "remote": "errors lab",
        "nested": "errors image lab platforms",
        "sites": "agent errors hosts lab nested platforms remote testbed",
        # what sees platforms and workloads together
        "data_directory": "agent errors lab platforms workloads",
        "fleet": "agent data_directory errors experiment footprint hops lab likeness plan platforms progress samples "
        "timekeeper workloads",
        "calibration": "agent errors experiment farpeer fleet hops lab platforms samples workloads",
        "density": "agent errors experiment footprint ground lab platforms progress samples",
        "manifest": "agent errors experiment fleet host image plan platforms records samples workloads",
        "ground": "errors experiment farpeer fleet image lab peer platforms progress samples sites testbed",
        "needs": "experiment plan platforms units workloads",
        "run": "calibration density errors experiment fleet ground host lab manifest needs plan platforms probes "
        "progress published samples selection workloads",
        # what a person starts
        "held": "errors fleet ground lab nested progress remote testbed",
        "cli": "agent errors experiment fleet ground held hosts image lab manifest needs nested paths plan platforms "
        "probes progress report run samples selection units workloads",
        "__main__": "cli",
        "__init__": "",
    }.items()
}
AFTER_THE_BORDER = frozenset(
    {"samples", "records", "guest_records", "points", "jsonlines", "published", "stats", "claims", "report", "units"}
)
SEES_PLATFORMS = frozenset(
    {
        "run",
        "manifest",
        "fleet",
        "data_directory",
        "ground",
        "likeness",
        "peer",
        "probes",
        "calibration",
        "density",
        "needs",
        "sites",
        "nested",
        "cli",
    }
)
SEES_WORKLOADS = frozenset({"run", "manifest", "data_directory", "fleet", "calibration", "needs", "cli"})


def module_name(path: Path, source: Path) -> str:
    """``virtoll.lab.launch`` for its file; a package for its ``__init__``."""
    return ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")


def room_of(module: str) -> str:
    """The first name below ``virtoll``."""
    return [*module.split("."), "__init__"][1]


def imports_of(text: str, modules: frozenset[str]) -> set[tuple[str, int]]:
    """Every module of Virtoll that a source text imports, anywhere in it, with the line."""
    found: set[tuple[str, int]] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {(alias.name, node.lineno) for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add((inner if inner in modules else node.module, node.lineno))
    return {(name, line) for name, line in found if name.split(".")[0] == "virtoll"}


def forbidden_imports(source: Path) -> list[str]:
    """Every import that the table does not allow, as ``file:line: room imports room``."""
    files = sorted((source / "virtoll").rglob("*.py"))
    modules = frozenset(module_name(path, source) for path in files)
    complaints = []
    for path in files:
        room = room_of(module_name(path, source))
        allowed = ALLOWED.get(room, frozenset()) | {room, "__init__"}
        for name, line in sorted(imports_of(path.read_text(encoding="utf-8"), modules)):
            if room_of(name) not in allowed:
                complaints.append(f"{path.relative_to(source)}:{line}: {room} imports {room_of(name)}")
    return complaints


def test_only_allowed_imports() -> None:
    assert forbidden_imports(SOURCE) == []


def test_every_room_is_in_the_table() -> None:
    rooms = {room_of(module_name(path, SOURCE)) for path in (SOURCE / "virtoll").rglob("*.py")}
    assert rooms == set(ALLOWED)


def test_the_table_has_no_circle() -> None:
    left = dict(ALLOWED)
    while left:
        leaves = [room for room, others in left.items() if not others & set(left)]
        assert leaves, f"a circle among {sorted(left)}"
        for room in leaves:
            del left[room]


def test_the_table_keeps_the_rules() -> None:
    assert "workloads" not in ALLOWED["platforms"]
    assert "platforms" not in ALLOWED["workloads"]
    for room in AFTER_THE_BORDER:
        assert ALLOWED[room] <= AFTER_THE_BORDER | {"errors"}, room
    for room in ("image", "host"):
        assert ALLOWED[room] <= {"errors", "paths", "units"}, room
    assert {room for room, others in ALLOWED.items() if "platforms" in others} == SEES_PLATFORMS
    assert {room for room, others in ALLOWED.items() if "workloads" in others} == SEES_WORKLOADS


@pytest.mark.parametrize(
    ("file", "line", "complaint"),
    [
        ("platforms/netns.py", "from virtoll.workloads.base import Metric", "platforms imports workloads"),
        ("workloads/masr.py", "import virtoll.platforms.base", "workloads imports platforms"),
        ("stats/drift.py", "def late() -> None:\n    from virtoll import run\n", "stats imports run"),
        (
            "report/page.py",
            "if TYPE_CHECKING:\n    from virtoll.platforms import PLATFORMS",
            "report imports platforms",
        ),
        ("samples.py", "from virtoll.experiment import Experiment", "samples imports experiment"),
        ("host.py", "from virtoll.agent import AgentClient as Client", "host imports agent"),
        ("image/cache.py", "from virtoll import lab", "image imports lab"),
        ("lab/inside.py", "from virtoll.platforms.base import Site", "lab imports platforms"),
        ("newcomer.py", "from virtoll import errors", "newcomer imports errors"),
    ],
)
def test_a_mutated_import_is_found(tmp_path: Path, file: str, line: str, complaint: str) -> None:
    mutant = tmp_path / "virtoll" / file
    for path in (SOURCE / "virtoll").rglob("*.py"):
        copy = tmp_path / path.relative_to(SOURCE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    before = mutant.read_text(encoding="utf-8") if mutant.exists() else ""
    mutant.write_text(f"{before}\n{line}\n", encoding="utf-8")
    found = forbidden_imports(tmp_path)
    assert len(found) == 1
    assert found[0].startswith(f"virtoll/{file}:")
    assert found[0].endswith(complaint)
