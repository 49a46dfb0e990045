"""What a Virtoll that was killed left on an ESXi host: machines, their files, virtual switches; and their removal.

Main functions: ``remove_machine``, ``remove_leftovers_by_api``. Run as a program, this module removes one machine: the
janitor does so when a lab ended without doing it. Nothing is touched whose name and note do not both say that Virtoll
made it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Sequence
from typing import Any

from pyVmomi import vim

from virtoll.errors import VirtollError
from virtoll.lab.residue import lab_named_in
from virtoll.platforms.esxi.datastore import Datastore
from virtoll.platforms.esxi.parameters import EsxiParameters
from virtoll.platforms.esxi.session import Session, open_session, surviving
from virtoll.platforms.esxi.specs import TAG
from virtoll.platforms.esxi.switches import remove_unused
from virtoll.system.python import isolated


def is_ours(machine: Any) -> bool:
    """Whether Virtoll made this virtual machine, by its name and its note."""
    return lab_named_in(machine.name) is not None and str(machine.config.annotation or "").startswith(TAG)


def remove_machine(session: Session, name: str) -> None:
    """Switch off and remove a machine that Virtoll made, its folder, and switches that nobody is left on."""
    machine = session.machine(name)
    if machine is not None and is_ours(machine):
        if machine.runtime.powerState != vim.VirtualMachine.PowerState.poweredOff:
            with contextlib.suppress(vim.fault.InvalidPowerState):  # it has gone by itself meanwhile
                session.finish(machine.PowerOff())
        session.finish(machine.Destroy_Task())
        machine = None
    lab = lab_named_in(name)
    if machine is None and lab is not None:
        Datastore(session).remove_folder(name)
        remove_unused(session, f"{lab}-")


def remove_leftovers_by_api(parameters: EsxiParameters, alive: frozenset[str] = frozenset()) -> list[str]:
    """Remove what labs left there that do not live any more; ``alive``: labs' ids. Returns what was removed."""
    removed: list[str] = []

    def dead(name: str) -> str | None:
        lab = lab_named_in(name)
        return lab if lab is not None and lab not in alive else None

    with open_session(parameters) as session:
        for (name, _), ours in surviving(session.machines().items(), lambda entry: is_ours(entry[1])):
            if ours and dead(name) is not None:
                remove_machine(session, name)
                removed.append(f"machine {name}")
        store = Datastore(session)
        taken = session.machines()
        for folder in store.folders("virtoll-"):
            if dead(folder) is not None and folder not in taken:
                store.remove_folder(folder)
                removed.append(f"folder {store.path(folder)}")
        system = session.host.configManager.networkSystem
        labs = {lab for switch in system.networkInfo.vswitch if (lab := dead(switch.name)) is not None}
        for lab in sorted(labs):
            removed += [f"virtual switch {name}" for name in remove_unused(session, f"{lab}-")]
    return removed


def command(parameters: EsxiParameters, name: str) -> list[str]:
    """The argument list that removes a machine, for whoever outlives this process; it has no password in it."""
    return isolated(__name__, parameters.model_dump_json(), name)


def main(arguments: Sequence[str]) -> int:
    """``PARAMETERS NAME``: remove this machine; returns the exit code."""
    parser = argparse.ArgumentParser(description="Removes a machine that Virtoll made on an ESXi host.")
    parser.add_argument("parameters", help="the platform's parameters as JSON")
    parser.add_argument("name", help="the machine's name")
    options = parser.parse_args(arguments)
    try:
        with open_session(EsxiParameters.model_validate(json.loads(options.parameters))) as session:
            remove_machine(session, options.name)
    except VirtollError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
