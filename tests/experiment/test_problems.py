"""All that is wrong with an experiment's file at once: each with its line and a caret, and with what was meant."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support import experiments
from tests.support.facts import Command, Fact, assert_facts

from virtoll.cli.problems import told
from virtoll.errors import UsageError
from virtoll.experiment.describe import allowed_values
from virtoll.experiment.file import ExperimentFile
from virtoll.experiment.near import near
from virtoll.experiment.parse import parse_experiment
from virtoll.pipeline.preview import catalogue
from virtoll.platforms import EVERY_PLATFORM
from virtoll.workloads import WORKLOADS

FILE = Path("my.yaml")


def refusal(text: str) -> UsageError:
    """The error that refuses a file's text."""
    with pytest.raises(UsageError) as raised:
        parse_experiment(text, FILE, catalogue())
    return raised.value


def printed(text: str) -> list[str]:
    """The same as the command line prints it."""
    return list(told(refusal(text)))


def test_every_mistake_of_a_first_file_is_printed_at_once() -> None:
    text = (
        "name: My DB test\n"
        "platforms: [native, kvm, {platform: qemu-tcg, nic: virtio}]\n"
        "workload: [superpi]\n"
        "guest: {cpus: 2}\n"
    )
    lines = printed(text)
    expected: list[tuple[Fact, ...]] = [
        ("my.yaml:1:1:", "'question'"),
        ("my.yaml:1:7:", "'name'", "'My DB test'", 63),
        ("my.yaml:2:21:", "platforms[1].platform", "'kvm'", "'qemu-kvm'", Command("virtoll list platforms")),
        ("my.yaml:2:52:", "platforms[2].nic", "'virtio'", "'virtio-net'", "'e1000'", "'rtl8139'", "'vmxnet3'"),
        ("my.yaml:3:1:", "'workload'", "'workloads'", *ExperimentFile.model_fields),
        ("my.yaml:4:9:", "guest.cpus", "'vcpus'", "memory", "marks", "cpu_quota", "image"),
        (6, "my.yaml"),
    ]
    messages = [line for line in lines if not line.startswith(" ")]
    for message, facts in zip(messages, expected, strict=True):
        assert_facts(message, *facts)
    assert [line for line in lines if line.startswith(" ")] == [
        "   1 | name: My DB test",
        "     |       ^^^^^^^^^^",
        "   2 | platforms: [native, kvm, {platform: qemu-tcg, nic: virtio}]",
        "     |                     ^^^",
        "   2 | platforms: [native, kvm, {platform: qemu-tcg, nic: virtio}]",
        "     |                                                    ^^^^^^",
        "   3 | workload: [superpi]",
        "     | ^^^^^^^^",
        "   4 | guest: {cpus: 2}",
        "     |         ^^^^",
    ]


def test_an_entry_that_has_its_name_as_the_key_is_shown_how_to_write_it() -> None:
    text = 'name: a\nquestion: "?"\nplatforms: [native, runc]\nworkloads:\n  - superpi: {digits: 4096}\n'
    assert_facts(printed(text)[0], "my.yaml:5:5:", "'workloads[0]'", "workload: superpi")


