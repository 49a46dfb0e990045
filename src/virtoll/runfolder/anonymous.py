"""A copy of a run folder without what tells the host, the users and the places: for strangers, who see all numbers.

Main function: `anonymise`. Every text of every record goes through `StandIns.text`, so that platforms, boots and hosts
keep their names where these tell nothing, and have the same stand-in everywhere where they do. Beyond that:

- evidence, files that are no records, and the output of programs are left out: nobody knows what is in them;
- of a command line the program stays, and of the kernel's own a stand-in;
- messages of the kernel are stand-ins, but for those that the lab itself causes;
- the experiment's file keeps what its YAML says, and loses its comments;
- fingerprint and hash of the host are stand-ins, which are the same for all runs of one host with one key.

What is measured is not touched: numbers, digests, versions, times. Nor are the experiment's name and question, but for
known names in them: these words are the user's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from virtoll.errors import RunFolderError, StorageError, UsageError
from virtoll.runfolder import jsonlines
from virtoll.runfolder.opened import read_whole
from virtoll.runfolder.plain import refuse_unplain
from virtoll.runfolder.records import LAB_MESSAGE, Manifest
from virtoll.runfolder.stand_ins import LEAST_LETTERS, StandIns, parts_of_host, usable
from virtoll.runfolder.store import LINES, RunFolder
from virtoll.runfolder.sums import EXPLANATIONS, SUMS, differences, is_of_the_report, write_sums
from virtoll.runfolder.taken_over import WRITER
from virtoll.runfolder.yaml_file import dump_yaml, load_yaml
from virtoll.version import __version__

LEFT_OUT: Final = "left out"
_HOSTS: Final = frozenset({"ssh", "api", "server", "destination", "callback", "netns"})
_NAMES: Final = {"user": "user", "datastore": "datastore", "port_groups": "network", "ostemplate": "template"}
_NICS: Final = "interfaces"  # of a testbed, of ssh
_GENERIC_NIC: Final = ("eth", "vmnic")
_ON_A_HOST: Final = ("ssh ", "netns ")
_OUTPUTS: Final = frozenset({"output", "complaints"})  # of programs: standard output and standard error
_SECRETS: Final = frozenset({"password_from", "thumbprint"})


def anonymise(folder: Path, target: Path, key: bytes, names: Mapping[str, str], hidden: Iterable[str]) -> list[str]:
    """Write the run in `folder` to the empty folder `target`, with stand-ins; the files that were left out.

    `names`: of this machine and its users, with their kinds. `hidden`: words of the user's to be replaced besides.
    UsageError where the run is not as it was when it ended, or a hidden word is one of its own. StorageError where it
    cannot be written.
    """
    refuse_unplain(folder)
    run = RunFolder.open(folder)
    run.read_every_record()
    damage = differences(folder)
    if damage:
        raise UsageError(f"{folder} is not as it was when the run ended ({damage[0]}); pack it without --anonymous")
    words = tuple(hidden)
    _refuse_own_words(run, words)
    cleaner = _Cleaner(StandIns(key, {**_known(folder, run), **_usable(names, run)}, words))
    try:
        written = _copy(folder, target, cleaner)
        (target / "evidence").mkdir()
        for part in (target / EXPLANATIONS, target):
            if (folder / part.relative_to(target) / SUMS).exists():
                write_sums(part)
    except OSError as error:
        raise StorageError(f"cannot write {target}: {error.strerror or error}; make room for a copy") from error
    _refuse_unreadable(target, words)
    every = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return sorted(name for name in every if name not in {*written, WRITER} and not is_of_the_report(name))


def _copy(folder: Path, target: Path, cleaner: _Cleaner) -> set[str]:
    """Write all records; the names of the files that are in both, digests among them."""
    written = set()
    for place in ("", EXPLANATIONS):
        if not (folder / place).is_dir():
            continue
        (target / place).mkdir(exist_ok=True)
        for name in ("manifest.json", "state.json"):
            path = folder / place / name
            if path.exists():
                jsonlines.replace(target / place / name, cleaner.document(_read(path), name))
                written.add(path.relative_to(folder).as_posix())
        for name in LINES:
            path = folder / place / name
            if path.exists():
                with (target / place / name).open("wb") as file:
                    file.writelines(jsonlines.encode(cleaner.document(record, name)) for record in _lines(path))
                written.add(path.relative_to(folder).as_posix())
        if (folder / place / SUMS).exists():
            written.add((Path(place) / SUMS).as_posix())
    return written


class _Cleaner:
    """Cleans records as JSON: what a key means says what is done with its value."""

    def __init__(self, stand_ins: StandIns) -> None:
        self._stand_ins = stand_ins
        self._done: dict[str, str] = {}
        self._lists: Mapping[str, Callable[[list[Any]], list[Any]]] = {
            "evidence": lambda _: [],
            "kernel_messages": lambda every: [self._message(message) for message in every],
            "command": lambda words: [self.text(_without_places(word)) for word in words],
        }
        self._texts: Mapping[str, Callable[[str], str]] = {
            "cmdline": lambda line: stand_ins.of("cmdline", line),
            **dict.fromkeys(_OUTPUTS, lambda _: LEFT_OUT),
            **dict.fromkeys(_SECRETS, lambda secret: stand_ins.of("secret", secret)),
        }

    def document(self, record: Mapping[str, Any], name: str) -> dict[str, Any]:
        """A record of the file of this name."""
        if name == "commands.jsonl":
            program = Path(record["argv"][0]).name if record["argv"] else ""
            record = {**record, "argv": [program, *["..."][: len(record["argv"]) - 1]] if program else []}
        if name == "manifest.json":
            return self._manifest(record)
        return {key: self._value(key, value) for key, value in record.items()}

    def text(self, text: str) -> str:
        """A text with stand-ins; the same texts come again and again."""
        if text not in self._done:
            self._done[text] = self._stand_ins.text(text)
        return self._done[text]

    def _manifest(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        experiment = dict(manifest["experiment"])
        if experiment.get("file"):
            experiment["file"] = "experiment.yaml"
        if experiment.get("text"):
            experiment["text"] = self._yaml(experiment["text"])
        text = experiment.pop("text", None)
        cleaned = {key: self._value(key, value) for key, value in {**manifest, "experiment": experiment}.items()}
        if text is not None:
            cleaned["experiment"]["text"] = text
        cleaned["host"] = self._host(manifest["host"])
        if "hosts" in manifest:  # of a run that was merged of several
            cleaned["hosts"] = [
                {**host, "host": self._host(original["host"])}
                for host, original in zip(cleaned["hosts"], manifest["hosts"], strict=True)
            ]
        return {**cleaned, "anonymised": {"virtoll": __version__}}

    def _host(self, host: Mapping[str, Any]) -> dict[str, Any]:
        """What a manifest says of a host; who knows its name cannot tell it from its digests any more."""
        cleaned = dict(host)
        for key, value in host.items():
            if key not in _AS_THEY_ARE:
                cleaned[key] = self._value(key, value)
        for key, digits in (("fingerprint", 64), ("hostname_hash", 16)):
            if host.get(key):
                cleaned[key] = self._stand_ins.digest(f"{key} {host[key]}", digits)
        return cleaned

    def _yaml(self, text: str) -> str:
        """What an experiment's file says, without its comments; nothing of what is no YAML."""
        try:
            document = load_yaml(text)
        except yaml.YAMLError:
            return ""
        return dump_yaml(self._value("", document), sort_keys=False, allow_unicode=True, width=100)

    def _value(self, key: str, value: Any) -> Any:
        if isinstance(value, str):
            return self._texts.get(key, self.text)(value) if value else value
        if isinstance(value, dict):
            return {self._key(name): self._value(str(name), part) for name, part in value.items()}
        if isinstance(value, list):
            cleaned = self._lists.get(key)
            return cleaned(value) if cleaned else [self._value(key, part) for part in value]
        return value

    def _key(self, name: Any) -> Any:
        """A name of a field stays, but for one that is a NIC's; any other text goes by its stand-in."""
        if not isinstance(name, str):
            return name
        return self._stand_ins.look(name) if name.isidentifier() else self.text(name)

    def _message(self, message: str) -> str:
        return self.text(message) if LAB_MESSAGE.search(message) else self._stand_ins.of("message", message)


