"""An anonymous archive holds none of somebody's names, and every number of the run."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import typer.testing
from tests.support.commands import in_process, output_of
from tests.support.facts import Fact, assert_facts, assert_refused
from tests.support.pack_archives import files_of, plain
from tests.support.told_names import LABEL, NAMES, write_telling_run

from virtoll.api.folders import find_run
from virtoll.claims import then_and_now
from virtoll.cli import app
from virtoll.report.build import ledger_of, load_analysis
from virtoll.report.page import render_page
from virtoll.report.report_input import ReportInput
from virtoll.report.tables import csv_tables
from virtoll.runfolder.overview import overview
from virtoll.runfolder.stand_ins import LEAST_LETTERS, StandIns, parts_of_host, usable
from virtoll.runfolder.store import RunFolder
from virtoll.runfolder.sums import EXPLANATIONS, differences, unchecked
from virtoll.stats.ratios import Ratios

STAND_INS = StandIns(b"k" * 32, {"buildbox7": "host", "buildbox7.corp.example": "host", "joedoe": "user"}, ("acme",))
STAND_IN = re.compile(r"(?:host|user|login|path|nic|name|address|message|cmdline|pci|secret|network|id)-[0-9a-f]{8}")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An own cache, runs folder, key and current folder."""
    monkeypatch.chdir(tmp_path)
    for variable in ("VIRTOLL_CACHE", "VIRTOLL_RUNS", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    return tmp_path


@pytest.fixture(scope="module")
def telling(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with somebody's names in it."""
    return write_telling_run(tmp_path_factory.mktemp("telling") / "joedoe-on-buildbox7")


def packed(*words: str | Path, output: str = "shared.zst") -> Path:
    """An anonymous archive."""
    output_of("pack", *words, "--anonymous", "--output", output)
    return Path(output).absolute()


def names_in(folder: Path) -> set[str]:
    """The names that stand in a folder's files or their paths."""
    held = b"".join(path.as_posix().encode() + path.read_bytes() for path in folder.rglob("*") if path.is_file())
    return {name for name in NAMES if name.lower().encode() in held.lower()}


def test_no_name_is_in_any_byte(telling: Path) -> None:
    assert names_in(telling) == set(NAMES)
    content = plain(packed(telling)).lower()
    assert [name for name in NAMES if name.lower().encode() in content] == []
    assert b"how fast is host-" in content


def test_a_word_that_is_hidden_is_in_no_byte(telling: Path) -> None:
    assert b"made-up" in b"".join(files_of(packed(telling, output="shown.zst")).values())
    hidden = plain(packed(telling, "--hide", "made-UP", "--hide", "How fast"))
    assert b"made-up" not in hidden
    assert b"How fast" not in hidden


def test_an_archive_records_that_it_is_anonymous_and_what_was_left_out(telling: Path) -> None:
    given = ["pack", str(telling), "--anonymous", "--output", "shared.zst"]
    found = typer.testing.CliRunner().invoke(app, given, catch_exceptions=False)
    assert_facts(found.stderr, "evidence/ssh-joedoe/console.txt", "notes of joedoe.txt")
    files = files_of(Path("shared.zst"))
    listed = json.loads(files["virtoll-pack.json"])
    manifest = json.loads(files[f"{listed['run']}/manifest.json"])
    assert listed["anonymised"] == manifest["anonymised"]["virtoll"]
    assert re.fullmatch(r"user-[0-9a-f]{8}-on-host-[0-9a-f]{8}", listed["run"])
    folder = find_run("shared.zst")
    assert (differences(folder), unchecked(folder)) == ((), ())
    assert overview(folder).state == "complete"


def tables(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Every table of a run's report."""
    analysis = load_analysis(folder)
    ratios = Ratios(analysis)
    made = csv_tables(ReportInput(analysis, ledger_of(analysis, (), ratios), then_and_now(analysis, ratios)))
    return {one.name: one.records() for one in made}


def test_every_number_of_the_report_is_the_same(telling: Path) -> None:
    one, other = tables(telling), tables(find_run(str(packed(telling))))
    assert one.keys() == other.keys() >= {"cells", "comparisons", "commands"}
    cells = 0
    for name in one:
        assert len(one[name]) == len(other[name]), name
        for row, again in zip(one[name], other[name], strict=True):
            for (key, value), (other_key, other_value) in zip(row.items(), again.items(), strict=True):
                assert key == other_key or STAND_IN.search(other_key), name
                same = value == other_value or name == "commands"
                assert same or (isinstance(value, str) and STAND_IN.search(str(other_value))), (name, key, value)
                cells += isinstance(value, int | float)
    assert cells > 500
    assert {row["platform"] for row in one["comparisons"]} > {LABEL}


def test_the_run_stays_what_it_was(telling: Path) -> None:
    run, copy = RunFolder.open(telling), RunFolder.open(find_run(str(packed(telling))))
    labels = {
        one.label: again.label for one, again in zip(run.manifest.platforms, copy.manifest.platforms, strict=True)
    }
    assert {one for one in labels if labels[one] == one} == {"native", "native-again", "runc"}
    assert [labels[one.platform] for one in run.trials()] == [one.platform for one in copy.trials()]
    assert [one.clock for one in run.trials()] == [one.clock for one in copy.trials()]
    assert [one.points for one in run.trials()] == [one.points for one in copy.trials()]
    for one in copy.boots():
        assert one.facts is not None
        assert (one.facts.boot_id, one.evidence) == (one.host_boot_id, ())
        assert str(one.facts.cmdline).startswith("cmdline-")
    messages = copy.fitness()[-1].kernel_messages
    assert messages[-1] == "b1in0: port 1(l1in0) entered forwarding state"
    assert re.fullmatch(r"nic-\w+: renamed from eth0", messages[-2])
    assert {one.argv for one in copy.commands()} == {("ssh", "...")}
    assert copy.manifest.command[:4] == ("virtoll", "run", "experiment.yaml", "--into")
    assert copy.explanations.boots() == copy.boots()
    assert copy.manifest.host["packages"] == run.manifest.host["packages"]
    assert "blocks" in copy.manifest.experiment
    assert (find_run("shared.zst") / EXPLANATIONS / "SHA256SUMS").exists()


def test_the_page_says_that_names_are_stand_ins(telling: Path) -> None:
    for folder, anonymous in ((telling, False), (find_run(str(packed(telling))), True)):
        analysis = load_analysis(folder)
        source = ReportInput(analysis, ledger_of(analysis), then_and_now(analysis, Ratios(analysis)))
        page = render_page(source, {})
        assert ("stand-ins" in page) is anonymous
        assert bool([name for name in NAMES if name in page]) is not anonymous


def fingerprint(archive: Path) -> str:
    found: str = RunFolder.open(find_run(str(archive))).manifest.host["fingerprint"]
    return found


def test_one_key_gives_a_host_one_stand_in_and_another_another(telling: Path, place: Path) -> None:
    one, again = packed(telling), packed(telling, output="again.zst")
    assert one.read_bytes() == again.read_bytes()
    key = place / "XDG_CONFIG_HOME" / "virtoll" / "pack.key"
    assert key.stat().st_mode & 0o777 == 0o600
    (place / "other.key").write_text("another secret of somebody else's\n")
    other = packed(telling, "--key", "other.key", output="other.zst")
    found = fingerprint(one)
    assert re.fullmatch("[0-9a-f]{64}", found)
    assert len({found, fingerprint(other), "ab" * 32}) == 3
    assert key.read_bytes().strip() not in plain(one)


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        (["--hide", "superpi"], ("--hide", "superpi", "workload")),
        (["--hide", "x"], ("--hide", "x", LEAST_LETTERS)),
        (["--hide", "complete"], ("--hide", "complete", "--anonymous")),
        (["--key", "none"], ("--key", "none")),
        (["--key", "short"], ("short",)),
    ],
)
def test_a_word_or_key_that_cannot_be_used_is_refused(
    words: list[str], facts: tuple[Fact, ...], telling: Path, place: Path
) -> None:
    (place / "short").write_text("abc")
    command: list[str | Path] = ["pack", telling, *words, "--anonymous", "--output", "shared.zst"]
    assert_refused(in_process(*command), *facts)
    assert not (place / "shared.zst").exists()
    assert [one.name for one in place.iterdir() if one.name.startswith(".")] == []


@pytest.mark.parametrize(
    "text",
    [
        *("127.0.0.1", "198.18.0.1 to 198.18.0.2", "192.0.2.7", "255.255.255.0", "2001:2:0:501::1", "::1", "::"),
        *("02:76:74:01:04:00", "00:00:00:00:00:00", "12:30:45", "1:7.2+dfsg-7+deb12u18+b3", "sha256:ab12", "8:0"),
        *("/usr/bin/qemu-system-x86_64", "/proc/29889/ns/net", "/dev/vda", "frames/s", "netns/0/2", "and/or", "."),
        *("http://deb.debian.org/debian/pool/l.deb", "qemu:///embed", "#1 SMP PREEMPT_DYNAMIC @0", "eth0", "g2in0"),
        *("generator", "virtio-net", "QEMU 7.2.22", "6.18.44-fc-v657", "enabled", "enters", "loss<0.1%", ""),
        *("superpi", "not joedoes", "forward 64B slowdown<1.5x", "1.1.5+ds1-1+deb12u1"),
    ],
)
def test_what_tells_nobody_stays(text: str) -> None:
    assert STAND_INS.text(text) == text


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("buildbox7", r"host-\w{8}"),
        ("on BuildBox7.corp.example.", r"on host-\w{8}\."),
        ("joedoe_1", r"user-\w{8}_1"),
        ("acmeware", r"name-\w{8}ware"),
        ("10.20.30.40:22", r"address-\w{8}:22"),
        ("[fe80::1%3]", r"\[address-\w{8}%3\]"),
        ("::ffff:10.1.2.3", r"::ffff:address-\w{8}"),
        ("mac 52-54-00-12-34-56", r"mac 02(:\w\w){5}"),
        ("joe@box.lan", r"login-\w{8}"),
        ("/home/joe/x: No such file", r"/path-\w{8}: No such file"),
        ("(/srv/data/)", r"\(/path-\w{8}\)"),
        ("file=~/x.yaml", r"file=/path-\w{8}"),
        ("/dev/disk/by-id/wwn-1", r"/path-\w{8}"),
        ("/sys/bus/pci/devices/0000:5e:00.1/net", r"/path-\w{8}"),
        ("0000:5e:00.1", r"pci-\w{8}"),
        ("enp94s0f1np1", r"nic-\w{8}"),
        ("enx525400123456", r"nic-\w{8}"),
        ("https://mirror.corp/x.deb", r"https://host-\w{8}/path-\w{8}"),
        ("at http://mirror.corp/", r"at http://host-\w{8}/"),
        ("file:///home/joe/x", r"file:///path-\w{8}"),
        ("qemu+ssh://joe@box/system", r"qemu\+ssh://host-\w{8}/path-\w{8}"),
        ("qemu:///embed?root=/home/joe", r"qemu:///embed\?root=/path-\w{8}"),
        ("1b4e28ba-2fa1-11d2-883f-0016d3cca427", r"\w{8}(-\w{4}){3}-\w{12}"),
    ],
)
def test_what_tells_somebody_has_a_stand_in(text: str, shape: str) -> None:
    found = STAND_INS.text(text)
    assert re.fullmatch(shape, found), found
    assert found != text
    assert STAND_INS.text(f"{text} {text}") == f"{found} {found}"
    assert StandIns(b"another key", STAND_INS.names, STAND_INS.hidden).text(text) != found


