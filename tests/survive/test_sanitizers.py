"""The harness finds what a sanitizer reports: a small program with a planted fault, wherever its reports go."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from benches.survive.sanitizers import Outcome, collect, options_object, reports_in

FAULT = "#include <stdlib.h>\nint main(void) { char *gone = malloc(9); free(gone); return gone[0]; }\n"


def build(folder: Path, options: Path) -> Path:
    source, program = folder / "fault.c", folder / "fault"
    source.write_text(FAULT)
    subprocess.run(["gcc", "-w", "-fsanitize=address", str(source), str(options), "-o", str(program)], check=True)
    return program


def test_a_report_is_found_in_its_folder_and_without_one_in_the_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = Outcome("address", "a planted fault")
    reports = tmp_path / "reports"
    reports.mkdir()
    program = build(tmp_path, options_object(reports))
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (66, "")
    collect(outcome, [done.stderr], reports)
    shutil.rmtree(reports)
    said = subprocess.run([program], capture_output=True, text=True, check=False)
    collect(outcome, [said.stderr], tmp_path)
    assert len(outcome.reports) == 2
    assert all(one.startswith("AddressSanitizer: heap-use-after-free") for one in outcome.reports)
    assert "AddressSanitizer: heap-use-after-free" in capsys.readouterr().out
    assert outcome.row().split()[-4:-1] == ["2", "|", "0"]


def test_each_report_counts_once() -> None:
    said = """test a ... ok
==================
WARNING: ThreadSanitizer: data race (pid=7)
SUMMARY: ThreadSanitizer: data race src/a.rs:3 in a
ThreadSanitizer: reported 1 warnings
==9==ERROR: LeakSanitizer: detected memory leaks
SUMMARY: AddressSanitizer: 9 byte(s) leaked in 1 allocation(s).
==9==LeakSanitizer has encountered a fatal error.
FATAL: ThreadSanitizer: unexpected memory mapping 0x7f
"""
    assert reports_in(said) == [
        "ThreadSanitizer: data race (pid=7)",
        "LeakSanitizer: detected memory leaks",
        "LeakSanitizer: has encountered a fatal error.",
        "ThreadSanitizer: unexpected memory mapping 0x7f",
    ]
