"""``doctor --tune`` and ``--reset`` on trees that look like a host's /proc and /sys, with a crash at every moment."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.commands import virtoll
from tests.support.facts import Command, Fact, assert_facts, assert_refused, refused
from tests.support.present import present
from typer.testing import CliRunner

from virtoll.cli import app
from virtoll.cli.doctor import host_checks
from virtoll.errors import UsageError
from virtoll.host.fingerprint import describe_host
from virtoll.host.settings import SETTINGS, CpuRoles, TunedHost, format_cpus, parse_cpus
from virtoll.host.tuning import TUNED_VARIABLE, in_force, reset, tune, write_value
from virtoll.pipeline.pinning import choose_pinning
from virtoll.system.private import NotPrivate

CPU = "sys/devices/system/cpu"
IRQS = ("0-7", "0-3", "2", "7")
FILES = {
    f"{CPU}/online": "0-7",
    f"{CPU}/cpufreq/policy0/scaling_governor": "powersave",
    f"{CPU}/cpufreq/policy0/scaling_available_governors": "performance powersave",
    f"{CPU}/cpufreq/policy10/scaling_governor": "schedutil",
    f"{CPU}/cpufreq/policy10/scaling_available_governors": "performance schedutil",
    f"{CPU}/intel_pstate/no_turbo": "0",
    f"{CPU}/smt/control": "on",
    **{f"{CPU}/cpu{cpu}/topology/thread_siblings_list": f"{cpu % 4},{cpu % 4 + 4}" for cpu in range(8)},
    "proc/sys/kernel/randomize_va_space": "2",
    "proc/sys/kernel/random/boot_id": "the first boot",
    **{f"proc/irq/{number}/smp_affinity_list": cpus for number, cpus in enumerate(IRQS)},
}
# Of CPUs 0 to 3 (the others are siblings) 0 is the guest's, 3 the generator's, 2 the sink's: interrupts go to 1.
TUNED = {
    f"{CPU}/cpufreq/policy0/scaling_governor": "performance",
    f"{CPU}/cpufreq/policy10/scaling_governor": "performance",
    f"{CPU}/intel_pstate/no_turbo": "1",
    f"{CPU}/smt/control": "off",
    "proc/sys/kernel/randomize_va_space": "0",
    **{f"proc/irq/{number}/smp_affinity_list": "1" for number in range(len(IRQS))},
}


def roles(cpus: tuple[int, ...]) -> CpuRoles:
    pinning = choose_pinning(1, cpus)
    generator = () if pinning.generator_cpu is None else (pinning.generator_cpu,)
    return CpuRoles(frozenset((*pinning.guest_cpus, *generator)), pinning.sink_cpu)


@pytest.fixture
def host(tmp_path: Path) -> TunedHost:
    for name, text in FILES.items():
        file = tmp_path / "root" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n", encoding="utf-8")
    return TunedHost(tmp_path / "root", roles)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def contents(host: TunedHost) -> dict[str, str]:
    files = (file for file in host.root.rglob("*") if file.is_file())
    return {str(file.relative_to(host.root)): file.read_text(encoding="utf-8").strip() for file in files}


def put(host: TunedHost, name: str, text: str) -> None:
    (host.root / name).write_text(f"{text}\n", encoding="utf-8")


def notes(host: TunedHost, state: Path) -> dict[str, str]:
    return {row.setting: row.note for row in tune(host, state).rows}


def refusing(pattern: str) -> Callable[[Path, str], None]:
    """A kernel that does not let these files be written."""

    def write(file: Path, value: str) -> None:
        if file.match(pattern):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        write_value(file, value)

    return write


@pytest.mark.parametrize(("text", "cpus"), [("", ()), ("3", (3,)), ("0-2,5", (0, 1, 2, 5)), ("0-1,4-5", (0, 1, 4, 5))])
def test_lists_of_cpus_are_the_kernels(text: str, cpus: tuple[int, ...]) -> None:
    assert parse_cpus(text) == cpus
    assert format_cpus(cpus) == text


def test_tune_sets_what_reset_puts_back(host: TunedHost, state: Path) -> None:
    done = tune(host, state)
    assert contents(host) == FILES | TUNED
    table = {row.setting: (row.was, row.now) for row in done.rows}
    assert list(table) == list(SETTINGS)
    assert table["governor"] == ("powersave (1), schedutil (1)", "performance (2)")
    assert table["irq"] == ("0-7 (1), 0-3 (1), 2 (1), 7 (1)", "1 (4)")
    assert table["smt"] == ("on", "off")
    (note,) = {row.note for row in done.rows} - {""}
    assert_facts(note, "CPUs 4-7")
    record = present(in_force(state, host.root))
    assert record.settings == list(SETTINGS)

    order: list[Path] = []

    def noted(file: Path, value: str) -> None:
        order.append(file)
        write_value(file, value)

    back = reset(host, state, write=noted)
    assert contents(host) == FILES
    assert order[0] == host.root / f"{CPU}/smt/control"
    assert order[-1] == host.root / f"{CPU}/cpufreq/policy0/scaling_governor"
    assert {row.setting: (row.now, row.was) for row in back.rows}["turbo"] == ("0", "1")
    assert not state.exists()
    nothing = reset(host, state)
    assert (nothing.rows, len(nothing.remarks)) == ((), 1)


def test_a_second_tuning_keeps_the_first_originals(host: TunedHost, state: Path) -> None:
    tune(host, state, ["governor", "irq"])
    assert contents(host)["proc/sys/kernel/randomize_va_space"] == "2"
    first = present(in_force(state, host.root))
    again = tune(host, state)
    second = present(in_force(state, host.root))
    assert second.entries[: len(first.entries)] == first.entries
    assert second.since_realtime_ns == first.since_realtime_ns
    assert {row.setting: row.was for row in again.rows}["governor"] == "powersave (1), schedutil (1)"
    reset(host, state)
    assert contents(host) == FILES


def test_a_dry_run_changes_nothing(host: TunedHost, state: Path) -> None:
    would = tune(host, state, dry_run=True)
    assert contents(host) == FILES
    assert not state.exists()
    assert [(row.was, row.now) for row in tune(host, state).rows] == [(row.was, row.now) for row in would.rows]
    before = (state / "tuning.json").read_bytes()
    would = reset(host, state, dry_run=True)
    assert contents(host) == FILES | TUNED
    assert (state / "tuning.json").read_bytes() == before
    assert [(row.was, row.now) for row in reset(host, state).rows] == [(row.was, row.now) for row in would.rows]


def killed_at(moment: int, action: Callable[[], object]) -> bool:
    """Do it in a child that is killed as it opens, renames or removes its n-th file; whether it came so far."""
    child = os.fork()
    if child == 0:
        left = moment

        def hook(event: str, _arguments: object) -> None:
            nonlocal left
            if event in ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir"):
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        try:
            sys.addaudithook(hook)
            action()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or status == 0
    return os.WIFSIGNALED(status)


def test_a_tuning_that_is_killed_at_any_moment_is_undone(host: TunedHost, state: Path) -> None:
    seen = set()
    moment = 0
    while killed_at(moment, lambda: tune(host, state)):
        now = contents(host)
        seen.add(sum(now[name] == TUNED[name] for name in TUNED))
        reset(host, state)
        assert contents(host) == FILES, moment
        assert not state.exists() or not any(state.iterdir()), moment
        moment += 1
    assert seen == set(range(len(TUNED) + 1))


def test_a_reset_that_is_killed_at_any_moment_is_finished_by_the_next(host: TunedHost, state: Path) -> None:
    moment, halfway = 0, 0
    tune(host, state)
    while killed_at(moment, lambda: reset(host, state)):
        now = contents(host)
        halfway += now not in (FILES, FILES | TUNED)
        reset(host, state)
        assert contents(host) == FILES, moment
        tune(host, state)
        moment += 1
    assert halfway >= len(TUNED) - 1


def test_a_write_that_was_cut_short_is_undone(host: TunedHost, state: Path) -> None:
    """Killed between truncation and write: a tree of plain files shows an empty one, which no kernel does."""

    def die(file: Path, _value: str) -> None:
        file.write_text("", encoding="utf-8")
        os.kill(os.getpid(), signal.SIGKILL)

    assert killed_at(1_000_000, lambda: tune(host, state, write=die))
    assert contents(host) != FILES
    reset(host, state)
    assert contents(host) == FILES


def test_what_cannot_be_moved_is_counted_and_not_remembered(host: TunedHost, state: Path) -> None:
    done = tune(host, state, ["irq"], write=refusing("irq/[03]/*"))
    assert_facts(done.rows[0].note, "2 of 4", "Input/output error (2)")
    assert done.rows[0].now == "0-7 (1), 1 (2), 7 (1)"
    record = present(in_force(state, host.root))
    assert [entry.path for entry in record.entries] == [f"/proc/irq/{number}/smp_affinity_list" for number in (1, 2)]


def test_what_cannot_be_put_back_stays_remembered(host: TunedHost, state: Path) -> None:
    tune(host, state)
    done = reset(host, state, write=refusing("no_turbo"))
    assert done.kept == 1
    assert_facts({row.setting: row.note for row in done.rows}["turbo"], "1 of 1", "Input/output error (1)")
    assert contents(host) == FILES | {f"{CPU}/intel_pstate/no_turbo": "1"}
    record = present(in_force(state, host.root))
    assert record.settings == ["turbo"]
    assert reset(host, state).kept == 0
    assert contents(host) == FILES


def test_a_vanished_interrupt_needs_no_reset_and_a_vanished_cpu_does(host: TunedHost, state: Path) -> None:
    tune(host, state)
    (host.root / "proc/irq/2/smp_affinity_list").unlink()
    governor = host.root / f"{CPU}/cpufreq/policy10/scaling_governor"
    governor.unlink()
    done = reset(host, state)
    assert done.kept == 1
    table = {row.setting: row.note for row in done.rows}
    assert_facts(table["irq"], 1, "kernel")
    assert_facts(table["governor"], "1 of 2", "No such file")
    assert not governor.exists()


@pytest.mark.parametrize("action", [tune, reset])
def test_a_record_of_an_earlier_boot_is_void(
    host: TunedHost, state: Path, action: Callable[[TunedHost, Path], object]
) -> None:
    tune(host, state)
    for name, text in {**FILES, "proc/sys/kernel/random/boot_id": "the second boot"}.items():
        put(host, name, text)
    put(host, "proc/sys/kernel/randomize_va_space", "1")  # what this boot has, and no earlier one
    assert in_force(state, host.root) is None
    done = tune(host, state, ["turbo"]) if action is tune else reset(host, state)
    (remark,) = done.remarks
    assert_facts(remark, "boot", Command(", ".join(SETTINGS)))
    assert contents(host)["proc/sys/kernel/randomize_va_space"] == "1"
    record = in_force(state, host.root)
    assert (record.settings if record is not None else None) == (["turbo"] if action is tune else None)
    assert state.exists() == (action is tune)


def test_each_setting_that_a_kernel_lacks_has_its_reason(tmp_path: Path, state: Path) -> None:
    said = notes(TunedHost(tmp_path / "empty", roles), state)
    assert list(said) == list(SETTINGS)
    assert_facts(said["governor"], "cpufreq")
    assert_facts(said["turbo"], "intel_pstate/no_turbo", "cpufreq/boost")
    assert_facts(said["aslr"], "/proc/sys/kernel/randomize_va_space")
    assert_facts(said["irq"], "/proc/irq/*/smp_affinity_list")
    assert_facts(said["smt"], "kernel")
    assert not state.exists()


def test_amds_boost_is_switched_off_as_well(host: TunedHost, state: Path) -> None:
    (host.root / f"{CPU}/intel_pstate/no_turbo").unlink()
    put(host, f"{CPU}/cpufreq/boost", "1")
    tune(host, state, ["turbo"])
    assert contents(host)[f"{CPU}/cpufreq/boost"] == "0"


def test_interrupts_stay_where_guest_and_generator_have_all_cpus(host: TunedHost, state: Path) -> None:
    put(host, f"{CPU}/smt/control", "notsupported")
    put(host, f"{CPU}/online", "0-1")
    reasons = notes(host, state)
    assert_facts(reasons["irq"], "guest", "generator", "CPUs")
    assert_facts(reasons["smt"], "this machine")
    assert contents(host)["proc/irq/0/smp_affinity_list"] == IRQS[0]


def test_interrupts_that_are_away_already_stay(host: TunedHost, state: Path) -> None:
    """Without siblings CPUs 1 to 5 are free: 6 is the sink's, 7 the generator's."""
    for cpu in range(8):
        put(host, f"{CPU}/cpu{cpu}/topology/thread_siblings_list", str(cpu))
    (host.root / "proc/1").mkdir()
    put(host, "proc/1/comm", "irqbalance")
    reasons = notes(host, state)
    assert_facts(reasons["smt"], "CPU", "core")
    assert_facts(reasons["irq"], "irqbalance", Command("systemctl stop irqbalance"))
    files = contents(host)
    assert [files[f"proc/irq/{number}/smp_affinity_list"] for number in range(4)] == ["1-5", "1-5", "2", "1-5"]


def test_a_record_that_cannot_be_read_is_refused(host: TunedHost, state: Path) -> None:
    state.mkdir()
    (state / "tuning.json").write_text('{"boot_id": ', encoding="utf-8")
    for action in (tune, reset):
        with refused(state / "tuning.json", error=UsageError):
            action(host, state)
    assert contents(host) == FILES


def test_host_and_doctor_say_what_is_in_force(host: TunedHost, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As inside a lab, which is handed the record's text."""
    tune(host, state, ["turbo", "aslr"])
    monkeypatch.setenv(TUNED_VARIABLE, (state / "tuning.json").read_text(encoding="utf-8"))
    assert describe_host()["tuned"] == ["turbo", "aslr"]
    (check,) = (check for check in host_checks() if check.check == "tuning")
    assert check.found.startswith("turbo, aslr since 20")
    monkeypatch.setenv(TUNED_VARIABLE, "")
    assert describe_host()["tuned"] is None


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (["--tune", "--reset"], ("--tune", "--reset")),
        (["--dry-run"], ("--tune", "--reset")),
        (["governor"], ("'governor'", "--tune", "--reset")),
        (["--reset", "governor"], ("--reset",)),
        (["--tune", "governor,turbos"], ("'turbos'", *SETTINGS)),
    ],
)
def test_wrong_options_are_refused(arguments: list[str], facts: tuple[Fact, ...]) -> None:
    with refused(*facts, error=UsageError):
        CliRunner().invoke(app, ["doctor", *arguments], catch_exceptions=False)


