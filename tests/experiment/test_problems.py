"""All that is wrong with an experiment's file at once: each with its line and a caret, and with what was meant."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support import experiments

from virtoll.campaign.preview import catalogue
from virtoll.cli.problems import told
from virtoll.errors import UsageError
from virtoll.experiment.describe import allowed_values
from virtoll.experiment.file import ExperimentFile
from virtoll.experiment.near import near
from virtoll.experiment.parse import parse_experiment
from virtoll.platforms import EVERY_PLATFORM
from virtoll.workloads import WORKLOADS

FILE = Path("my.yaml")


def refused(text: str) -> UsageError:
    """What a file's text is refused with."""
    with pytest.raises(UsageError) as raised:
        parse_experiment(text, FILE, catalogue())
    return raised.value


def printed(text: str) -> list[str]:
    """The same as the command line prints it."""
    return list(told(refused(text)))


def test_every_mistake_of_a_first_file_is_told_at_once() -> None:
    text = (
        "name: My DB test\n"
        "platforms: [native, kvm, {platform: qemu-tcg, nic: virtio}]\n"
        "workload: [superpi]\n"
        "guest: {cpus: 2}\n"
    )
    assert printed(text) == [
        "my.yaml:1:1: missing key 'question': one sentence saying what the experiment should answer",
        (
            "my.yaml:1:7: key 'name': must be small letters, digits, '.', '_' and '-', a letter or digit first, at "
            "most 63, got 'My DB test'"
        ),
        "   1 | name: My DB test",
        "     |       ^^^^^^^^^^",
        (
            "my.yaml:2:21: key 'platforms[1].platform': 'kvm' is not known; did you mean 'qemu-kvm'? "
            "'virtoll list platforms' shows all"
        ),
        "   2 | platforms: [native, kvm, {platform: qemu-tcg, nic: virtio}]",
        "     |                     ^^^",
        (
            "my.yaml:2:52: key 'platforms[2].nic': 'virtio' is not allowed; did you mean 'virtio-net'? allowed: "
            "'virtio-net', 'e1000', 'rtl8139' or 'vmxnet3'"
        ),
        "   2 | platforms: [native, kvm, {platform: qemu-tcg, nic: virtio}]",
        "     |                                                    ^^^^^^",
        "my.yaml:3:1: key 'workload': not known; did you mean 'workloads'? allowed keys: "
        + ", ".join(ExperimentFile.model_fields),
        "   3 | workload: [superpi]",
        "     | ^^^^^^^^",
        (
            "my.yaml:4:9: key 'guest.cpus': not known; did you mean 'vcpus'? allowed keys: vcpus, memory, marks, "
            "cpu_quota, image"
        ),
        "   4 | guest: {cpus: 2}",
        "     |         ^^^^",
        "virtoll: 6 errors in my.yaml; nothing was started",
    ]


def test_an_entry_that_has_its_name_as_the_key_is_told_how_it_is_written() -> None:
    text = 'name: a\nquestion: "?"\nplatforms: [native, runc]\nworkloads:\n  - superpi: {digits: 4096}\n'
    assert printed(text)[0] == (
        "my.yaml:5:5: key 'workloads[0]': the key 'workload' is missing; write 'workload: superpi', and the "
        "parameters of superpi beside it, one line each"
    )


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"platforms": ["docker", "qemu-kvm"]}, "add native and native-again to 'platforms'"),
        ({"workloads": ["mysql"]}, "'mysql' is not known; did you mean 'mariadb-oltp'?"),
        ({"workloads": [{"workload": "povray", "thread": 2}]}, "did you mean 'threads'? allowed keys: pixels, threads"),
        ({"guest": {"mem": "1GiB"}}, "did you mean 'memory'?"),
        ({"baseline": "netn"}, "'netn' is not among the platforms; did you mean 'netns'? allowed: native, netns"),
        ({"study": "mattos"}, "'mattos' is not known; did you mean 'mattos2012'?"),
        ({"skip": ["netn:*"]}, "did you mean 'netns'? platforms: native, netns"),
        (
            {"workloads": ["superpi", "masr", {"workload": "superpi", "digits": [16384]}]},
            "key 'workloads[2]': repeats a trial of workloads[0]: superpi, digits 16384; remove one",
        ),
    ],
)
def test_what_was_probably_meant_comes_before_what_is_allowed(changed: dict[str, Any], said: str) -> None:
    (problem,) = refused(experiments.text(**changed)).problems
    assert said in problem.said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("blocks: {least: 3}", ["missing key 'blocks.until': the run ends when the verdict"]),
        (
            "blocks: {untl: decided}\nname: Yes",
            ["key 'blocks.untl': not known; did you mean 'until'?", "key 'name': must be small letters"],
        ),
        ("blocks: {least: 9, most: 3, until: decided}", ["key 'blocks': least (9) is more than most (3)"]),
        ("scenario: neighbors", ["key 'scenario': 'neighbors' is not known; did you mean 'neighbours'?"]),
        (
            "guest: {memory: 2026-01-02}",
            ["key 'guest.memory': must be a size such as 256MiB of at least 64MiB, got '2026-"],
        ),
        ("study: a\r\nstudy: b", ["key 'study' is there twice in one mapping", "key 'study': 'b' is not known"]),
        ("seed: 1\nseed: 2", ["key 'seed' is there twice in one mapping; keep one of them"]),
        ("guest:", ["key 'guest': must be a mapping of keys, got nothing"]),
        (
            "platforms: [native, [netns], {platform: runc, memroy_max: 1}, 7]\nworkloads: [superpi, {workload: 5}]",
            [
                "key 'platforms[1]': a name or a mapping is allowed, got ['netns']",
                "key 'platforms[2].memroy_max': not known; did you mean 'memory_max'?",
                "key 'platforms[3]': a name or a mapping is allowed, got 7",
                "key 'workloads[1].workload': 5 is not known",
            ],
        ),
        (
            "platforms: [native, {platform: runc, counters: no}]\nbaseline: nativ",
            ["key 'platforms[1].counters': 'no' is not known; did you mean 'none'?"],
        ),
        (
            (
                "testbed: {generator: {host: locl, interfaces: [a]}, sink: {host: local, interfaces: [b]}, "
                "hypervisor: {host: local, interfaces: [c, d]}}"
            ),
            ["key 'testbed.generator.host': 'locl' is no host; did you mean 'local'?"],
        ),
    ],
)
def test_each_mistake_is_told_once_and_as_the_file_has_it(text: str, said: list[str]) -> None:
    given = yaml.safe_load(text)
    rest = {key: value for key, value in experiments.document().items() if key not in given}
    error = refused(f"{yaml.safe_dump(rest)}{text}\n")
    assert [one.said[: len(start)] for one, start in zip(error.problems, said, strict=True)] == said
    assert all(one.text for one in error.problems)


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
    problems = refused(experiments.text(**{key: MISTAKES[key] for key in keys})).problems
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
    error = refused(text)
    assert (error.problems[-1].line, error.problems[-1].column) == (text.count("\n"), column)
    assert list(told(UsageError.of(error.problems[-1:])))[1:] == [f"   8 | {shown}", f"     | {caret}"]


