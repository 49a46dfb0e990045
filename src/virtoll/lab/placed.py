"""``placed.py SOURCE TARGET [SOURCE TARGET]... -- PROGRAM ARGUMENTS...``: show SOURCE at TARGET, then run PROGRAM.

A SOURCE of ``-`` takes away what is mounted at TARGET, for programs that read the table of mounts.
Only for a mount namespace of the program's own (``unshare --mount``): for programs that have the places of their
files built in. What is at a TARGET stays as it is for everybody else. Daemons that PROGRAM leaves become children of
this process, which reaps them at once (libvirt waits for a machine to vanish, not to die) and ends with PROGRAM.
"""

import ctypes
import os
import subprocess
import sys

_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


def main(arguments: list[str]) -> None:
    """Ends as the program does; what cannot be mounted ends the process with a sentence on standard error."""
    cut = arguments.index("--")
    places, program = arguments[:cut], arguments[cut + 1 :]
    for source, target in zip(places[::2], places[1::2], strict=True):
        taken = source == "-"
        command = ["umount", "--recursive", "--lazy", target] if taken else ["mount", "--bind", source, target]
        finished = subprocess.run(command, capture_output=True, text=True, check=False)
        if finished.returncode != 0:
            what = f"{target} could not be unmounted" if taken else f"{source} could not be shown at {target}"
            sys.exit(f"virtoll: {what}: {finished.stderr.strip()}")
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    child = os.spawnvp(os.P_NOWAIT, program[0], program)  # noqa: S606 - an argument list
    while True:
        pid, status = os.wait()
        if pid == child:
            sys.exit(os.waitstatus_to_exitcode(status) & 0xFF)


if __name__ == "__main__":
    main(sys.argv[1:])