_AS_THEY_ARE: Final = frozenset({"fingerprint", "hostname_hash", "packages", "mitigations"})


def _without_places(word: str) -> str:
    """A word of a command line; a file of the user's is the experiment, and a folder a place."""
    if word.endswith((".yaml", ".yml")):
        return "experiment.yaml"
    return LEFT_OUT if "/" in word else word


def _known(folder: Path, run: RunFolder) -> dict[str, str]:
    """Names that the run itself gives to hosts, users and places, with their kinds."""
    manifest = _read(folder / "manifest.json")
    names: dict[str, str] = {}
    try:
        experiment = load_yaml(str(manifest["experiment"].get("text") or ""))
    except yaml.YAMLError:
        experiment = None
    neighbour = (manifest.get("testbed") or {}).get("neighbour")
    for value in (manifest.get("testbed"), [platform.parameters for platform in run.manifest.platforms], experiment):
        names |= _names_in(value)
    for interfaces in (neighbour or {}).values():
        names |= _names_in(interfaces, _NICS)
    for host in _hosts_of(run.manifest):
        if host.startswith(_ON_A_HOST):
            names |= parts_of_host(host.partition(" ")[2])
    return _usable(names, run)


def _hosts_of(manifest: Manifest) -> set[str]:
    """Where its platforms and its nodes are: 'ssh root@a'."""
    hosts = {platform.host for platform in manifest.platforms if platform.host}
    parts = manifest.merged.parts if manifest.merged is not None else ()
    for nodes in (manifest.nodes, *(part.nodes for part in parts)):
        hosts.update((nodes or {}).values())
    return hosts


