"""Imports run one way (docs/design.md): the allowed edges between the rooms of the house, as one table, checked by ast.

A room is a module of ``virtoll`` or one of its packages. What is not in the table is forbidden, late imports and
imports for type checking included. The rules that the table itself must keep are tested beside it.
"""

from __future__ import annotations

import ast
import functools
import graphlib
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path

import pytest
from tests.support.repository import ROOT

SOURCE = ROOT / "src"

# Who may import whom. Everything may import `version`, `system` and itself.
ALLOWED: dict[str, frozenset[str]] = {
    room: frozenset(others.split())
    for room, others in {
        # knows nothing
        "errors": "",
        "units": "",
        "version": "",
        # knows the errors alone, and everything may use it
        "system": "errors",
        # the run folder and what comes after it
        "runfolder": "errors",
        "reference": "",
        "stats": "runfolder units",
        "claims": "errors reference runfolder stats",
        "advise": "stats",
        "report": "advise claims errors reference runfolder stats units",
        "selftest": "runfolder stats",
        # what stands by itself
        "experiment": "errors runfolder",
        "image": "errors",
        "lab": "errors",
        "host": "errors lab runfolder",
        "agent": "errors lab runfolder",  # its replies are what a run folder stores
        # measuring
        "hosts": "agent errors experiment lab",
        "platforms": "agent errors experiment host hosts image lab runfolder",
        "workloads": "agent errors experiment lab runfolder",
        "nested": "errors hosts image lab",
        "pipeline": "agent errors experiment host hosts image lab nested platforms runfolder units workloads",
        # what a person starts
        "api": "advise errors experiment image pipeline report runfolder",
        "cli": "advise agent api claims errors experiment host hosts image lab nested pipeline platforms report "
        "runfolder selftest stats units workloads",
        "__init__": "api cli",
        "__main__": "__init__",
    }.items()
}
MOST_ROOMS, MOST_ARROWS = 25, 90
FOR_ALL = frozenset({"version", "system"})
OWN_FILES = {
    "__init__",
    "__main__",
    "errors",
    "units",
    "version",
}  # files of the package's own folder; all else is in a folder
AFTER_THE_BORDER = frozenset({"runfolder", "reference", "stats", "claims", "advise", "report", "units"})
SEES_PLATFORMS = frozenset({"pipeline", "cli"})
SEES_WORKLOADS = frozenset({"pipeline", "cli"})


def module_name(path: Path, source: Path) -> str:
    """``virtoll.lab.launch`` for its file; a package for its ``__init__``."""
    return ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")


def room_of(module: str) -> str:
    """The first name below ``virtoll``."""
    return [*module.split("."), "__init__"][1]


