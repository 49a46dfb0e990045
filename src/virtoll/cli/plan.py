"""``virtoll plan``: what an experiment will run, how long it takes, and what its result would lack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from virtoll import units
from virtoll.cli import options
from virtoll.cli.loading import chosen, load
from virtoll.cli.output import Json, print_json, say
from virtoll.errors import ImageError

if TYPE_CHECKING:
    from virtoll.experiment.model import Experiment
    from virtoll.experiment.plan import Plan
    from virtoll.image import KernelDownload
    from virtoll.report.build import Foreseen
    from virtoll.runfolder.looks import Looks

_IMAGE_SIZES = {"full": "850 MB"}  # where it is long in coming: a new user's disk may be short


def plan(
    experiment: options.Experiment = "quick",
    *,
    size: options.Size = None,
    platform: options.Platform = None,
    workload: options.Workload = None,
    only: options.Only = None,
    skip: options.Skip = None,
    until: options.Until = None,
    blocks: options.Blocks = None,
    seed: options.Seed = None,
    against: options.Against = None,
    trials: Annotated[bool, typer.Option("--trials", help="List every trial, in order.")] = False,
    as_json: Json = False,
) -> None:
    """Print what an experiment will run; start nothing.

    With how long it will take, its disk and memory, and what its result would lack.
    """
    selection = chosen(size, platform, workload, only, skip, until, blocks=blocks, seed=seed, against=against)
    checked = load(experiment, selection)
    from virtoll.pipeline.preview import plan_of
    from virtoll.pipeline.requirements import reasons_of

    planned = plan_of(checked)
    reasons = reasons_of(planned, checked)
    if as_json:
        print_json(_document(checked, planned, reasons))
        return
    for line in _lines(checked, planned, reasons, trials=trials):
        say(line)


def _document(checked: Experiment, planned: Plan, reasons: Mapping[int, str | None]) -> dict[str, object]:
    """All of it, for a program; ``reasons``: why a trial is skipped, by its number."""
    from virtoll.cli.plan_words import warnings_of
    from virtoll.pipeline.preview import estimate
    from virtoll.pipeline.requirements import bytes_of, data_bytes, guests_at_once, memory_at_once, without_impossible

    held = without_impossible(planned, reasons)
    sizes = memory_at_once(held, checked)
    foreseen, kernel = _foreseen(checked), _kernel_download(checked)
    against = {"settings": checked.against, "pairs": checked.pairs, "unconcerned": checked.unconcerned}
    return {
        "version": 1,
        "experiment": checked.name,
        "size": checked.size,
        "order": planned.order,
        "boot": planned.boot,
        "seed": planned.seed,
        "against": against if checked.pairs else None,
        "estimated_seconds": estimate(held),
        "disk": {"image": checked.image, "image_bytes": _image_bytes(checked.image), "data_bytes": data_bytes(held)},
        "kernel_download": asdict(kernel) if kernel else None,
        "memory": {"guests": guests_at_once(held, sizes), "guests_bytes": bytes_of(sizes)},
        "foreseen": asdict(foreseen) if foreseen else None,
        "warnings": warnings_of(checked, bytes_of(sizes)),
        "trials": _documents(planned, reasons),
    }


def _lines(checked: Experiment, planned: Plan, reasons: Mapping[int, str | None], *, trials: bool) -> list[str]:
    """All of it, for a person; ``trials``: each trial, and no table of them."""
    from virtoll.cli.plan_words import against_lines, memory_line, skipped_lines, table_lines, warnings_of
    from virtoll.pipeline.preview import estimate
    from virtoll.pipeline.progress import describe
    from virtoll.pipeline.requirements import bytes_of, data_bytes, guests_at_once, memory_at_once, without_impossible

    lines: list[str] = []
    for trial in planned.trials if trials else ():
        reason = reasons[trial.number]
        lines.append(f"{trial.number:5d}  {describe(trial)}" + (f"  skipped: {reason}" if reason else ""))
    held = without_impossible(planned, reasons)
    lines += _summary(checked, planned, len(held.trials), estimate(held))
    lines += against_lines(checked)
    if not trials:
        lines += [*table_lines(checked, planned, reasons), *skipped_lines(planned, reasons)]
    if (foreseen := _foreseen(checked)) is not None:
        lines.append(foreseen.line)
    lines.append(_disk_line(checked.image, _image_bytes(checked.image), data_bytes(held)))
    if (kernel := _kernel_download(checked)) is not None:
        size = "of some 70 MB" if kernel.bytes is None else f"of {kernel.bytes / 1e6:.0f} MB"
        lines.append(f"guest kernel: not in the cache; the run begins with a download {size}, {kernel.what}")
    sizes = memory_at_once(held, checked)
    if checked.scenario != "consolidation":  # which starts guests until a budget of memory is gone
        lines.append(memory_line(checked, sizes, bytes_of(sizes), guests_at_once(held, sizes)))
    return lines + [f"warning: {warning}" for warning in warnings_of(checked, bytes_of(sizes))]


def _documents(planned: Plan, reasons: Mapping[int, str | None]) -> list[dict[str, Any]]:
    """The trials for a program; a paper's are tens of thousands, of a few cells."""
    from virtoll.experiment.plan import cells_of
    from virtoll.pipeline.preview import planned_trial

    cells = {cell: planned_trial(trial).to_json() for cell, trial in cells_of(planned.trials).items()}
    return [
        {
            **cells[trial.cell],
            "trial": trial.number,
            "block": trial.block,
            "round": trial.round,
            "warm_up": trial.warm_up,
            "skipped": reasons[trial.number],
        }
        for trial in planned.trials
    ]


