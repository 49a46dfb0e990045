"""Guests of an image with tools: whatever the platform, they have its files, and nobody can write to them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.image.test_tools import Mirror
from tests.support import guests
from tests.support.guests import Connected

from virtoll.agent.operations.programs import ExecRequest
from virtoll.image import Cache, default_cache, prepare_image
from virtoll.image.cache import tree_digest
from virtoll.run.session import RunSession

INSIDE_LAB = True
pytestmark = [pytest.mark.lab, pytest.mark.root]


@pytest.fixture(scope="module")
def run_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunSession]:
    """The lab's run session with a tree of two packages as the image full, one of them with a program."""
    folder = tmp_path_factory.mktemp("tools")
    folder.parent.chmod(0o755)
    mirror = Mirror(folder / "mirror")
    mirror.folder.mkdir()
    with guests.run_session() as made:
        busybox = (made.site.image.root / "bin/busybox").read_bytes()
        mirror.add("word", depends="programs")
        mirror.add("programs", program=busybox)
        cache = Cache(folder / "cache", (default_cache().home, *default_cache().others))
        image = prepare_image("full", cache=cache, recipe=mirror.recipe("word"), offline=False)
        made.site.image = image
        yield made


def run(live: Connected, *argv: str) -> tuple[int | None, str]:
    """Exit code, and what the program wrote."""
    limits = {"timeout_ns": int(guests.HANG_SECONDS * 1e9), "limit_bytes": 2**16}
    request = ExecRequest(argv=argv, env={}, directory="/", stdin=b"", **limits)
    ended = live.guest.agent.ask(request, guests.HANG_SECONDS)
    return ended.status, (ended.stdout + ended.stderr).decode()


@pytest.mark.parametrize("kind", ["native", "netns", "runc", "uml", "qemu-tcg"])
def test_the_packages_are_there_and_stay_as_they_are(run_session: RunSession, kind: str) -> None:
    live = guests.start(kind, run_session)
    assert run(live, "/usr/bin/busybox", "cat", "/usr/share/word/word") == (0, "from word\n")
    status, said = run(live, "/usr/bin/busybox", "touch", "/usr/share/word/written")
    assert (status, "Read-only file system" in said) == (1, True)
    assert run(live, "/usr/bin/busybox", "touch", "/tmp/written") == (0, "")
    live.guest.stop()
    assert tree_digest(run_session.site.image.root.parent) == run_session.site.image.digest.removeprefix("sha256:")