@functools.cache
def imports_of(text: str, modules: frozenset[str]) -> frozenset[tuple[str, int]]:
    """Every module of Virtoll that a source text imports, anywhere in it, with the line."""
    found: set[tuple[str, int]] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {(alias.name, node.lineno) for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add((inner if inner in modules else node.module, node.lineno))
    return frozenset((name, line) for name, line in found if name.split(".")[0] == "virtoll")


def modules_of(files: Iterable[Path]) -> frozenset[str]:
    return frozenset(module_name(path, SOURCE) for path in files)


def forbidden_imports(path: Path, text: str, modules: frozenset[str]) -> list[str]:
    """Every import of a source text that the table does not allow, as ``file:line: room imports room``."""
    room = room_of(module_name(path, SOURCE))
    allowed = ALLOWED.get(room, frozenset()) | {room, *FOR_ALL}
    return [
        f"{path.relative_to(SOURCE)}:{line}: {room} imports {room_of(name)}"
        for name, line in sorted(imports_of(text, modules))
        if room_of(name) not in allowed
    ]


FILES = sorted((SOURCE / "virtoll").rglob("*.py"))
MODULES = modules_of(FILES)


def test_only_allowed_imports() -> None:
    found = [one for path in FILES for one in forbidden_imports(path, path.read_text(encoding="utf-8"), MODULES)]
    assert found == []


def test_every_room_is_in_the_table() -> None:
    assert set(map(room_of, MODULES)) == set(ALLOWED)


def test_the_house_can_be_held_in_ones_head() -> None:
    assert {path.stem for path in (SOURCE / "virtoll").glob("*.py")} == OWN_FILES
    assert len(ALLOWED) <= MOST_ROOMS
    assert sum(map(len, ALLOWED.values())) <= MOST_ARROWS


def test_the_table_has_no_arrow_that_nobody_uses() -> None:
    used = {
        (room_of(module_name(path, SOURCE)), room_of(name))
        for path in FILES
        for name, _ in imports_of(path.read_text(encoding="utf-8"), MODULES)
    }
    assert [(room, other) for room, others in ALLOWED.items() for other in others if (room, other) not in used] == []


def test_every_arrow_points_down() -> None:
    """To a room above it in the table, so that there is no circle."""
    rooms = list(ALLOWED)
    upward = [
        (room, other) for room, others in ALLOWED.items() for other in others if rooms.index(other) >= rooms.index(room)
    ]
    assert upward == []


def circle_in(imports: Mapping[str, AbstractSet[str]]) -> list[str]:
    """Modules that import each other, from one back to itself; none if imports run one way."""
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as error:
        circle: list[str] = error.args[1]
        return circle
    return []


def imports_by_module() -> dict[str, set[str]]:
    """What each module imports of Virtoll, also late or for type checking alone."""
    texts = {module_name(path, SOURCE): path.read_text(encoding="utf-8") for path in FILES}
    return {module: {name for name, _ in imports_of(text, MODULES)} - {module} for module, text in texts.items()}


def test_no_modules_import_each_other() -> None:
    assert circle_in(imports_by_module()) == []


def test_a_circle_within_a_room_is_found() -> None:
    imports = imports_by_module()
    imports["virtoll.lab.network"].add("virtoll.lab.attachments")
    assert set(circle_in(imports)) == {"virtoll.lab.network", "virtoll.lab.attachments"}


def test_the_table_keeps_the_rules() -> None:
    assert "workloads" not in ALLOWED["platforms"]
    assert "platforms" not in ALLOWED["workloads"]
    for room in AFTER_THE_BORDER:
        assert ALLOWED[room] <= AFTER_THE_BORDER | {"errors"}, room
    for room in ("image", "lab"):
        assert ALLOWED[room] <= {"errors"}, room
    assert {room for room, others in ALLOWED.items() if "platforms" in others} == SEES_PLATFORMS
    assert {room for room, others in ALLOWED.items() if "workloads" in others} == SEES_WORKLOADS


@pytest.mark.parametrize(
    ("file", "line", "complaint"),
    [
        ("platforms/netns.py", "from virtoll.workloads.base import Metric", "platforms imports workloads"),
        ("workloads/masr.py", "import virtoll.platforms.base", "workloads imports platforms"),
        ("stats/drift.py", "def late() -> None:\n    from virtoll import pipeline\n", "stats imports pipeline"),
        (
            "report/page.py",
            "if TYPE_CHECKING:\n    from virtoll.platforms import PLATFORMS",
            "report imports platforms",
        ),
        ("runfolder/store.py", "from virtoll.experiment.model import Experiment", "runfolder imports experiment"),
        ("host/fitness.py", "from virtoll.agent.client import AgentClient as Client", "host imports agent"),
        ("image/cache.py", "from virtoll import lab", "image imports lab"),
        ("lab/inside.py", "from virtoll.platforms.base import Site", "lab imports platforms"),
        ("newcomer.py", "from virtoll import errors", "newcomer imports errors"),
    ],
)
def test_a_mutated_import_is_found(file: str, line: str, complaint: str) -> None:
    mutant = SOURCE / "virtoll" / file
    before = mutant.read_text(encoding="utf-8") if mutant.exists() else ""
    (found,) = forbidden_imports(mutant, f"{before}\n{line}\n", MODULES | modules_of([mutant]))
    assert found.startswith(f"virtoll/{file}:")
    assert found.endswith(complaint)
