"""The bill of materials of an image: what its records hold, valid by CycloneDX's schema, the same each time."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from tests.support.commands import virtoll
from tests.support.facts import Command, assert_refused
from tests.support.signed_archive import ARCHIVE, copy_archive, recipe_of

from virtoll import __version__
from virtoll.errors import ImageError
from virtoll.image import Cache, image_bill, prepare_image, with_kernel
from virtoll.image.cache import file_digest
from virtoll.image.sbom import agent, library


def read(file: Path) -> dict[str, Any]:
    """A bill that is valid."""
    text = file.read_text(encoding="utf-8")
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    found: dict[str, Any] = json.loads(text)
    return found


def of(bill: dict[str, Any], name: str) -> dict[str, Any]:
    """The part of this name."""
    (found,) = (one for one in bill["components"] if one["name"] == name)
    return dict(found)


def test_an_image_of_the_agent_alone(cache: Cache, fake_agent: Path, tmp_path: Path) -> None:
    image = prepare_image("tiny", cache=cache, agent=fake_agent)
    file = image_bill(image, cache=cache)
    bill = read(file)
    assert [one["name"] for one in bill["components"]] == ["virtoll-agent"]
    program = of(bill, "virtoll-agent")
    assert program["hashes"] == [{"alg": "SHA-256", "content": file_digest(fake_agent)}]
    assert program["version"] == __version__
    assert "malachite-nz" in {one["name"] for one in program["components"]}
    other = Cache(tmp_path / "other")
    again = image_bill(prepare_image("tiny", cache=other, agent=fake_agent), cache=other)
    assert again.read_bytes() == file.read_bytes()
    assert again != file
    assert "timestamp" not in bill["metadata"]


def test_of_an_agent_that_somebody_named_the_crates_are_not_known(
    cache: Cache, fake_agent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIRTOLL_AGENT", str(fake_agent))
    program = of(read(image_bill(prepare_image("tiny", cache=cache, agent=fake_agent), cache=cache)), "virtoll-agent")
    assert program["components"] == []
    assert program["properties"][0]["value"]
    assert "version" not in program


def test_the_libraries_that_are_linked_are_read_from_the_program() -> None:
    program_text = (
        b"\0rustc version 1.95.0 (5980)\0GNU C Library (Debian GLIBC 2.36-9+deb12u14) stable release version 2.36.\n\0"
    )
    parts = {one["name"]: one for one in agent("1", "0" * 64, program_text)["components"]}
    assert parts["rust-std"]["version"] == "1.95.0"
    assert parts["glibc"]["purl"] == "pkg:deb/debian/glibc@2.36-9%2Bdeb12u14"


def test_what_is_not_known_is_left_out() -> None:
    assert library("a", None, "pkg:deb/debian/a?arch=all") == {
        "type": "library",
        "bom-ref": "pkg:deb/debian/a?arch=all",
        "name": "a",
        "purl": "pkg:deb/debian/a?arch=all",
    }


def test_the_shell_and_the_kernel_are_in_it_with_their_digests(backed_cache: Cache, fake_agent: Path) -> None:
    try:
        image = with_kernel(
            prepare_image("debug", cache=backed_cache, agent=fake_agent, offline=True), cache=backed_cache, offline=True
        )
    except ImageError as error:
        pytest.skip(str(error))
    bill = read(image_bill(image, cache=backed_cache))
    assert of(bill, image.kernel.package)["hashes"][0]["content"] == image.kernel.package_sha256
    assert of(bill, "busybox-static")["hashes"]


@pytest.mark.root
@pytest.mark.skipif(shutil.which("mmdebstrap") is None, reason="mmdebstrap is not installed")
def test_a_debian_package_is_in_it_with_the_digest_that_the_archive_signed(
    cache: Cache, fake_agent: Path, tmp_path: Path
) -> None:
    recipe = recipe_of(copy_archive(tmp_path / "archive"))
    image = prepare_image("full", cache=cache, agent=fake_agent, recipe=recipe)
    part = of(read(image_bill(image, cache=cache)), "word")
    assert part["hashes"] == [{"alg": "SHA-256", "content": file_digest(ARCHIVE / "word.deb")}]
    assert part["purl"] == "pkg:deb/debian/word@1.2-3?arch=all&distro=test"


def test_the_command_prints_what_the_cache_has(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIRTOLL_CACHE", str(cache.home))
    missing = virtoll("image", "sbom", "full")
    assert_refused(missing, Command("virtoll image build full"), code=1)
    assert missing.stdout == ""
    image = prepare_image("tiny", cache=cache)
    printed = virtoll("image", "sbom", "tiny")
    assert printed.returncode == 0, printed.stderr
    assert printed.stdout == image_bill(image, cache=cache).read_text(encoding="utf-8")