def test_a_name_of_a_field_stays_and_one_of_a_nic_does_not(telling: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(telling, tmp_path / "copy"))
    (copy / "SHA256SUMS").unlink()
    manifest = json.loads((copy / "manifest.json").read_bytes())
    manifest["host"] |= {"nics": {"enp3s0f1": 1, "10.1.2.3": 2, "joedoe at": 3}}
    (copy / "manifest.json").write_text(json.dumps(manifest))
    files = files_of(packed(copy))
    (found,) = (json.loads(data)["host"]["nics"] for name, data in files.items() if name.endswith("manifest.json"))
    assert [re.sub(r"\w{8}( |$)", r"\1", key) for key in found] == ["nic-", "address-", "user- at"]


def test_what_of_a_host_is_looked_for() -> None:
    assert parts_of_host("ssh joedoe@box.corp.example:22") == {
        "box.corp.example": "host",
        "box": "host",
        "joedoe": "user",
    }
    assert parts_of_host("root@10.1.2.3") == {}
    assert parts_of_host("sink") == {}
    assert not usable("localhost")
    assert not usable("7")


def test_hosts_and_nodes_of_a_merged_run_have_stand_ins_too(telling: Path, place: Path) -> None:
    run = shutil.copytree(telling, place / "merged")
    (run / "SHA256SUMS").unlink(missing_ok=True)
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    host = {**manifest["host"], "fingerprint": "a1" * 32, "hostname_hash": "b2" * 8}
    part = {"run": "block-1", "host": "host-1", "blocks": [0], "created_realtime_ns": 1}
    manifest["host"] = host
    manifest["hosts"] = [{"name": "host-1", "host": host, "blocks": [0]}]
    manifest["merged"] = {"campaign": "c" * 64, "parts": [{**part, "nodes": {"generator": "ssh rack9-wiredbox"}}]}
    (run / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    files = files_of(packed(run))
    whole = b"".join(files.values())
    assert [one for one in (b"a1" * 32, b"b2" * 8, b"rack9-wiredbox") if one in whole] == []
    own = next(json.loads(content) for name, content in files.items() if name.endswith("/manifest.json"))
    assert own["hosts"][0]["host"] == own["host"], "it is still one host"
    assert own["merged"]["parts"][0]["nodes"]["generator"].startswith("ssh host-")