@pytest.mark.parametrize(
    ("changed", "facts"),
    [
        ({"platforms": ["docker", "qemu-kvm"]}, ("'baseline'", "native", "native-again", "'platforms'")),
        ({"workloads": ["mysql"]}, ("'mysql'", "'mariadb-oltp'")),
        ({"workloads": [{"workload": "povray", "thread": 2}]}, ("'threads'", "pixels")),
        ({"guest": {"mem": "1GiB"}}, ("guest.mem", "'memory'")),
        ({"baseline": "netn"}, ("'netn'", "'netns'", "native")),
        ({"study": "mattos"}, ("'mattos'", "'mattos2012'")),
        ({"summary": "mean-t59"}, ("'mean-t59'", "did you mean 'mean-t95'?")),
        ({"skip": ["netn:*"]}, ("'netn:*'", "'netns'", "native", "superpi")),
        (
            {"workloads": ["superpi", "masr", {"workload": "superpi", "digits": [16384]}]},
            ("workloads[2]", "workloads[0]", "superpi", "digits 16384"),
        ),
    ],
)
def test_what_was_probably_meant_is_named(changed: dict[str, Any], facts: tuple[str, ...]) -> None:
    (problem,) = refusal(experiments.text(**changed)).problems
    assert_facts(problem.said, *facts)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("blocks: {least: 3}", [("blocks.until",)]),
        ("blocks: {untl: decided}\nname: Yes", [("blocks.untl", "'until'"), ("'name'", "'Yes'")]),
        ("blocks: {least: 9, most: 3, until: decided}", [("'blocks'", "least", 9, "most", 3)]),
        ("scenario: neighbors", [("'scenario'", "'neighbors'", "'neighbours'")]),
        ("guest: {memory: 2026-01-02}", [("guest.memory", "'2026-01-02'", "64MiB")]),
        ("study: a\r\nstudy: b", [("'study'", "twice"), ("'study'", "'b'")]),
        ("seed: 1\nseed: 2", [("'seed'", "twice")]),
        ("guest:", [("'guest'", "mapping")]),
        (
            "platforms: [native, [netns], {platform: runc, memroy_max: 1}, 7]\nworkloads: [superpi, {workload: 5}]",
            [
                ("platforms[1]", "['netns']"),
                ("platforms[2].memroy_max", "'memory_max'"),
                ("platforms[3]", 7),
                ("workloads[1].workload", 5),
            ],
        ),
        (
            "platforms: [native, {platform: runc, counters: no}]\nbaseline: nativ",
            [("platforms[1].counters", "'no'", "'none'")],
        ),
        (
            (
                "testbed: {generator: {host: locl, interfaces: [a]}, sink: {host: local, interfaces: [b]}, "
                "hypervisor: {host: local, interfaces: [c, d]}}"
            ),
            [("testbed.generator.host", "'locl'", "'local'")],
        ),
    ],
)
def test_each_mistake_is_named_once_and_as_the_file_has_it(text: str, expected: list[tuple[Fact, ...]]) -> None:
    given = yaml.safe_load(text)
    rest = {key: value for key, value in experiments.document().items() if key not in given}
    problems = refusal(f"{yaml.safe_dump(rest)}{text}\n").problems
    for problem, facts in zip(problems, expected, strict=True):
        assert_facts(problem.said, *facts)
    assert all(one.text for one in problems)


def test_a_near_miss_needs_to_be_near() -> None:
    assert near("kvm", EVERY_PLATFORM) == ("qemu-kvm",)
    assert near("QEMU_KVM", EVERY_PLATFORM) == ("qemu-kvm",)
    assert near("qemu", EVERY_PLATFORM) == ("qemu-tcg", "qemu-kvm")
    assert near("zzz", EVERY_PLATFORM) == near("", EVERY_PLATFORM) == near(5, EVERY_PLATFORM) == ()


# Mistakes that do not touch each other: a key of the file, and a value that is wrong.
MISTAKES: dict[str, Any] = {
    "name": "Bad Name",
    "question": None,
    "guest": {"vcpus": 0},
    "blocks": 0,
    "rounds": "many",
    "seed": -1,
    "study": "nobody",
    "order": "sorted",
    "margin": 2,
    "workloads": ["no-such"],
    "platforms": ["native", {"platform": "netns", "attachment": "x"}],
    "colour": "red",
    "neighbours": ["idle"],
}


@pytest.mark.parametrize("seed", range(12))
def test_as_many_problems_as_mistakes(seed: int) -> None:
    generator = random.Random(seed)
    keys = sorted(MISTAKES, key=lambda _: generator.random())[: seed + 1]
    problems = refusal(experiments.text(**{key: MISTAKES[key] for key in keys})).problems
    assert sorted(one.key.partition(".")[0].partition("[")[0] for one in problems) == sorted(keys)
    assert all(one.line is not None for one in problems)


@pytest.mark.parametrize(
    ("line", "column", "shown", "caret"),
    [
        ("guest: {vcpus: 1, 'memory': lots}", 29, "guest: {vcpus: 1, 'memory': lots}", "^^^^".rjust(32)),
        ('"blocks":   "x"', 13, '"blocks":   "x"', "^^^".rjust(15)),
        ('study: "a\tb"', 8, 'study: "a    b"', "^^^^^^^^".rjust(15)),
        ("summary: 何も", 10, "summary: 何も", "^^^^".rjust(13)),
        ("guest: {image: e\u0301, vcpus: 0}", 27, "guest: {image: e\u0301, vcpus: 0}", "^".rjust(26)),
    ],
)
def test_the_caret_is_below_what_it_means(line: str, column: int, shown: str, caret: str) -> None:
    right = {key: value for key, value in experiments.document().items() if key != "rounds"}
    text = yaml.safe_dump(right, sort_keys=False) + line + "\n"
    error = refusal(text)
    assert (error.problems[-1].line, error.problems[-1].column) == (text.count("\n"), column)
    assert list(told(UsageError.of(error.problems[-1:])))[1:] == [f"   8 | {shown}", f"     | {caret}"]


