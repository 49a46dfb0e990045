"""The debug log of ``--verbose``: which programs are started, what is asked of agents, and what is waited for.

It goes by Python's ``logging``, which is imported where somebody asked for it; the command line says where it is shown.
What is logged says nothing of results, and a line takes time: it is for finding a fault, not for measuring.
"""

from __future__ import annotations

import os
from typing import Final

VERBOSE_VARIABLE: Final = "VIRTOLL_VERBOSE"
"""Set where there is a log; the half of a command in the lab inherits it."""
LOGGER: Final = "virtoll"


def wanted() -> bool:
    """Whether somebody asked for a log."""
    return bool(os.environ.get(VERBOSE_VARIABLE))


def debug(words: str, *values: object) -> None:
    """A line of the log, as ``logging`` takes it; nothing where nobody asked."""
    if wanted():
        import logging

        logging.getLogger(LOGGER).debug(words, *values)
