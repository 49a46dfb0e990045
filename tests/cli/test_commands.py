"""The command line as a person or a program uses it: lists, plans, reports, diagnosis, a shell, and exit codes."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.support import experiments, machine
from tests.support.commands import in_process, virtoll
from tests.support.experiments import fake
from tests.support.facts import assert_facts, assert_refused
from tests.support.playground import Playground, playground

from virtoll import __version__
from virtoll.cli.doctor import kernel_check
from virtoll.experiment.parse import presets
from virtoll.platforms import PLATFORMS
from virtoll.report.figures import FIGURES, SERIES
from virtoll.workloads import WORKLOADS

PRESETS = ["camargos2008", "mattos2012", "schlosser2011", "suresh2014"]
EXPERIMENTS = sorted(path.stem for path in presets().glob("*.yaml"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A runs folder with one run of models, made by the command line."""
    folder = tmp_path_factory.mktemp("cli")
    file = experiments.write(
        folder,
        platforms=[fake("model"), fake("model-again", seed=2), fake("slow", cost=1.5, seed=3)],
        baseline="model",
        control="model-again",
        blocks=4,
    )
    finished = in_process("run", file, runs=folder / "runs")
    assert finished.returncode == 0, finished.stderr
    return folder / "runs"


@pytest.fixture
def place() -> Iterator[Playground]:
    with playground(root=True) as made:
        yield made


def as_json(*arguments: str, runs: Path | None = None) -> Any:
    finished = in_process(*arguments, "--json", runs=runs)
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


@cache
def planned(preset: str, size: str) -> Any:
    """The plan of a paper's preset in one of its sizes."""
    return as_json("plan", preset, "--size", size)


@pytest.mark.parametrize(
    ("what", "names"),
    [
        ("platforms", list(PLATFORMS)),
        ("workloads", list(WORKLOADS)),
        ("figures", [*FIGURES, *SERIES]),
        ("experiments", EXPERIMENTS),
    ],
)
def test_lists_for_people_and_for_programs(what: str, names: list[str]) -> None:
    rows = as_json("list", what)
    assert [row["name"] for row in rows] == names
    assert all(len(row) > 1 and all(value not in (None, "") for value in row.values()) for row in rows)
    assert_facts(in_process("list", what).stdout, *names)


def test_every_platform_says_what_shows_that_its_driver_works() -> None:
    rows = {row["name"]: row["validation"].partition(":")[0] for row in as_json("list", "platforms")}
    assert {rows[name] for name in ("firecracker", "cloud-hypervisor", "openvz", "vserver")} == {"mock"}
    assert (rows["kqemu"], rows["runc"], rows["xen"]) == ("record only", "real", "nested")


def test_a_record_of_a_platform_is_refused_in_an_experiment(tmp_path: Path) -> None:
    file = tmp_path / "past.yaml"
    file.write_text("name: past\nquestion: q\nplatforms: [native, kqemu]\nworkloads: [superpi]\n")
    assert_refused(in_process("plan", file), "'platforms[1].platform'", "kqemu", "qemu-kvm")


def test_the_parameters_of_a_platform_are_listed_with_what_is_allowed() -> None:
    rows = {row["name"]: row for row in as_json("list", "platforms")}
    nic = rows["qemu-tcg"]["parameters"]["nic"]
    assert_facts(nic, "'virtio-net'", "'e1000'", "'rtl8139'", "'vmxnet3'", "default virtio-net")


def test_runs_are_listed_with_their_state(runs: Path, tmp_path: Path) -> None:
    (row,) = as_json("list", "runs", runs=runs)
    assert (row["experiment"], row["state"], row["trials"]) == ("example", "complete", "12 of 12")
    assert as_json("list", "runs", runs=tmp_path) == []
    assert in_process("list", "runs", runs=tmp_path).stdout == "none\n"
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "manifest.json").write_text("{")
    (row,) = as_json("list", "runs", runs=tmp_path)
    assert row["run"] == "damaged"
    assert "damaged" in row["state"]