def test_a_long_line_is_cut_to_where_it_is_wrong() -> None:
    many = ", ".join(["netns"] + [f"{{platform: netns, label: n{number}}}" for number in range(40)])
    lines = printed(experiments.text(platforms=None) + f"platforms: [native, {many}, nosuch]\n")
    assert lines[1].endswith("nosuch]")
    assert len(lines[1]) < 90
    assert lines[1][lines[2].index("^") :].startswith("nosuch")


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("a: [1,\nb: 2", ("my.yaml:2:4:", "','", "']'", "line 1")),
        ("a: 1\n\tb: 2", ("my.yaml:2:1:", "tab", "spaces")),
        ('a: "x', ("my.yaml:1:5:", "quote", "line 1")),
        ("q: is it: so", ("my.yaml:1:9:", "':'", "quotes")),
        ("a: *b", ("my.yaml:1:4:", "(*)", "(&)")),
        ("a: \x07", ("my.yaml:1:4:", "U+0007")),
    ],
)
def test_what_is_no_yaml_is_refused_with_its_place_in_plain_words(text: str, facts: tuple[str, ...]) -> None:
    lines = printed(text)
    assert_facts(lines[0], "YAML", *facts)
    assert len(lines) == 3
    assert "unicode string" not in lines[0]


def test_a_size_is_named_and_its_own_line_is_shown() -> None:
    text = experiments.text(sizes={"quick": {}, "paper": {"blocks": 0}}, blocks=0)
    (problem,) = refusal(text).problems
    line = text.splitlines().index("blocks: 0") + 1
    assert_facts(problem.located, f"my.yaml:{line}:9:", "quick", "'blocks'", "100 000", 0)


def test_no_message_has_the_words_of_a_library() -> None:
    for kinds in (EVERY_PLATFORM, WORKLOADS):
        for kind in kinds.values():
            for name, field in kind.parameter_model.model_fields.items():
                words = allowed_values(field)
                assert not {"[", "<", "typing", "Annotated", "None", "^"} & set(words.split()), (name, words)
                assert "Constraints" not in words, (name, words)


@pytest.mark.parametrize("key", ["[]", "][", "", ".", "[0]", "[", "a.b", "platforms[0]"])
def test_a_key_of_brackets_and_dots_is_named_as_it_stands(key: str) -> None:
    """At the top, in a size, in an entry."""
    entry = f"{{platform: fake, {json.dumps(key)}: []}}"
    text = "name: m\nquestion: q\nbaseline: fake\nworkloads: [superpi]\n"
    for more in (f"platforms: [fake]\n{json.dumps(key)}: 1\n", f"platforms: [{entry}]\n"):
        (problem,) = refusal(text + more).problems
        assert problem.key.endswith(key)
        assert problem.place[-1] == key
        assert problem.text[problem.column or 0 :].startswith(key) or "list" in problem.said
    of_sizes = f"platforms: [fake]\nsizes:\n  quick: {{{json.dumps(key)}: 1}}\n  paper: {{blocks: 3}}\n"
    assert [one.place for one in refusal(text + of_sizes).problems] == [("sizes", "quick", key)]


def test_what_depends_on_a_mistake_is_no_further_mistake() -> None:
    cases: list[dict[str, Any]] = [
        {"scenario": "scale", "scale": {"guests": [0]}},
        {"scenario": "neighbour", "neighbours": ["idle"]},
        {"platforms": ["nativ", "netns"]},
        {"testbed": {"generator": 5}, "platforms": ["native", {"platform": "qemu-tcg", "attachment": "passthrough"}]},
    ]
    for changed in cases:
        told_of = {one.key.partition(".")[0].partition("[")[0] for one in refusal(experiments.text(**changed)).problems}
        assert len(told_of) == 1, changed
