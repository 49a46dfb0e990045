"""Starts modules of this Virtoll in a Python that ignores the current directory and the ``PYTHON*`` variables.

Main functions: ``isolated`` and ``isolated_script``. Every Python that Virtoll starts goes through them
(``tests/system/test_python.py``): ``python -m`` would search the current directory first, so that a file ``json.py``
there would run, also as root.

``python -I`` skips the current directory, the variables and the user's own packages. This file is the script that it
runs: it makes the package around it importable, wherever that is, and then runs the module.
"""

from __future__ import annotations

import runpy
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]


def isolated(module: str, *arguments: str, unbuffered: bool = False) -> list[str]:
    """The argument list that runs ``module`` (such as ``virtoll.lab.init``) as a program with these arguments.

    ``unbuffered``: what it prints is passed on line by line, also to a pipe.
    """
    options = ["-I", "-u"] if unbuffered else ["-I"]
    return [sys.executable, *options, __file__, module, *arguments]


def isolated_script(file: Path, *arguments: str) -> list[str]:
    """As ``isolated``, for a file that is a program by itself: the packages around it are not imported."""
    return [sys.executable, "-I", __file__, str(file), *arguments]


def leave_current_directory() -> None:
    """Stop importing from the current directory, where this process was started in a way that searches it.

    ``python -m`` and an empty entry of ``PYTHONPATH`` do. Virtoll's own place stays.
    """
    home = str(_PACKAGE.parent)
    sys.path[:] = [place for place in sys.path if place == home or not _is_current(place)]


def _is_current(place: str) -> bool:
    if not Path(place).is_absolute():
        return True
    try:
        return Path(place).samefile(".")
    except OSError:
        return False


def _make_importable() -> None:
    """This very package, whichever others are installed; then what was installed next to it (``pip --target``)."""
    name = _PACKAGE.name
    spec = spec_from_file_location(name, _PACKAGE / "__init__.py", submodule_search_locations=[str(_PACKAGE)])
    assert spec is not None
    assert spec.loader is not None
    package = module_from_spec(spec)
    sys.modules[name] = package
    spec.loader.exec_module(package)
    sys.path.append(str(_PACKAGE.parent))


if __name__ == "__main__":
    _make_importable()
    del sys.argv[0]
    if sys.argv[0].endswith(".py"):
        runpy.run_path(sys.argv[0], run_name="__main__")
    else:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
