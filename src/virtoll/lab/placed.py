"""``placed.py SOURCE TARGET [SOURCE TARGET]... -- PROGRAM ARGUMENTS...``: show SOURCE at TARGET, then become PROGRAM.

Only for a mount namespace of the program's own (``unshare --mount``): for programs that have the places of their
files built in. What is at a TARGET stays as it is for everybody else.
"""

import os
import subprocess
import sys


def main(arguments: list[str]) -> None:
    """Never returns; what cannot be mounted ends the process with a sentence on standard error."""
    cut = arguments.index("--")
    places, program = arguments[:cut], arguments[cut + 1 :]
    for source, target in zip(places[::2], places[1::2], strict=True):
        command = ["mount", "--bind", source, target]
        finished = subprocess.run(command, capture_output=True, text=True, check=False)
        if finished.returncode != 0:
            sys.exit(f"virtoll: {source} could not be shown at {target}: {finished.stderr.strip()}")
    try:
        os.execvp(program[0], program)  # noqa: S606 - an argument list
    except OSError as error:
        sys.exit(f"virtoll: {program[0]}: {error.strerror}")


if __name__ == "__main__":
    main(sys.argv[1:])
