"""One part of the reliability suite: ``python benches/survive PART [ARGUMENT...]`` in the repository, as root.

Each part is a module here with ``main(arguments) -> exit code``. It prints the seed that repeats it and a Markdown
table. It ends with 1 where something was left, lost, believed or reached that should not have been. ``make survive``
runs all parts. The short form of each part, which CI runs, is ``tests/survive/test_PART.py``.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

PARTS = {
    "kills": "kill -9, stops, signals and lack of memory, at random moments of runs over every platform",
    "storage": "full, read-only, failing and slow disks, lost power, two controllers, a clock that is set",
    "block_replay": "lost power by blocks: what ext4 wrote in an emulated machine, replayed to each entry of its log",
    "nfs_share": "run folders on NFS 4.2 in an emulated machine: two clients, a server that is stopped, a lost network",
    "guests": "guests that lie, flood and forge",
    "endurance": "hours of a campaign, hundreds of guests",
    "isolation": "what root in each kind of guest may reach, tried in real guests",
    "roots": "other systems as root file systems: Debian 12, 13 and sid, and some that are no Debian",
    "machines": "Debian's kernels from 5.10 on, with several roots, and cgroup v2, in emulated machines",
    "reboots": "reboots within a run, in a machine that keeps its disk",
    "arm64": "agent, tests and a run on arm64, under emulation",
    "inputs": "generated experiments, damaged run folders and packed archives, odd SSH hosts",
    "neighbours": "other users of the machine: hostile state folders, run folders, current directories and locks",
    "sanitizers": "the agent's tests and real runs under AddressSanitizer, LeakSanitizer and ThreadSanitizer",
}


def main(arguments: list[str]) -> int:
    """Run the part that is named first with the other arguments, or each of them by the word `all`; else list them."""
    asked = arguments[:1]
    if asked == ["all"]:
        return max([_run(part, []) for part in PARTS])
    if not asked or asked[0] not in PARTS:
        print(
            "\n".join(
                [
                    f"usage: python {sys.argv[0]} PART [ARGUMENT...], or all",
                    *(f"  {n:12} {w}" for n, w in PARTS.items()),
                ]
            )
        )
        return 2
    return _run(asked[0], arguments[1:])


def _run(part: str, arguments: list[str]) -> int:
    code: int = importlib.import_module(f"benches.survive.{part}").main(arguments)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
