"""All test modules compiled as pytest does it, with their assertions rewritten: once, and not by each process anew.

From nothing that takes longer than all else of a worker's start, and workers and labs start at the same time.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

# pytest has no public way to compile a module that it does not import.
from _pytest.assertion.rewrite import (
    PYC_TAIL,
    _read_pyc,
    _rewrite_test,
    _write_pyc,
    assertstate_key,
    get_cache_dir,
)
from tests.support.repository import ROOT


def compile_tests(config: pytest.Config) -> int:
    """Compile what changed, on all CPUs; the exit code."""
    tests = ROOT / "tests"
    files = sorted({*tests.rglob("test_*.py"), *tests.rglob("conftest.py"), *(tests / "support").rglob("*.py")})
    count = os.cpu_count() or 1
    fork = multiprocessing.get_context("fork")
    processes = [fork.Process(target=_compile, args=(files[place::count], config)) for place in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return max(abs(process.exitcode or 0) for process in processes)


def _compile(files: Sequence[Path], config: pytest.Config) -> None:
    for file in files:
        compiled = get_cache_dir(file) / f"{file.stem}{PYC_TAIL}"
        if _read_pyc(file, compiled) is None:
            compiled.parent.mkdir(exist_ok=True)
            digest, code = _rewrite_test(file, config)
            _write_pyc(config.stash[assertstate_key], code, digest, compiled)
