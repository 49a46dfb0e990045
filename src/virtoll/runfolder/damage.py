"""What fails of records that can be read one by one and make no sense together, as one sentence that names the run.

Main functions: ``damage_told`` (around work on one run), ``damage_of`` (after the work of a whole command: it names
the runs of which ``note_read`` knows). A mistake of Virtoll's own that comes before any run was read stays one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from virtoll.errors import RunFolderError, VirtollError
from virtoll.runfolder.sums import differences

_SAID: Final = 200  # characters of an error's own words
_OF_VALUES: Final = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
_read: dict[Path, None] = {}  # in this process, in order


def note_read(run_directory: Path) -> None:
    """Remember that this process reads a run: what fails later may come from its records."""
    _read[run_directory] = None


def damage_of(error: Exception) -> RunFolderError | None:
    """The error as one of the runs that this process has read; None if it read no run or values do not raise it."""
    if not _read or not isinstance(error, _OF_VALUES):
        return None
    changed = [folder for folder in _read if differences(folder)]
    return _sentence(error, changed[:1] or list(_read))


@contextmanager
def damage_told(run_directory: Path) -> Iterator[None]:
    """RunFolderError for what fails of a run's records, except for a lack of memory.

    The digests say why, if they show a change. A folder without digests, or with digests that somebody made again, may
    hold anything.
    """
    try:
        yield
    except (VirtollError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, AssertionError) and not differences(run_directory):
            raise  # a mistake of Virtoll's own
        raise _sentence(error, [run_directory]) from error


def _sentence(error: Exception, folders: Sequence[Path]) -> RunFolderError:
    """One sentence for one run or several."""
    changes = differences(folders[0]) if len(folders) == 1 else None
    if changes:
        return RunFolderError(
            f"{folders[0]} is not as it was when the run ended: {'; '.join(changes)}. Its records no longer agree "
            "with each other: take a copy that is whole."
        )
    detail = " ".join(str(error).split())[:_SAID]
    whose = "its records contradict" if len(folders) == 1 else "the records of one of them contradict"
    return RunFolderError(
        f"{', '.join(map(str, folders))}: {whose} each other ({type(error).__name__}: {detail}). Take a copy that is "
        "whole, or report it as a defect of Virtoll if it wrote the folder so."
    )
