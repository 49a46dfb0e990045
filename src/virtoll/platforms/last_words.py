"""What a guest said last, as the end of the sentence that says that it is gone.

A kernel that panics prints a page of registers after the reason; the reason is what belongs into a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

CONSOLE = "console.txt"
_TIME = re.compile(r"^(<\d>)?\[ *\d+\.\d+\] *")  # as the kernel stamps its messages
_REASON = re.compile(r"Kernel panic|Unable to mount root|Out of memory|^BUG: |^Oops|\bpanicked at\b")
_MOST_CHARACTERS = 200


def last_line(output: bytes) -> str:
    """The last line of a program's output that is not blank, without white space at its ends; empty where none is."""
    return next((line.strip() for line in reversed(output.decode(errors="replace").splitlines()) if line.strip()), "")


def last_complaint(output: bytes) -> str:
    """The last line of a program's output that is neither blank nor, in its own words, a warning; empty where none is.

    What a program warns of (QEMU: an option that a later version will not have) is not what it ended of.
    """
    lines = [line for line in output.splitlines() if b": warning: " not in line]
    return last_line(b"\n".join(lines))


def last_words(evidence: Mapping[str, bytes]) -> str | None:
    """The console's line with the reason where a kernel gave one, else its last line; None where it said nothing."""
    lines = [_TIME.sub("", line.strip()) for line in evidence.get(CONSOLE, b"").decode(errors="replace").splitlines()]
    spoken = [line for line in lines if line]
    reasons = [line for line in spoken if _REASON.search(line)]
    chosen = reasons[-1:] or spoken[-1:]
    return chosen[0][:_MOST_CHARACTERS] if chosen else None


def with_last_words(sentence: str, evidence: Mapping[str, bytes]) -> str:
    """The sentence, with what the guest's console said last behind it."""
    words = last_words(evidence)
    return sentence if words is None else f"{sentence}; its console said last: {words}"