def _kernel_download(checked: Experiment) -> KernelDownload | None:
    """What machines of the experiment need and the cache has not; None where it has all, or none is needed."""
    from virtoll.image import default_cache, kernel_download
    from virtoll.pipeline.requirements import needs_kernel

    try:
        return kernel_download(default_cache()) if needs_kernel(checked) else None
    except ImageError:  # a machine that Debian has no such kernel for: each platform that needs it says so
        return None


def _foreseen(checked: Experiment) -> Foreseen | None:
    """Which differences the plan would show, by the newest earlier run of it on this host; None without one."""
    from virtoll.api.folders import earlier_run
    from virtoll.host.fingerprint import describe_host

    if checked.baseline is None or checked.order == "paper" or checked.blocks < 2:
        return None
    earlier = earlier_run(checked.name, describe_host()["fingerprint"])
    if earlier is None:
        return None
    from virtoll.report.build import foreseen_by

    foreseen = foreseen_by(earlier, checked.blocks, checked.looks)
    return foreseen if foreseen.factors else None


def _summary(checked: Experiment, planned: Plan, held: int, seconds: float) -> list[str]:
    if planned.order == "paper":
        order = f"{checked.blocks} repetitions in a row, platform after platform (order: paper)"
    else:
        rounds = "" if checked.rounds == 1 else f" of {checked.rounds} rounds"
        order = f"{checked.blocks} randomised blocks{rounds}, seed {planned.seed}"
    if planned.boot == "each-workload":
        order = f"{order}, guests booted anew for each workload"
    most = "" if checked.looks is None else "at most "
    from virtoll.cli.plan_words import duration_words

    time = f"{duration_words(seconds)} if every platform is available"
    lines = [f"{most}{len(planned.trials)} trials in {order}, {time}"]
    if checked.looks is not None:
        lines.append(f"it ends at the first look that finds all decided: after {_numbers(checked.looks)} blocks")
    if held < len(planned.trials):
        lines.append(f"{len(planned.trials) - held} trials will be skipped (reasons given with them)")
    return lines


def _numbers(looks: Looks) -> str:
    """After how many blocks there is a look: "3, 5 or 7"."""
    *others, last = (str(blocks) for blocks, _ in looks.plan)
    return f"{', '.join(others)} or {last}" if others else last


def _disk_line(name: str, image: int | None, data: int) -> str:
    size = f" (about {_IMAGE_SIZES[name]})" if name in _IMAGE_SIZES else ""
    has = f"is not built yet{size}" if image is None else f"in the cache {units.size(image)}"
    files = f"{units.size(data)} for the workloads' files at one time" if data else "nothing for workloads' files"
    return f"disk: guest image {name} {has}; {files}"


def _image_bytes(name: str) -> int | None:
    """What the image and its forms take in the cache, or None while it is not built."""
    from virtoll.image import made_forms, prepare_image

    try:
        image = prepare_image(name, offline=True)
        return image.size_bytes + sum(form.file.stat().st_size for form in made_forms(image))
    except ImageError:
        return None