@pytest.mark.parametrize("word", ["--tune", "--reset"])
def test_without_root_nothing_is_changed(word: str, tmp_path: Path) -> None:
    way = ["unshare", "--user", "--map-root-user", "--"]  # root of a user namespace is not the host's
    if os.geteuid() != 0:
        way = []
    finished = virtoll("doctor", word, way=way, changed={"VIRTOLL_STATE": str(tmp_path / "state")})
    assert_refused(finished, "root")
    assert not (tmp_path / "state").exists()


def test_the_command_shows_what_it_would_do(tmp_path: Path) -> None:
    runner = CliRunner(env={"VIRTOLL_STATE": str(tmp_path / "state")})
    would = runner.invoke(app, ["doctor", "--tune", "--dry-run", "--json"])
    assert would.exit_code == 0, would.output
    assert [row["setting"] for row in json.loads(would.stdout)["settings"]] == list(SETTINGS)
    nothing = runner.invoke(app, ["doctor", "--reset", "--dry-run"])
    assert (nothing.exit_code, len(nothing.stdout.splitlines())) == (0, 1)


def test_the_record_is_private_whatever_the_umask(host: TunedHost, state: Path) -> None:
    before = os.umask(0)
    try:
        tune(host, state)
    finally:
        os.umask(before)
    assert (state / "tuning.json").stat().st_mode & 0o777 == 0o644
    assert reset(host, state).kept == 0
    assert contents(host) == FILES


@pytest.mark.parametrize("name", [".", "tuning.json"])
def test_a_record_that_others_may_write_to_is_not_put_back(host: TunedHost, state: Path, name: str) -> None:
    """What it says would be written by root."""
    tune(host, state)
    tuned = contents(host)
    (state / name).chmod(0o777)
    with refused("0777", Command("virtoll doctor --reset"), error=NotPrivate):
        reset(host, state)
    assert contents(host) == tuned


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "/proc/sys/kernel/../../../etc/passwd", f"{CPU}/cpufreq/policy0/scaling_governor/../x", ""]
)
def test_a_record_names_only_places_of_its_settings(host: TunedHost, state: Path, path: str) -> None:
    tune(host, state)
    record = json.loads((state / "tuning.json").read_text(encoding="utf-8"))
    record["entries"][0]["path"] = path
    (state / "tuning.json").write_text(json.dumps(record), encoding="utf-8")
    tuned = contents(host)
    with refused(state / "tuning.json", repr(path), error=UsageError):
        reset(host, state)
    assert contents(host) == tuned
