"""What a guest that is gone said last, in the one sentence that the report has of it."""

from __future__ import annotations

import pytest
from tests.support.facts import assert_facts

from virtoll.platforms.last_words import last_complaint, last_words, with_last_words

# From a guest of QEMU's whose CPU had twelve endless loops on it.
PANIC = b"""\
[    0.020000] ..MP-BIOS bug: 8254 timer not connected to IO-APIC
[    0.048000] Kernel panic - not syncing: IO-APIC + timer doesn't work!  Boot with apic=debug and send a report.
[    0.048000] CPU: 0 PID: 1 Comm: swapper/0 Not tainted 6.1.0-56-amd64 #1  Debian 6.1.187-1
[    0.048000] Call Trace:
[    0.048000]  secondary_startup_64_no_verify+0xe5/0xeb
[    0.048000]  </TASK>
"""


@pytest.mark.parametrize(
    ("console", "said"),
    [
        (PANIC, "Kernel panic - not syncing: IO-APIC + timer doesn't work!  Boot with apic=debug and send a report."),
        (b"starting\r\nvirtoll-agent: /data: no such device\r\n\r\n", "virtoll-agent: /data: no such device"),
        (b"<0>[   12.5] Out of memory: Killed process 7 (init)\nbye\n", "Out of memory: Killed process 7 (init)"),
        (b"\xff\xfe\n", "��"),
        (b" \n\n", None),
        (b"", None),
    ],
)
def test_the_reason_comes_before_what_was_said_after_it(console: bytes, said: str | None) -> None:
    assert last_words({"console.txt": console}) == said


def test_a_reason_ends_with_the_last_words() -> None:
    assert_facts(with_last_words("g/1 ended", {"console.txt": PANIC}), "g/1 ended", "Kernel panic", "apic=debug")
    assert with_last_words("g/1 ended", {}) == "g/1 ended"


def test_what_a_program_only_warns_of_is_not_what_it_ended_of() -> None:
    """QEMU 11 at each start: where a guest does not boot, the reason is another one."""
    warning = b"qemu-system-x86_64: -mon chardev=m: warning: '-mon' is deprecated, use '-object' instead\n"
    assert not last_complaint(warning)
    assert last_complaint(b"no such device\n" + warning) == "no such device"