def test_a_plan_is_printed_and_nothing_is_started(tmp_path: Path) -> None:
    document = as_json("plan", "quick", runs=tmp_path / "runs")
    assert document["experiment"] == "quick"
    assert [trial["trial"] for trial in document["trials"]] == list(range(len(document["trials"])))
    assert 0 < document["estimated_seconds"] <= 420
    finished = in_process("plan", "quick", "--trials", runs=tmp_path / "runs")
    lines = finished.stdout.splitlines()
    assert len(lines) == len(document["trials"]) + 3
    assert_facts(lines[-3], f"{len(document['trials'])} trials", "5 randomised blocks", "3 rounds", "seed 20080407")
    assert_facts(lines[-2], "disk", "tiny")
    platforms = len({trial["platform"] for trial in document["trials"]})
    assert_facts(lines[-1], "memory", f"{platforms} guests", "256 MiB")
    assert document["memory"] == {"guests": platforms, "guests_bytes": platforms * 256 * 2**20}
    assert not (tmp_path / "runs").exists()
    reported = [line.split(maxsplit=1)[1] for line in lines[:-3]]
    alike = Counter(reported)
    assert {line.split()[4] for line, times in alike.items() if times > 1} == {"native"}, "the host, in its own round"
    assert set(alike.values()) == {1, 2}
    assert any("forkwait processes=400" in line for line in reported)


def test_a_plan_is_a_table_with_what_the_result_would_lack(tmp_path: Path) -> None:
    left_out = ("--skip", "qemu-tcg-virtio-net:superpi")
    shown = in_process("plan", "quick", *left_out, changed={"COLUMNS": "80"}).stdout.splitlines()
    head = next(line for line in shown if line.startswith("trials, time"))
    assert head.split()[2:] == ["forward", "superpi", "masr", "forkwait"]
    assert re.search(r"^qemu-tcg-virtio-net +\d+, \d+ s +- ", "\n".join(shown), re.MULTILINE)
    assert max(map(len, shown[1:-2])) <= 80
    file = experiments.write(
        tmp_path,
        platforms=["native", {"platform": "runc", "label": "c"}],
        guest={"memory": "900TiB", "vcpus": 1024},
        blocks=1,
    )
    asked = as_json("plan", str(file))
    assert asked["version"] == 1
    printed = in_process("plan", file).stdout.splitlines()
    assert [line.removeprefix("warning: ") for line in printed[-4:]] == asked["warnings"]
    for warning, fact in zip(
        asked["warnings"], ("A/A control", "1 block", "1800 TiB", "1024 virtual CPUs"), strict=True
    ):
        assert_facts(warning, fact)
    alone = experiments.write(
        tmp_path,
        platforms=[{"platform": "ssh", "label": label, "destination": label} for label in ("own", "other")],
        baseline="own",
        workloads=["superpi"],
    )
    (warning,) = (line for line in as_json("plan", str(alone))["warnings"] if "A/A control" in line)
    assert_facts(warning, "'platforms'", "'control'", "second guest")
    assert "1 trials" not in in_process("plan", "models").stdout


@pytest.mark.parametrize("preset", PRESETS)
def test_each_paper_has_a_quick_size_and_its_own(preset: str) -> None:
    quick, paper = planned(preset, "quick"), planned(preset, "paper")
    assert (quick["size"], paper["size"]) == ("quick", "paper")
    assert 0 < quick["estimated_seconds"] < paper["estimated_seconds"]
    labels = {trial["platform"] for trial in quick["trials"]}
    assert labels >= {"native", "native-again"}
    for product in ("runc", "qemu-tcg"):
        assert any(label.startswith(product) for label in labels)
    repetitions = {"camargos2008": 4, "mattos2012": 9, "schlosser2011": 9, "suresh2014": 20}
    assert 1 + max(trial["block"] for trial in paper["trials"]) == repetitions[preset]
    skipped = [trial for trial in quick["trials"] if trial["skipped"] is not None]
    # The host has no second guest to send to.
    assert {(trial["workload"], trial["parameters"]["between"]) for trial in skipped} <= {("tcp-stream", "guests")}


def test_each_source_of_schlosser_has_an_egress_as_in_the_paper() -> None:
    trials = planned("schlosser2011", "paper")["trials"]
    several = [one["parameters"] for one in trials if one["workload"] == "forward" and one["parameters"]["sources"] > 1]
    assert {one["sources"] for one in several} == {2, 3}
    assert {one["egress"] for one in several} == {"each"}