def test_a_long_line_is_cut_to_where_it_is_wrong() -> None:
    many = ", ".join(["netns"] + [f"{{platform: netns, label: n{number}}}" for number in range(40)])
    lines = printed(experiments.text(platforms=None) + f"platforms: [native, {many}, nosuch]\n")
    assert lines[1].endswith("nosuch]")
    assert len(lines[1]) < 90
    assert lines[1][lines[2].index("^") :].startswith("nosuch")


@pytest.mark.parametrize(
    ("text", "first"),
    [
        (
            "a: [1,\nb: 2",
            "my.yaml:2:4: not valid YAML: a ',' or the closing ']' of a list is missing (it begins in line 1)",
        ),
        ("a: 1\n\tb: 2", "my.yaml:2:1: not valid YAML: a tab stands where only spaces can; write spaces"),
        ('a: "x', "my.yaml:1:5: not valid YAML: the closing quote of a text is missing (it begins in line 1)"),
        ("q: is it: so", "my.yaml:1:9: not valid YAML: a ':' stands where no key can be; put the text in quotes"),
        ("a: *b", "my.yaml:1:4: not valid YAML: an alias (*) has no anchor (&) before it"),
        ("a: \x07", "my.yaml:1:4: not valid YAML: no file may hold the character U+0007; take it out"),
    ],
)
def test_what_is_no_yaml_is_told_with_its_place_in_plain_words(text: str, first: str) -> None:
    lines = printed(text)
    assert lines[0].startswith(first)
    assert len(lines) == 3
    assert "unicode string" not in lines[0]


def test_a_size_is_named_and_its_own_line_is_shown() -> None:
    text = experiments.text(sizes={"quick": {}, "paper": {"blocks": 0}}, blocks=0)
    error = refused(text)
    line = text.splitlines().index("blocks: 0") + 1
    said = "size quick: key 'blocks': must be a whole number from 1 to 100 000, got 0"
    assert [one.located for one in error.problems] == [f"my.yaml:{line}:9: {said}"]


def test_no_key_is_told_in_the_words_of_a_library() -> None:
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
        (problem,) = refused(text + more).problems
        assert problem.key.endswith(key)
        assert problem.place[-1] == key
        assert problem.text[problem.column or 0 :].startswith(key) or "list is empty" in problem.said
    of_sizes = f"platforms: [fake]\nsizes:\n  quick: {{{json.dumps(key)}: 1}}\n  paper: {{blocks: 3}}\n"
    assert [one.place for one in refused(text + of_sizes).problems] == [("sizes", "quick", key)]


def test_what_depends_on_a_mistake_is_not_told_as_another() -> None:
    cases: list[dict[str, Any]] = [
        {"scenario": "scale", "scale": {"guests": [0]}},
        {"scenario": "neighbour", "neighbours": ["idle"]},
        {"platforms": ["nativ", "netns"]},
        {"testbed": {"generator": 5}, "platforms": ["native", {"platform": "qemu-tcg", "attachment": "passthrough"}]},
    ]
    for changed in cases:
        told_of = {one.key.partition(".")[0].partition("[")[0] for one in refused(experiments.text(**changed)).problems}
        assert len(told_of) == 1, changed
