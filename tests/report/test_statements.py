"""What page, terminal, table, document, gate, claims, advice and comparisons say is one statement.

`python benches/statements.py` asks for two hundred runs.
"""

from pathlib import Path

import pytest
from tests.support.commands import in_process
from tests.support.made_up_folder import write_run
from tests.support.statements import contradictions, random_run
from tests.support.statements_of_two import comparisons_of, contradictions_of_two, exit_code, judged


@pytest.mark.parametrize("seed", range(12))
def test_nothing_that_is_said_of_a_random_run_contradicts_itself(seed: int) -> None:
    assert list(contradictions(random_run(seed))) == []


@pytest.mark.parametrize("seed", range(8))
def test_nothing_that_is_said_of_two_random_runs_contradicts_itself(seed: int) -> None:
    assert list(contradictions_of_two(random_run(seed), random_run(seed + 1))) == []


@pytest.mark.parametrize(("seed", "limit"), [(1, "5%"), (2, "25%"), (3, "1%")])
def test_the_exit_code_is_that_of_what_is_said(tmp_path: Path, seed: int, limit: str) -> None:
    runs = [random_run(seed), random_run(seed + 1)]
    for name, analysis in zip("ab", runs, strict=True):
        write_run(tmp_path / name, analysis.data)
    write_run(tmp_path / "copy", runs[0].data)
    for other, second in (("b", runs[1]), ("copy", runs[0])):
        by_cost, by_values = comparisons_of(runs[0], second)
        for way, between in (("cost", by_cost), ("values", by_values)):
            words = ("compare", "a", other, "--by", way, "--fail-if-slower", limit)
            assert in_process(*words, runs=tmp_path).returncode == exit_code(judged(between, limit))