@pytest.mark.network
def test_images_are_listed_and_shown() -> None:
    assert in_process("image", "build", "tiny").returncode == 0
    rows = {row["image"]: row for row in as_json("image", "list")}
    assert list(rows) == ["tiny", "debug", "full", "full-non-free"]
    assert rows["tiny"]["built"]
    assert rows["tiny"]["bytes"] > 1_000_000
    shown = as_json("image", "show", "tiny")
    assert shown["digest"] == rows["tiny"]["digest"]
    assert set(shown["forms"]) >= {"folder", "initramfs", "initramfs-disk"}
    assert shown["tools"] is None
    assert shown["digest"] in in_process("image", "show", "tiny").stdout


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (["image", "show", "huge"], ("'huge'", "tiny", "debug", "full", "full-non-free")),
        (["image", "build", "tiny", "--form", "zip"], ("'zip'", "ext4", "erofs", "oci", "tar")),
    ],
)
def test_an_unknown_image_or_form_is_refused_with_the_known_ones(arguments: list[str], facts: tuple[str, ...]) -> None:
    finished = in_process(*arguments)
    assert_refused(finished, *facts)
    assert finished.stdout == ""


def test_versions_agree() -> None:
    finished = virtoll("--version")
    assert (finished.returncode, finished.stdout) == (0, f"virtoll {__version__}\n")


@pytest.mark.parametrize("command", ["resume", "report"])
@pytest.mark.parametrize("run", ["latest", "20260101T000000Z-no-0000"])
def test_an_unknown_run_exits_with_2(tmp_path: Path, command: str, run: str) -> None:
    assert_refused(in_process(command, run, runs=tmp_path), f"'{run}'", tmp_path, "virtoll list runs")


def test_a_folder_that_holds_a_run_is_not_written_over(runs: Path, tmp_path: Path) -> None:
    (path,) = runs.iterdir()
    before = (path / "trials.jsonl").read_bytes()
    assert_refused(in_process("run", "models", "--into", path, runs=tmp_path), path)
    assert (path / "trials.jsonl").read_bytes() == before


def test_a_report_is_made_anew_from_a_run(runs: Path) -> None:
    (path,) = runs.iterdir()
    document = as_json("report", "latest", runs=runs)
    assert (document["schema"], document["version"]) == ("virtoll-report", 1)
    assert document["run"]["folder"] == str(path)
    assert Path(document["run"]["page"]) == path / "report" / "index.html"
    assert Path(document["run"]["page"]).is_file()
    (answer,) = document["answer"]
    shares = {one["platform"]: one["share"] for one in answer["placed"]}
    assert shares["slow"] == pytest.approx(1 / 1.5, rel=0.05)
    assert f"{path}/report/index.html" in in_process("report", path).stdout


def test_a_plan_says_which_difference_an_earlier_run_lets_it_show(runs: Path, tmp_path: Path) -> None:
    """From the noise of the newest complete run of that experiment on this host; more blocks show smaller ones."""
    asked = {"platforms": [fake("model"), fake("slow", cost=1.5)], "baseline": "model"}
    few, many = tmp_path / "few.yaml", tmp_path / "many.yaml"
    for path, blocks in ((few, 3), (many, 12)):
        path.write_text(experiments.text(**asked, blocks=blocks))
    for name, changed in (("one", {"blocks": 1}), ("paper", {"order": "paper"})):
        other = tmp_path / f"{name}.yaml"
        other.write_text(experiments.text(**asked | changed))
        assert as_json("plan", str(other), runs=runs)["foreseen"] is None, name
    (run,) = (path.name for path in runs.iterdir())
    said = as_json("plan", str(few), runs=runs)["foreseen"]
    more = as_json("plan", str(many), runs=runs)["foreseen"]
    assert (said["run"], said["blocks"], more["blocks"]) == (run, 3, 12)
    assert list(said["factors"]) == ["Super Pi 16384 digits"]
    assert 1 < more["factors"]["Super Pi 16384 digits"] < said["factors"]["Super Pi 16384 digits"]
    (line,) = (one for one in in_process("plan", few, runs=runs).stdout.splitlines() if run in one)
    assert_facts(line, "3 blocks", "8 of 10 runs", "Super Pi 16384 digits")
    assert as_json("plan", str(few), runs=tmp_path / "none")["foreseen"] is None
    assert as_json("plan", "quick", runs=runs)["foreseen"] is None, "a run of another experiment says nothing of it"


