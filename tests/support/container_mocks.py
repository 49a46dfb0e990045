"""Programs named vzctl, vzlist, prlctl, vserver, vserver-info and vkill, which take what their manual pages and sources
document and refuse all else with the product's own exit code and words; behind them is a bare namespace container.

State is a folder ($MOCK_STATE): a JSON file and a process number a container. $MOCK_BUSYBOX is a static busybox, of
which templates are made, and $MOCK_AGENT the agent, by which containers start. $MOCK_REFUSES: each line "COMMAND CODE
words" has that command of vzctl, prlctl or vserver fail; $MOCK_DIES: "create" has vzctl or prlctl killed in the middle
of that. A container that prlctl made has a UUID for its number, and a host that has such a one has Virtuozzo's vzlist.
Sources: docs/platforms/openvz.md and vserver.md name file and commit of each.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.mocked_containers import Store
from tests.support.openvz_mock import prlctl, vzctl, vzlist
from tests.support.vserver_mock import vkill, vserver, vserver_info

ACTIONS: dict[str, Callable[[list[str], Store], None]] = {
    "vzctl": vzctl,
    "vzlist": vzlist,
    "prlctl": prlctl,
    "vserver": vserver,
    "vserver-info": vserver_info,
    "vkill": vkill,
}


def install(folder: Path) -> None:
    """Put the programs into a folder for PATH; they are started often, and read no package of the interpreter's."""
    from tests.support.repository import ROOT

    folder.mkdir(parents=True, exist_ok=True)
    for name in ACTIONS:
        lines = [
            f"#!{sys.executable} -SE",
            "import sys",
            f"sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / 'src')!r}]",
            "from tests.support.container_mocks import main",
            f"main({name!r}, sys.argv[1:])",
        ]
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        (folder / name).chmod(0o755)


def put_container(state: Path, number: int | str, name: str) -> None:
    """One of OpenVZ's that the programs did not make; one of Virtuozzo's where the number is a UUID."""
    private = state / f"p{number}"
    private.mkdir(parents=True)
    one: dict[str, Any] = {
        "key": str(number),
        "name": name,
        "private": str(private),
        "root": None,
        "virtuozzo": not str(number).isdigit(),
        "netifs": [],
        "set": [],
    }
    (state / f"{number}.json").write_text(json.dumps(one))


def main(program: str, argv: list[str]) -> None:
    """One of the programs."""
    store = Store()
    store.note(program, argv)
    ACTIONS[program](argv, store)