def _names_in(value: Any, key: str = "") -> dict[str, str]:
    """Names below a value of an experiment, a testbed or a platform's parameters."""
    names: dict[str, str] = {}
    if isinstance(value, dict):
        for name, part in value.items():
            names |= _names_in(part, str(name))
    elif isinstance(value, list | tuple):
        for part in value:
            names |= _names_in(part, key)
    elif isinstance(value, str):
        if key in _HOSTS:
            names |= parts_of_host(value)
        elif key in _NAMES:
            names[value] = _NAMES[key]
        elif key == _NICS and not value.startswith(_GENERIC_NIC):
            names[value] = "nic"
    return names


def _usable(names: Mapping[str, str], run: RunFolder) -> dict[str, str]:
    """Those that are not also a word of the run's own: a host that is called xen is not told from the platform."""
    words = {word.lower() for word in _own_words(run)}
    return {name: kind for name, kind in names.items() if usable(name) and name.lower() not in words}


def _own_words(run: RunFolder) -> Iterator[str]:
    for platform in run.manifest.platforms:
        yield from (platform.platform, platform.family)
    for metric in run.manifest.metrics:
        yield from (metric.workload, metric.name, metric.unit, metric.resource, metric.source)


def _refuse_own_words(run: RunFolder, hidden: Iterable[str]) -> None:
    for word in hidden:
        if len(word) < LEAST_LETTERS:
            raise UsageError(f"--hide {word}: is too short to be found alone; give {LEAST_LETTERS} letters or more")
        if word.lower() in {taken.lower() for taken in _own_words(run)}:
            raise UsageError(f"--hide {word}: is a platform, a workload or a metric of this run; leave it out")


def _refuse_unreadable(target: Path, hidden: Sequence[str]) -> None:
    """UsageError where a name is also a word of the format's."""
    try:
        RunFolder.open(target).read_every_record()
    except RunFolderError as error:
        option = f"--hide {', '.join(hidden)}: " if hidden else ""
        raise UsageError(
            f"{option}with stand-ins for these names the run cannot be read ({error}); pack it without --anonymous"
        ) from error


def _read(path: Path) -> dict[str, Any]:
    document = jsonlines.loads(read_whole(path))
    if not isinstance(document, dict):
        raise RunFolderError(f"{path} is damaged: it is no JSON object; restore it.")
    return document


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a file; one that was torn when its writer was killed is left out."""
    for number, line in jsonlines.read(path):
        try:
            record = jsonlines.loads(line)
        except ValueError as error:
            raise RunFolderError(f"{path}, line {number}: is no JSON; restore it.") from error
        yield record
