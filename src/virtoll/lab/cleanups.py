"""The commands that remove or put back what a product holds for a lab: a fixed set, whose arguments have fixed forms.

Main functions: ``recorded`` (an argument list as the record of a lab stores it) and ``command`` (the argument list of
what a record says). A record holds the name of a command of ``CLEANUPS`` and its arguments, and never a free argument
list: whoever could write a record must not choose what runs. A guest's name must be of the record's own lab.

The set is here, and not at the drivers: the janitor imports no driver, and a reader sees at one place all that a state
folder can cause.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from virtoll.lab.vfio import PCI_ADDRESS
from virtoll.system.python import isolated

FORMS: Final = {
    "guest": r"virtoll-[0-9a-f]{12}-[A-Za-z0-9._+-]{1,200}",
    "number": r"[0-9]{1,10}",
    "vcpu": r"all|[0-9]{1,5}",
    "cpus": r"all|any cpu|[0-9,^-]{1,2000}",
    "pci": PCI_ADDRESS.strip("^$"),
    "veth": r"vt[rb][A-Za-z0-9._-]{1,12}",
    "nic": r"(?!\.{1,2}$)[^\s/\0]{1,15}",
    "switch": r"on|off",
    "folder": r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._-]+)+",
    "driver": r"(?:qemu|xen|lxc):///system|test:///default",
    "parameters": r"\{[^\0\n]{0,65536}\}",
}
"""By the name that stands in a command, the form of an argument."""

_PLACE: Final = re.compile(r"\{([a-z]+)\}")
_VBOX: Final = "env VBOX_USER_HOME={folder}/settings VBoxManage -q"
_FILES_OF_CTID: Final = "{folder}/{number}.mount {folder}/{number}.mount.destroyed {folder}/{number}.conf.destroyed"


@dataclass(frozen=True)
class Cleanup:
    """One command: its words with the forms of its arguments in braces; ``module``: of Virtoll, run as the program."""

    words: str
    module: str | None = None

    @property
    def name(self) -> str:
        """By which a record names it."""
        return self.words if self.module is None else f"{self.module} {self.words}"

    @cached_property
    def forms(self) -> list[str]:
        """The forms of its arguments, in their order."""
        return _PLACE.findall(self.words)

    def arguments(self, argv: Sequence[str]) -> tuple[str, ...] | None:
        """The arguments by which it is this argument list; None if it is another command."""
        start = self._program()
        words = self.words.split()
        if list(argv[: len(start)]) != start or len(argv) != len(start) + len(words):
            return None
        values: list[str] = []
        for pattern, word in zip(map(_pattern, words), argv[len(start) :], strict=True):
            match = pattern.fullmatch(word)
            if match is None:
                return None
            values += match.groups()
        return tuple(values)

    def argv(self, arguments: Sequence[str], lab_id: str) -> list[str] | None:
        """The argument list; None if an argument has another form, or is a guest's name of another lab."""
        if len(arguments) != len(self.forms):
            return None
        for form, argument in zip(self.forms, arguments, strict=True):
            if re.fullmatch(FORMS[form], argument) is None:
                return None
            if form == "guest" and not argument.startswith(f"{lab_id}-"):
                return None
        left = iter(arguments)
        return [*self._program(), *(_PLACE.sub(lambda _: next(left), word) for word in self.words.split())]

    def _program(self) -> list[str]:
        return [] if self.module is None else isolated(self.module)


CLEANUPS: tuple[Cleanup, ...] = (
    # Xen's domain 0
    Cleanup("xl destroy {guest}"),
    Cleanup("xl vcpu-pin Domain-0 {vcpu} {cpus} {cpus}"),
    Cleanup("xl pci-assignable-remove -r {pci}"),
    Cleanup("rm -f /var/log/xen/qemu-dm-{guest}.log /var/log/xen/xl-{guest}.log"),
    Cleanup("losetup --detach /dev/loop{number}"),
    Cleanup("ip rule del lookup {number}"),
    Cleanup("ip link del {veth}"),  # also VirtualBox's
    Cleanup(f"{_VBOX} controlvm {{guest}} poweroff"),
    Cleanup(f"{_VBOX} unregistervm {{guest}} --delete"),
    Cleanup("virsh --quiet --connect {driver} destroy {guest}"),
    # OpenVZ, by vzctl and by prlctl
    Cleanup("vzctl stop {number} --fast"),
    Cleanup("vzctl umount {number}"),
    Cleanup("vzctl destroy {number}"),
    Cleanup("vzctl destroy {guest}"),
    Cleanup("rm -rf -- {folder}/private/{guest} {folder}/private/{guest}.tmp"),
    Cleanup("rm -f -- {folder}/template/cache/{guest}.tar"),
    Cleanup(f"rm -f -- {_FILES_OF_CTID}"),
    Cleanup("prlctl stop {guest} --kill"),
    Cleanup("prlctl delete {guest}"),
    Cleanup("vserver --silent {guest} stop"),
    Cleanup("vserver --silent {guest} delete"),
    Cleanup("{parameters} {guest}", module="virtoll.platforms.esxi.leftovers"),
    Cleanup("{nic} {switch} {switch} {switch}", module="virtoll.lab.flow_control"),
)


def recorded(argv: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """A command's name and arguments for a record; ``ValueError`` if it is not of the set."""
    for cleanup in CLEANUPS:
        if (arguments := cleanup.arguments(argv)) is not None:
            return cleanup.name, arguments
    raise ValueError(f"'{' '.join(argv)}' is not a clean-up that a lab's record takes; add its form to lab/cleanups.py")


def command(name: str, arguments: Sequence[str], lab_id: str) -> list[str] | None:
    """The argument list of what a lab's record says; None if the set has no such command with such arguments."""
    for cleanup in CLEANUPS:
        if cleanup.name == name:
            return cleanup.argv(arguments, lab_id)
    return None


def _pattern(word: str) -> re.Pattern[str]:
    """What a word of a command matches, each argument in it as a group."""
    parts = _PLACE.split(word)
    literals, forms = parts[::2], parts[1::2]
    groups = [f"({FORMS[form]})" for form in forms]
    text = re.escape(literals[0])
    for group, literal in zip(groups, literals[1:], strict=True):
        text += group + re.escape(literal)
    return re.compile(text)
