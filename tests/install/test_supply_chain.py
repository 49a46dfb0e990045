"""What Virtoll is made of, and by whose word: advisories, licences, digests, and a run that asks nobody.

`make audit` asks the databases of today, `make reproducible` builds everything twice.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import html
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.support import experiments
from tests.support.commands import virtoll
from tests.support.facts import assert_facts, refused
from tests.support.repository import ROOT, load_tool

audit: ModuleType = load_tool("audit")
pins: ModuleType = audit.snapshot
TODAY = dt.date(2026, 11, 27)
FOUND = audit.Finding(("GO-1", "CVE-1"), "a/b", "1.2.3", "it falls over")


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """A snapshot that says nothing."""
    (tmp_path / "rustsec" / "crates").mkdir(parents=True)
    for name in ("pypa", "pypi", "go"):
        (tmp_path / f"{name}.json").write_text("[]", encoding="ascii")
    return tmp_path


def record(ecosystem: str, name: str, *events: dict[str, str]) -> dict[str, Any]:
    """An OSV record of one package."""
    package = {"ecosystem": ecosystem, "name": name}
    ranges = [{"type": "ECOSYSTEM", "events": list(events)}]
    return {"id": "X-1", "aliases": ["CVE-1"], "summary": "bad", "affected": [{"package": package, "ranges": ranges}]}


@pytest.mark.parametrize(
    ("ecosystem", "version", "inside"),
    [
        ("PyPI", "1.9", False),
        ("PyPI", "2.0", True),
        ("PyPI", "2.10", True),
        ("PyPI", "3.0rc1", True),
        ("PyPI", "3.0", False),
        ("Go", "2.0.0-rc.1", False),
        ("Go", "2.0.0", True),
        ("Go", "3.0.0-20260101000000-abc", True),
        ("Go", "3.0.0", False),
        ("Go", "3.0.1+incompatible", False),
    ],
)
def test_a_version_is_in_a_range_by_its_ecosystems_order(ecosystem: str, version: str, inside: bool) -> None:
    known = record(ecosystem, "a/B", {"introduced": "2.0"}, {"fixed": "3.0"})
    assert audit.affected(version, known, "a/b") is inside
    assert audit.affected(version, known, "other") is False
    assert audit.affected(version, record(ecosystem, "a/b", {"introduced": "0"}), "a/b") is True
    assert audit.affected(version, record(ecosystem, "a/b", {"introduced": "0"}, {"fixed": "0.0.0-1"}), "a/b") is False
    assert audit.affected("1.0", record("PyPI", "a", {"introduced": "0"}, {"last_affected": "1.0"}), "a") is True


def test_what_is_found_is_a_complaint_until_it_is_allowed_and_after_that() -> None:
    entry = audit.Allowed("CVE-1", "not called", TODAY)
    assert list(audit.complaints([FOUND], [entry], TODAY)) == []
    (new,) = audit.complaints([FOUND], [], TODAY)
    assert_facts(new, "GO-1", "a/b", "1.2.3", FOUND.words, "advisories/allowed.toml")
    (late,) = audit.complaints([FOUND], [entry], TODAY + dt.timedelta(days=1))
    assert_facts(late, "advisories/allowed.toml", "CVE-1", "2026-11-27", "update")
    (left_over,) = audit.complaints([], [entry], TODAY)
    assert_facts(left_over, "advisories/allowed.toml", "CVE-1", "remove")


@pytest.mark.parametrize(
    "text", ["[X]\nuntil = 2027-01-01\n", "[X]\nwhy = 'it is'\n", "[X]\nwhy = ' '\nuntil = 2027-01-01\n", "X = 1\n"]
)
def test_an_entry_without_reason_or_end_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "allowed.toml").write_text(text, encoding="ascii")
    with refused(tmp_path / "allowed.toml", "X", "'why'", "'until'", error=audit.AuditError):
        audit.read_allowed(tmp_path / "allowed.toml")


def test_a_source_that_is_old_is_said_and_is_no_complaint() -> None:
    sources = {"young": {"date": "2026-06-01"}, "old": {"date": "2026-05-01"}}
    (warning,) = audit.old_sources(sources, TODAY)
    assert_facts(warning, "advisories/sources.json", "old", "210 days", "2026-05-01", "'make advisories'")


@pytest.mark.root
def test_the_real_tools_find_what_is_planted(snapshot: Path) -> None:
    """An advisory of each kind on a package that is locked: cargo-audit, pip-audit and the Go records each find it."""
    python = next(iter(pins.locked_python()))
    module = next(iter(pins.locked_go()))
    crate = snapshot / "rustsec" / "crates" / "libc"
    crate.mkdir()
    planted = '[advisory]\nid = "RUSTSEC-2026-9999"\npackage = "libc"\ndate = "2026-01-01"\n[versions]\npatched = []\n'
    (crate / "RUSTSEC-2026-9999.md").write_text(f"```toml\n{planted}```\n\n# Planted\n\nWords.\n", encoding="ascii")
    for file, one in (
        ("pypa", record("PyPI", python, {"introduced": "0"})),
        ("go", record("Go", module, {"introduced": "0"})),
    ):
        (snapshot / f"{file}.json").write_text(json.dumps([one]), encoding="ascii")
    found = {one.package: one for one in audit.without_network(snapshot)}
    assert set(found) == {"libc", python, module}
    assert found["libc"].names == ("RUSTSEC-2026-9999",)
    assert found[python].names == ("X-1", "CVE-1")


def test_the_snapshot_names_its_sources_and_holds_locked_packages_alone() -> None:
    folder = pins.FOLDER
    sources = json.loads((folder / "sources.json").read_text(encoding="utf-8"))
    assert set(sources) == {"rustsec", "pypa", "pypi", "go"}
    for name, facts in sources.items():
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", facts["date"]), name
    crates = {path.parent.name for path in (folder / "rustsec").rglob("*.md")}
    assert crates <= pins.locked_crates()
    records = [
        one for file in ("pypa", "pypi", "go") for one in json.loads((folder / f"{file}.json").read_text("utf-8"))
    ]
    names = {one["package"]["name"] for record in records for one in record["affected"]}
    assert names - set(pins.locked_go()) - set(pins.locked_python()) == set()


def test_the_agent_names_no_folder_of_who_built_it() -> None:
    """`make reproducible` shows the same bytes; here, that nothing is in them by which two builds would differ."""
    program = (ROOT / "build" / "virtoll-agent").read_bytes()
    home = os.environ.get("CARGO_HOME") or str(Path.home() / ".cargo")
    for folder in (home, str(ROOT), "/registry/src/"):
        assert os.fsencode(folder) not in program, f"{folder}: 'make agent' builds it without"
    assert re.search(rb"/crates/index\.crates\.io-[0-9a-f]+/[\w-]+-\d+\.\d+\.\d+/src/", program), "names are remapped"


def test_tools_of_cargo_are_held_to_their_digests() -> None:
    tools = load_tool("cargo_tools")
    assert tools.checked(tools.Tool("a", "1", hashlib.sha256(b"a").hexdigest()), b"a") == b"a"
    for tool in tools.TOOLS:
        with refused(tool.name, tool.sha256, error=ValueError):
            tools.checked(tool, b"a")


def test_every_pin_has_a_digest() -> None:
    """Crates by Cargo.lock, Python's packages by hashes, Go's modules by go.sum, the page's scripts and the kernel."""
    for lock in pins.CARGO_LOCKS:
        for package in tomllib.loads(lock.read_text(encoding="utf-8"))["package"]:
            if "source" in package:
                assert package["source"] == "registry+https://github.com/rust-lang/crates.io-index"
                assert re.fullmatch(r"[0-9a-f]{64}", package["checksum"])
    for name in ("requirements.lock", "requirements-dev.lock"):
        text = (ROOT / name).read_text(encoding="utf-8")
        for pin in re.split(r"\n(?=\S)", text):
            assert pin.startswith("#") or ("==" in pin.split(";")[0] and "--hash=sha256:" in pin), pin
    for file in pins.GO_MODULES:
        sums = file.with_name("go.sum").read_text(encoding="utf-8")
        for module, version in re.findall(
            r"^\s*(?:require )?(\S+\.\S+/\S+) v(\S+)", file.read_text("utf-8"), re.MULTILINE
        ):
            assert f"{module} v{version} h1:" in sums or f"{module} v{version}/go.mod h1:" in sums, module


