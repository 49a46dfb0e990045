"""``virtoll doctor --tune`` and ``--reset``: checks what was asked for, has it done, shows the table."""

from __future__ import annotations

import os
from pathlib import Path

from virtoll.cli.doctor_unprivileged import is_host_root
from virtoll.cli.output import print_json, say, show
from virtoll.errors import UsageError
from virtoll.host.settings import SETTINGS, CpuRoles, TunedHost
from virtoll.host.tuning import reset as put_back
from virtoll.host.tuning import tune as make_quiet
from virtoll.host.tuning import tuning_folder


def change(settings: str | None, *, tune: bool, reset: bool, dry_run: bool, as_json: bool) -> int:
    """Tune or reset this host; the exit code. ``UsageError`` for what cannot be asked for, before anything changes."""
    if tune == reset:
        raise UsageError("doctor: give either --tune or --reset (with --dry-run to see what they would do)")
    names = _names(settings, reset)
    if not dry_run and not is_host_root():
        word = "tune" if tune else "reset"
        raise UsageError(f"doctor --{word}: only the host's root may change its settings; run it as root")
    host = TunedHost(Path("/"), _roles)
    if tune:
        done = make_quiet(host, tuning_folder(), names, dry_run=dry_run)
    else:
        done = put_back(host, tuning_folder(), dry_run=dry_run)
    is_now = "would be" if dry_run else "is"
    rows = [{"setting": row.setting, "was": row.was, is_now: row.now, "note": row.note} for row in done.rows]
    if as_json:
        print_json({"settings": rows, "remarks": done.remarks})
        return min(done.kept, 1)
    for remark in done.remarks:
        say(remark)
    if rows:
        show(rows, False)
    if done.kept:
        say(f"{done.kept} values could not be put back and stay remembered; try --reset again, a reboot ends them too")
    elif rows and not dry_run:
        say("'virtoll doctor --reset' puts back what was there" if tune else "all is as it was")
    return min(done.kept, 1)


def _names(settings: str | None, reset: bool) -> list[str]:
    """The settings that are to be changed; all of them if none is named."""
    if settings is None:
        return list(SETTINGS)
    if reset:
        raise UsageError("doctor: --reset puts back everything; give it no settings")
    names = [name.strip() for name in settings.split(",")]
    if unknown := [name for name in names if name not in SETTINGS]:
        raise UsageError(f"doctor --tune: '{unknown[0]}' is no setting; choose from {', '.join(SETTINGS)}")
    return names


def _roles(cpus: tuple[int, ...]) -> CpuRoles:
    """As a run of guests with one CPU pins them."""
    from virtoll.host.cpu_topology import CpuTopology
    from virtoll.pipeline.pinning import choose_pinning

    usable = tuple(cpu for cpu in cpus if cpu in os.sched_getaffinity(0))
    pinning = choose_pinning(1, usable, CpuTopology.read(usable))
    generator = () if pinning.generator_cpu is None else (pinning.generator_cpu,)
    return CpuRoles(frozenset((*pinning.guest_cpus, *generator)), pinning.sink_cpu)
