"""The short form of the part *isolation*: no attempt succeeds in a real guest that a confined one is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from benches.survive import isolation
from tests.support.facts import assert_facts, missing_facts

from virtoll.runfolder.store import RunFolder
from virtoll.stats.reach import ALLOWED, ATTEMPTS

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="guests of the host's kernel with limits need root")


def test_confined_guests_reach_no_more_than_the_table_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "kept"
    arguments = ["--seed", "18", "--count", "1", "--platforms", "native", "netns", "runc", "crun", "--keep", str(kept)]
    assert isolation.main([*arguments, "--user-platforms"]) == 0, capsys.readouterr().out
    assert_facts(capsys.readouterr().out, "seed: 18")
    boots = {one.platform: one for one in RunFolder.open(kept / "root" / "block-1").boots()}
    assert {"native", "netns"} <= boots.keys()
    for name, boot in boots.items():
        assert boot.facts is not None
        assert boot.facts.reach is not None
        attempts = boot.facts.reach.attempts or {}
        assert attempts.keys() == ATTEMPTS.keys()
        # That a call is asked for in a way that is allowed at all is shown by the bare host, where nothing is confined.
        assert (attempts["mount"] == ALLOWED) is (name == "native"), json.dumps(attempts)
    reached = isolation.Row("runc", (boots["native"],)).reached()
    assert any(not missing_facts(one, "runc", "mount") for one in reached), "a guest that is not confined is named"


def test_a_run_that_comes_to_nothing_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert isolation.main(["--seed", "1", "--count", "0", "--platforms", "netns", "--user-platforms"]) == 2
    assert "blocks" in capsys.readouterr().out