@pytest.mark.skipif(shutil.which("cargo") is None, reason="needs cargo")
def test_what_crates_may_be_is_decided(tmp_path: Path) -> None:
    """The real cargo-deny refuses a licence that `deny.toml` does not allow."""
    text = (ROOT / "deny.toml").read_text(encoding="utf-8")
    (tmp_path / "deny.toml").write_text(text.replace('"MIT", ', ""), encoding="utf-8")
    program = Path(sys.executable).with_name("cargo-deny")  # set-up puts the tools next to Python
    command = [str(program), "--locked", "--config", str(tmp_path / "deny.toml"), "check", "licenses"]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert finished.returncode != 0
    assert "license" in finished.stderr


@pytest.mark.root
@pytest.mark.lab
@pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace without a user namespace needs root")
def test_a_run_needs_no_network_and_keeps_no_secret(tmp_path: Path) -> None:
    """From where nothing leads anywhere, not even the loopback; a variable that holds a secret is stored nowhere."""
    small = {"workload": "superpi", "digits": 1000}
    file = experiments.write(tmp_path, platforms=["native", "netns"], workloads=[small], blocks=1)
    secret = "never-" + "to-be-stored"
    done = virtoll(
        "run",
        file,
        "--verbose",
        runs=tmp_path / "runs",
        changed={"ESXI_PASSWORD": secret},
        way=("unshare", "--net", "--"),
    )
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "runs").glob("*-example*/")
    page = (folder / "report" / "index.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in html.unescape(page)
    asked = r"""<(?:link|iframe|object|embed)\b|(?:src|srcset)\s*=\s*["']?https?:|url\(\s*["']?https?:|@import"""
    assert re.findall(asked, re.sub(r"<script[^>]*>.*?</script>", "", page, flags=re.DOTALL)) == []
    assert virtoll("pack", folder, "--output", tmp_path / "run.tar.zst").returncode == 0
    stored = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in stored if secret.encode() in path.read_bytes()] == []
    assert secret not in done.stdout + done.stderr
