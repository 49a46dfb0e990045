"""``unmounted.py FOLDER -- PROGRAM ARGUMENTS...``: unmount FOLDER, then become PROGRAM.

Only for a mount namespace of the program's own (``unshare --mount``): what is unmounted here is unmounted for it alone.
"""

import os
import subprocess
import sys


def main(arguments: list[str]) -> None:
    """Never returns; what cannot be unmounted ends the process with a sentence on standard error."""
    folder, _, *program = arguments
    finished = subprocess.run(["umount", folder], capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        sys.exit(f"virtoll: {folder} could not be unmounted: {finished.stderr.strip()}")
    try:
        os.execvp(program[0], program)  # noqa: S606 - an argument list
    except OSError as error:
        sys.exit(f"virtoll: {program[0]}: {error.strerror}")


if __name__ == "__main__":
    main(sys.argv[1:])
