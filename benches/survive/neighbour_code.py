"""Hostile current directories: Python files that have the names of modules, where the victim starts a command.

Each file leaves a mark, and then is the module that it hides, so that a command goes on to its last process. Tables:
``FILES``, ``VARIABLES`` and ``COMMANDS``. Main functions: ``known`` and ``drawn``.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benches.survive.neighbour_endings import Attack, Command
from benches.survive.neighbour_place import Place
from benches.survive.neighbour_runs import Originals
from benches.survive.neighbour_states import experiment

FILES: Final = (
    "virtoll/__init__.py",
    "json.py",
    "types.py",
    "signal.py",
    "socket.py",
    "yaml.py",
    "subprocess.py",
    "sitecustomize.py",
    "usercustomize.py",
    "startup.py",
)
VARIABLES: Final[Mapping[str, Mapping[str, str]]] = {
    "": {},
    "PYTHONPATH empty": {"PYTHONPATH": ""},
    "PYTHONPATH of two empty entries": {"PYTHONPATH": ":"},
    "PYTHONPATH relative": {"PYTHONPATH": "."},
    "PYTHONSTARTUP": {"PYTHONSTARTUP": "startup.py"},
    "PYTHONUSERBASE": {"PYTHONUSERBASE": ".", "PYTHONINSPECT": ""},
    "PYTHONSAFEPATH empty": {"PYTHONSAFEPATH": ""},
    "PYTHONBREAKPOINT": {"PYTHONBREAKPOINT": "json.mine"},
}
"""What the victim has set. Entries of PYTHONPATH that are absolute are the victim's own will, and are not tried."""
COMMANDS: Final[Mapping[str, Callable[[Path, Place], tuple[str, ...]]]] = {
    "run": lambda _run, place: ("run", str(experiment(place)), "--into", str(place.runs / "new"), "--quiet"),
    "resume": lambda run, _place: ("resume", str(run), "--quiet"),
    "extend": lambda run, _place: ("extend", str(run), "--blocks", "+1", "--quiet"),
    "explain": lambda run, _place: ("explain", str(run), "--platform", "runc", "--trials", "1"),
    "report": lambda run, _place: ("report", str(run), "--quiet"),
    "clean": lambda _run, _place: ("clean",),
    "query": lambda run, _place: ("query", "select count(*) from samples", str(run)),
    "plan": lambda _run, place: ("plan", str(experiment(place))),
    "doctor": lambda _run, _place: ("doctor", "--json"),
}
_MARK: Final = """\
import os, sys
_here = os.path.dirname(os.path.abspath(__file__))
_top = os.path.dirname(_here) if os.path.basename(__file__) == "__init__.py" else _here
try:
    open(os.path.join({reached!r}, str(os.getpid()) + "-" + {name!r} + "-as-" + str(os.geteuid())), "w").close()
except OSError:
    pass
_saved, sys.path[:] = sys.path[:], [one for one in sys.path if os.path.abspath(one or ".") != _top]
if __name__ in sys.modules and __name__ not in ("__main__", "sitecustomize", "usercustomize"):
    import importlib
    del sys.modules[__name__]
    sys.modules[__name__] = importlib.import_module(__name__)
sys.path[:] = _saved
"""


@dataclass(frozen=True)
class Directory:
    """A current directory of the attacker's with some files, and a command started in it."""

    originals: Originals
    files: tuple[str, ...]
    variables: str
    command: str

    def make(self, place: Place, _dice: random.Random) -> Command:
        """Make it."""
        here = place.folder(place.attacker / "shared", place.users.attacker, 0o755)
        for name in self.files:
            (here / name).parent.mkdir(exist_ok=True)
            text = _MARK.format(reached=str(place.reached), name=name.replace("/", "."))
            (here / name).write_text(text, encoding="utf-8")
        place.give(here, place.users.attacker)
        interrupted = self.command == "resume"
        original = self.originals.interrupted if interrupted else self.originals.finished
        run = Path(shutil.copytree(original, place.runs / "run"))
        place.give(place.runs, place.users.victim)
        variables = dict(VARIABLES[self.variables])
        named = bool(variables.get("PYTHONPATH"))
        if named:  # what the victim's own start imports from here, it would compile here
            variables["PYTHONDONTWRITEBYTECODE"] = "1"
        return Command(COMMANDS[self.command](run, place), changed=variables, where=here, own_start=named)


def _attack(directory: Directory, *, short: bool = False) -> Attack:
    words = f"{', '.join(directory.files)}; {directory.variables or 'no variable'}; {directory.command}"
    row = f"current directory: {directory.command}"
    return Attack(row, words, directory.make, short=short, slow=directory.command == "doctor")


def known(originals: Originals) -> list[Attack]:
    """The attacks that were found by hand."""
    cases = (
        (FILES, "", "run", True),
        (FILES, "PYTHONPATH of two empty entries", "explain", True),
        (("virtoll/__init__.py",), "", "run", False),
        (("json.py",), "", "run", False),
        (("json.py",), "", "resume", False),
        (("types.py",), "", "extend", False),
        (("signal.py",), "", "explain", False),
        (("json.py",), "PYTHONPATH of two empty entries", "run", False),
        (("sitecustomize.py",), "PYTHONPATH relative", "run", False),
        (("json.py",), "", "clean", False),
        (("json.py",), "", "report", False),
        (("json.py",), "", "doctor", False),
    )
    return [
        _attack(Directory(originals, files, variables, command), short=short)
        for files, variables, command, short in cases
    ]


def drawn(originals: Originals, dice: random.Random) -> Attack:
    """One by chance."""
    files = tuple(dice.sample(FILES, k=dice.choice((1, 1, 2, len(FILES)))))
    command = dice.choices(list(COMMANDS), (6, 4, 3, 3, 3, 2, 1, 1, 0.2))[0]
    return _attack(Directory(originals, files, dice.choice(list(VARIABLES)), command))
