"""Starts modules of this Virtoll in a Python that ignores the current directory and the ``PYTHON*`` variables.

Main functions: ``isolated`` and ``isolated_script``. Every Python that Virtoll starts goes through them
(``tests/system/test_python.py``): ``python -m`` would search the current directory first, so that a file ``json.py``
there would run, also as root.

``python -I`` skips the current directory, the variables and the user's own packages. This file is the script that it
runs: it makes the package around it importable, wherever that is, and then runs the module. If this process found
packages elsewhere (``PYTHONPATH`` of an environment module, the user's own), the new one looks there last: what this
process trusts already, and never the current directory.
"""

from __future__ import annotations

import os
import runpy
import site
import stat
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
_STANDARD = str(Path(os.__file__).parent)  # lib-dynload is below it; the zip file of the library is no folder
_OPTION = "--also"


def isolated(module: str, *arguments: str, unbuffered: bool = False) -> list[str]:
    """The argument list that runs ``module`` (such as ``virtoll.lab.init``) as a program with these arguments.

    ``unbuffered``: what it prints is passed on line by line, also to a pipe.
    """
    options = ["-I", "-u"] if unbuffered else ["-I"]
    return [sys.executable, *options, __file__, *_other_places(), module, *arguments]


def isolated_script(file: Path, *arguments: str) -> list[str]:
    """As ``isolated``, for a file that is a program by itself: the packages around it are not imported."""
    return [sys.executable, "-I", __file__, *_other_places(), str(file), *arguments]


def leave_current_directory() -> None:
    """Stop importing from the current directory, where this process was started in a way that searches it.

    ``python -m`` and an empty entry of ``PYTHONPATH`` do. Virtoll's own place stays.
    """
    home = str(_PACKAGE.parent)
    sys.path[:] = [place for place in sys.path if place == home or not _is_current(place)]


def _other_places() -> list[str]:
    """The option that names where this process finds packages, if that is elsewhere than where ``-I`` looks."""
    usual = {str(_PACKAGE.parent), *site.getsitepackages()}
    places = [place for place in sys.path if place not in usual and not place.startswith(_STANDARD) and _is_safe(place)]
    return [_OPTION, os.pathsep.join(places)] if places else []


def _is_safe(place: str) -> bool:
    """Not the current directory, and not a folder to which all may write."""
    try:
        return not _is_current(place) and not Path(place).stat().st_mode & stat.S_IWOTH
    except OSError:
        return False


def _is_current(place: str) -> bool:
    if not Path(place).is_absolute():
        return True
    try:
        return Path(place).samefile(".")
    except OSError:
        return False


def _make_importable(others: list[str]) -> None:
    """This very package, whichever is installed; then what is next to it (``pip --target``), then ``others``."""
    name = _PACKAGE.name
    spec = spec_from_file_location(name, _PACKAGE / "__init__.py", submodule_search_locations=[str(_PACKAGE)])
    assert spec is not None
    assert spec.loader is not None
    package = module_from_spec(spec)
    sys.modules[name] = package
    spec.loader.exec_module(package)
    sys.path.extend([str(_PACKAGE.parent), *others])


if __name__ == "__main__":
    del sys.argv[0]
    places: list[str] = []
    if sys.argv[0] == _OPTION:
        places = sys.argv[1].split(os.pathsep)
        del sys.argv[:2]
    _make_importable(places)
    if sys.argv[0].endswith(".py"):
        runpy.run_path(sys.argv[0], run_name="__main__")
    else:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
