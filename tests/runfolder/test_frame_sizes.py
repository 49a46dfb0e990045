"""Frame sizes of folders of before, which were without FCS."""

import json
from pathlib import Path

from tests.support import synthetic_run
from tests.support.synthetic_run import Truth

from virtoll.runfolder.store import RunFolder


def test_an_old_folder_is_read_as_it_was_meant(tmp_path: Path) -> None:
    """An old 64 is 68 with FCS, in plan, trials and points; files are as they were."""
    synthetic_run.write(tmp_path, Truth({"native": {}}, control=None, frame_sizes=(64,)))
    manifest = tmp_path / "manifest.json"
    content = json.loads(manifest.read_text())
    new = RunFolder.open(tmp_path)
    assert {point.frame_size_bytes for one in new.trials() for point in one.points or ()} == {64}
    del content["frame_sizes"]
    manifest.write_text(json.dumps(content))
    before = (tmp_path / "trials.jsonl").read_bytes()
    old = RunFolder.open(tmp_path)
    planned = {one.parameters.get("frame_size_bytes") for one in old.manifest.plan.trials}
    assert planned == {None, 68}
    assert {one.parameters.get("frame_size_bytes") for one in old.trials()} == {None, 68}
    assert {point.frame_size_bytes for one in old.trials() for point in one.points or ()} == {68}
    assert (tmp_path / "trials.jsonl").read_bytes() == before
