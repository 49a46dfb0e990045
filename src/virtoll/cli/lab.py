"""What a command that starts guests does before it enters the lab, and how its half in the lab knows where it is."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from virtoll.cli.output import say_on_stderr, tell_on_stderr
from virtoll.errors import ImageError, UsageError

if TYPE_CHECKING:
    from virtoll.experiment.model import Experiment


def require_lab() -> None:
    """A ``UsageError`` outside of a lab."""
    from virtoll.lab.launch import inside_lab

    if inside_lab() is None:
        raise UsageError("this command runs inside a lab only; use the one without 'in-lab-'")


def check_system() -> None:
    """A ``UsageError`` on another system than Linux, of which nothing else is to be said."""
    from virtoll.lab.launch import other_system

    reason = other_system()
    if reason is not None:
        raise UsageError(reason)


def check_lab() -> None:
    """A ``UsageError`` with the reason where no lab can be made here.

    On a kernel that is too old one can be made, and much fails: stderr says so.
    """
    from virtoll.lab.launch import newer_kernel_needed, other_system, probe_namespaces

    reason = other_system() or _missing_tools() or probe_namespaces()
    if reason is not None:
        raise UsageError(reason)
    remedy = newer_kernel_needed(platform.release())
    if remedy is not None:
        say_on_stderr(f"virtoll: Linux {platform.release()} is too old for much of this; {remedy}")


def _missing_tools() -> str | None:
    """The programs that make a lab and are not there, in one sentence; None where all are."""
    from virtoll.host.packages import lacking_tools

    lacking = lacking_tools()
    if lacking is None:
        return None
    missing = [name for name in lacking.programs if name not in lacking.stand_ins]
    parts = [f"{', '.join(missing)}: not found on this host"] if missing else []
    parts += [f"{', '.join(lacking.stand_ins)}: busybox's or toybox's, which make no lab"] if lacking.stand_ins else []
    return (
        f"{'; '.join(parts)}; 'virtoll setup' installs what a run needs, or names it "
        f"(this alone: {' and '.join(lacking.debian)}, as Debian calls it)"
    )


def prepare_outside(*images: str, kernel: bool, kernels: Iterable[Path] = ()) -> None:
    """Images and, for machines, their kernel: what is not cached is downloaded here, since the lab has no way there.

    ``kernels``: packages of the user's own, which guests boot besides; UsageError where one is none for this machine.
    Without a kernel the platforms that need one cannot run: stderr says so, and their probes do.
    """
    from virtoll.image import NO_KERNEL_VARIABLE, prepare_image, with_kernel, with_kernel_if_there

    os.environ.pop(NO_KERNEL_VARIABLE, None)
    for image in images:
        made = prepare_image(image, progress=tell_on_stderr)
        if kernel and (made := with_kernel_if_there(made, progress=tell_on_stderr)).machine is None:
            say_on_stderr(f"virtoll: {made.why_no_kernel}")
            os.environ[NO_KERNEL_VARIABLE] = made.why_no_kernel
            kernel = False  # once is enough: it may have taken long
        for file in kernels:
            with_kernel(made, progress=tell_on_stderr, file=file)


def prepare_lab(experiment: Experiment) -> None:
    """All that an experiment needs of the world outside the lab; a ``UsageError`` if no lab can be made here."""
    from virtoll.pipeline.requirements import images_of, needs_kernel, own_kernels

    prepare_outside(*images_of(experiment), kernel=needs_kernel(experiment), kernels=own_kernels(experiment))
    check_lab()


def in_lab(
    experiment: Experiment,
    arguments: list[str],
    own_variables: Mapping[str, str] | None = None,
    own_descriptors: Sequence[int] = (),
) -> int:
    """Enter the lab; the agents of a testbed's hosts are started before, because the way to them is outside.

    ``own_variables`` and ``own_descriptors`` are what the command in the lab is given besides.
    """
    from virtoll.host.tuning import for_the_lab
    from virtoll.hosts.nodes import on_its_nodes
    from virtoll.hosts.session import open_session
    from virtoll.image.clone import built_agent
    from virtoll.lab.launch import run_in_lab
    from virtoll.platforms.ssh.driver import check_before

    testbed = on_its_nodes(experiment.testbed) if experiment.testbed is not None else None
    check_before([choice.parameters for choice in experiment.platforms], testbed)
    _prepare_nested_hosts(experiment)
    with open_session(testbed, built_agent()) as (variables, descriptors):
        lab_variables = {**variables, **for_the_lab(), **(own_variables or {})}
        return run_in_lab(arguments, lab_variables, (*descriptors, *own_descriptors))


def _prepare_nested_hosts(experiment: Experiment) -> None:
    """The files of the nested hosts that it names; one that cannot be made costs its own platforms, not the run."""
    if not experiment.nested_hosts:
        return
    from virtoll.nested import NESTED_HOSTS, prepare_nested_host

    for name in sorted(set(experiment.nested_hosts) & set(NESTED_HOSTS)):
        try:
            prepare_nested_host(NESTED_HOSTS[name], progress=say_on_stderr)
        except ImageError as error:
            say_on_stderr(f"virtoll: {error}")
