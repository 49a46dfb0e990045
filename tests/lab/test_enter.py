"""What is put before a program's argument list; what the agent makes of it is tested in Rust and in labs."""

from pathlib import Path

from virtoll.lab.enter import Bind, Enter, Hide, Unmount

AGENT = Path("/agent")


def test_nothing_to_do_needs_no_agent() -> None:
    assert Enter().prefix(AGENT) == []


def test_all_options_come_in_the_agents_words_and_mounts_in_their_order() -> None:
    whole = Enter(
        cgroups=(Path("/a"), Path("/b")),
        cpus=(0, 2),
        network=Path("/n"),
        namespaces=("mount", "pid"),
        mounts=(Bind(Path("/x"), Path("/y")), Unmount(Path("/z")), Hide(Path("/h")), Bind(Path("/v"), Path("/w"))),
        root=Path("/r"),
        shares=(Bind(Path("/f=1"), Path("/data")),),
        reap=True,
        report=7,
    )
    words = (
        "/agent enter --cgroup /a --cgroup /b --cpus 0,2 --net /n --unshare mount,pid --bind /x /y --unmount /z"
        " --hide /h --bind /v /w --root /r --share /f=1 /data --reap --report 7 --"
    )
    assert whole.prefix(AGENT) == words.split()
