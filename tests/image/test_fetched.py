"""gVisor in the cache: found there without a network, refused where Go or its module is not what is needed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.facts import refused

from virtoll.errors import ImageError
from virtoll.image import Cache, clone, third_party

GO = """#!/bin/sh
echo "$@" >> {calls}
env | grep -E '^(HOME|GOPATH|GOMODCACHE|GOCACHE|GOENV|GOFLAGS|CGO_ENABLED)=' >> {calls}
case "$1" in
mod) {download} ;;
build) while [ "$1" != -o ]; do shift; done; echo built > "$2" ;;
version) echo go version go1.99 ;;
esac
"""


def go(folder: Path, monkeypatch: pytest.MonkeyPatch, download: str) -> Path:
    """A Go that writes its calls down; returns the file."""
    calls = folder / "calls"
    programs = folder / "programs"
    programs.mkdir()
    (programs / "go").write_text(GO.format(calls=calls, download=download), encoding="ascii")
    (programs / "go").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    return calls


def answer(folder: Path, content: str = third_party.MODULE_HASH) -> str:
    """What ``go mod download -json`` says, as a command of a shell."""
    (folder / "module" / "runsc").mkdir(parents=True)
    reply = folder / "said.json"
    reply.write_text(json.dumps({"Dir": str(folder / "module"), "Sum": content}), encoding="ascii")
    return f"cat {reply}"


def test_it_is_built_once_and_then_found_without_go(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = go(tmp_path, monkeypatch, answer(tmp_path))
    monkeypatch.setenv("GOFLAGS", "-mod=vendor")
    assert third_party.find_runsc(cache) is None
    found = third_party.prepare_runsc(cache)
    assert found.read_text(encoding="ascii") == "built\n"
    assert json.loads(found.with_name("runsc.json").read_text(encoding="utf-8")) == {
        "module": third_party.MODULE,
        "version": third_party.VERSION,
        "hash": third_party.MODULE_HASH,
        "go": "go version go1.99",
    }
    lines = calls.read_text(encoding="ascii").splitlines()
    assert f"mod download -json -modcacherw {third_party.MODULE}@{third_party.VERSION}" in lines
    written = {
        line.partition("=")[2] for line in lines if line.startswith(("HOME=", "GOPATH=", "GOMODCACHE=", "GOCACHE="))
    }
    assert all(path.startswith(str(cache.home / "building")) for path in written), "nothing in the user's home"
    assert any(line.startswith("GOENV=") and line.endswith("/go/env") for line in lines), "the user's own proxy counts"
    assert {"CGO_ENABLED=0", "GOFLAGS="} <= set(lines), "the same program whatever the user set"
    assert not list((cache.home / "building").iterdir())
    assert "MiB" in capsys.readouterr().out
    monkeypatch.setenv("PATH", "")
    assert third_party.prepare_runsc(cache) == found == third_party.find_runsc(cache)


def test_without_go_it_names_what_to_install(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with refused("Go 1.21", third_party.MODULE, error=ImageError):
        third_party.prepare_runsc(cache)
    assert not cache.home.exists()


def test_another_content_than_the_pinned_one_is_refused(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = go(tmp_path, monkeypatch, answer(tmp_path, "h1:other="))
    with refused(third_party.MODULE, third_party.VERSION, "GOPROXY", error=ImageError):
        third_party.prepare_runsc(cache)
    assert not [line for line in calls.read_text(encoding="ascii").splitlines() if line.startswith("build ")]
    assert third_party.find_runsc(cache) is None


def test_without_a_network_it_repeats_gos_error(cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go(tmp_path, monkeypatch, "echo dial tcp: no route to host >&2; exit 1")
    with refused("no route to host", "GOPROXY", "network", error=ImageError):
        third_party.prepare_runsc(cache)
    assert not list((cache.home / "building").iterdir())


def test_the_simulator_is_built_from_the_clone_and_found_without_go(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = go(tmp_path, monkeypatch, "exit 1")
    assert third_party.find_vcsim(cache) is None
    found = third_party.prepare_vcsim(cache)
    assert found.read_text(encoding="ascii") == "built\n"
    (built,) = [line for line in calls.read_text(encoding="ascii").splitlines() if line.startswith("build ")]
    assert "-trimpath" in built
    monkeypatch.setenv("PATH", "")
    assert third_party.prepare_vcsim(cache) == found == third_party.find_vcsim(cache)


def test_another_simulator_is_not_taken_for_this_one(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go(tmp_path, monkeypatch, "exit 1")
    third_party.prepare_vcsim(cache)
    source = tmp_path / "vcsim"
    source.mkdir()
    for name in ("go.mod", "go.sum", "main.go"):
        (source / name).write_text("changed\n", encoding="ascii")
    monkeypatch.setattr(clone, "tool_source", lambda _: source)
    assert third_party.find_vcsim(cache) is None
    (source / "go.sum").unlink()
    assert third_party.find_vcsim(cache) is None


def test_without_go_there_is_no_simulator(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with refused("Go 1.23", error=ImageError):
        third_party.prepare_vcsim(cache)
