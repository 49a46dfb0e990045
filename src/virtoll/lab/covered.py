"""``covered.py FOLDER -- PROGRAM ARGUMENTS...``: mount an empty file system over FOLDER, then become PROGRAM.

Only for a mount namespace of the program's own (``unshare --mount``): the folder is hidden from it alone. To unmount
what stands there would take the host's root; to cover it does not.
"""

import os
import subprocess
import sys


def main(arguments: list[str]) -> None:
    """Never returns; what cannot be covered ends the process with a sentence on standard error."""
    folder, _, *program = arguments
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        sys.exit(f"virtoll: {folder} could not be hidden: {finished.stderr.strip()}")
    try:
        os.execvp(program[0], program)  # noqa: S606 - an argument list
    except OSError as error:
        sys.exit(f"virtoll: {program[0]}: {error.strerror}")


if __name__ == "__main__":
    main(sys.argv[1:])
