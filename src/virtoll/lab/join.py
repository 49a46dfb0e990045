"""``join.py FILE... -- PROGRAM ARGUMENTS...``: enter the cgroups of these ``cgroup.procs`` files, then become PROGRAM.

Imports nothing but what Python has loaded already, so that it costs a guest's start a few milliseconds.
"""

import os
import sys


def main(arguments: list[str]) -> None:
    """Never returns; a group that cannot be joined ends the process with a sentence on standard error."""
    cut = arguments.index("--")
    for file in arguments[:cut]:
        try:
            with open(file, "w", encoding="ascii") as stream:  # noqa: PTH123 - pathlib costs the start of each guest
                stream.write("0")
        except OSError as error:
            sys.exit(f"virtoll: cgroup file {file} does not take the guest: {error.strerror}")
    program = arguments[cut + 1 :]
    try:
        os.execvp(program[0], program)  # noqa: S606 - an argument list
    except OSError as error:
        sys.exit(f"virtoll: {program[0]}: {error.strerror}")


if __name__ == "__main__":
    main(sys.argv[1:])
