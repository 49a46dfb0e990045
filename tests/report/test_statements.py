"""What page, terminal, table, document, gate, claims and advice say of a comparison is one statement.

`python benches/statements.py` asks for two hundred runs.
"""

import pytest
from tests.support.statements import contradictions, random_run


@pytest.mark.parametrize("seed", range(12))
def test_nothing_that_is_said_of_a_random_run_contradicts_itself(seed: int) -> None:
    assert list(contradictions(random_run(seed))) == []