def test_plain_lines_where_there_is_no_terminal(tmp_path: Path) -> None:
    file = experiments.write(tmp_path, platforms=[fake("model"), fake("other")], baseline="model", blocks=2)
    finished = in_process("run", file, runs=tmp_path / "runs")
    assert "\x1b" not in finished.stdout
    lines = finished.stdout.splitlines()
    assert lines[0] == "example: Is it so?"
    trials = [line for line in lines if re.match(r"\d/4 ", line)]
    assert [line.split()[0] for line in trials] == ["1/4", "2/4", "3/4", "4/4"]
    for line in trials:
        assert_facts(line, "Super Pi 16384 digits", "round 1")
        assert re.search(r"\b(model|other)\b.* [\d.]+ ms\b", line)
    shown = in_process("validation", "latest", runs=tmp_path / "runs")
    rows = [line.split(" | ") for line in shown.stdout.splitlines()]
    assert [(row[0], row[1]) for row in rows[2:]] == [("| model (model 1)", "model"), ("| other (model 1)", "model")]
    assert [row[4] for row in rows[2:]] == ["2 of 2", "2 of 2"]
    refused = in_process("validation", "latest", "--tests", tmp_path / "none.xml", runs=tmp_path / "runs")
    assert_refused(refused, tmp_path / "none.xml")


@pytest.mark.root
def test_a_live_display_on_a_terminal(place: Playground) -> None:
    file = place.base / "example.yaml"
    file.write_text(experiments.text(platforms=[fake("model"), fake("other")], baseline="model", blocks=2))
    with place.start("run", file, terminal=True) as running:
        assert running.end() == 0, running.said
    assert "\x1b[" in running.said
    assert "4/4" in running.said
    assert "report: " in running.said


def test_what_a_killed_run_left_is_cleaned_once(tmp_path: Path) -> None:
    left = tmp_path / "labs" / f"virtoll-{os.urandom(6).hex()}"
    for folder in (left.parent, left):
        folder.mkdir(mode=0o700)
    (left / "lock").touch(mode=0o600)
    changed = {"VIRTOLL_STATE": str(tmp_path), "VIRTOLL_CACHE": str(tmp_path / "cache")}
    first, second = (in_process("clean", changed=changed) for _ in range(2))
    assert (first.returncode, second.returncode, left.exists()) == (0, 0, False)
    assert_facts(first.stdout, left)
    assert str(left) not in second.stdout


@pytest.mark.lab
@pytest.mark.root
@pytest.mark.timeout(1200)
def test_a_shell_takes_commands_and_gives_its_status() -> None:
    """In a machine, with a parameter; `test_a_shell_on_a_terminal` has one in namespaces."""
    finished = virtoll("shell", "uml:transport=tap", stdin=b"echo $((20+3)) apples; ls /proc/1/exe\nexit 7\n")
    assert finished.returncode == 7, finished.stderr
    assert "23 apples" in finished.stdout


@pytest.mark.parametrize(
    ("platform", "facts"),
    [("nativ", ("'nativ'", "native", "runc")), ("qemu-tcg:nic=ne2k", ("nic", "'rtl8139'", "'vmxnet3'"))],
)
def test_a_shell_in_an_unknown_platform_exits_with_2(platform: str, facts: tuple[str, ...]) -> None:
    assert_refused(in_process("shell", platform), *facts)


@pytest.mark.lab
@pytest.mark.root
def test_a_shell_on_a_terminal(place: Playground) -> None:
    with place.start("shell", "netns", terminal=True) as running:
        running.wait_for("/ # ")
        seen = machine.family(running.process.pid)
        os.write(running.output, b"echo $((20+3)) plums\r")
        running.wait_for("23 plums")
        os.write(running.output, b"exit 3\r")
        assert running.end() == 3
        place.check_clean(seen, running.token)


@pytest.mark.parametrize("command", ["in-lab-run", "in-lab-resume", "in-lab-shell"])
def test_what_belongs_into_a_lab_is_refused_outside(tmp_path: Path, command: str) -> None:
    """Even where the environment claims a lab: guests made here would be on the host's own network."""
    arguments = {
        "in-lab-run": ["quick", str(tmp_path / "run"), "{}"],
        "in-lab-resume": ["x"],
        "in-lab-shell": ["netns"],
    }
    finished = in_process(command, *arguments[command], changed={"VIRTOLL_LAB": "virtoll-0123456789ab"})
    assert_refused(finished, "lab")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("release", "good"),
    [
        ("4.19.0-27-amd64", False),
        ("5.9.16", False),
        ("5.10.0-30-amd64", True),
        ("6.1", True),
        ("6.18.44-fc-v657", True),
    ],
)
def test_a_kernel_from_5_10_on_is_good_enough(release: str, good: bool) -> None:
    check = kernel_check(release)
    assert (check.good, check.remedy == "") == (good, good)
    assert_facts(check.remedy, *([] if good else ["Linux 5.10"]))
