"""Gets packages from the system's own Debian sources into the cache, without root and without installing anything.

apt runs with lists, cache and hooks of its own (a private configuration file), so that the host's package state is
neither read for what is new nor changed. Apt verifies the archive's signature and each file's digest, whatever the
host's configuration allows, and what it brought is held to that digest here again. A source that fails (a third
party's, say) does no harm as long as another has the package.

Main types: `Package`. Must not: install, or write outside the folder it is given.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from virtoll.errors import ImageError, remedy_for
from virtoll.image.apt_sources import refuse_unsigned
from virtoll.image.cache import Cache, Progress, file_digest

_TIMEOUT_S = 900.0

_INSTALLED_SECONDS = "1672531200"  # what installed packages write down as today: the same each time

# Read after the host's own apt configuration, so proxies and certificates stay, hooks and extra indexes do not.
_APT_CONFIGURATION = """\
Dir::State::Lists "{folder}/lists";
Dir::Cache "{folder}/cache";
Dir::Log "{folder}/log";
APT::Get::List-Cleanup "false";
Acquire::Languages "none";
Acquire::Retries "2";
Acquire::http::Timeout "20";
Acquire::https::Timeout "20";
Acquire::AllowInsecureRepositories "false";
Acquire::AllowWeakRepositories "false";
Acquire::AllowDowngradeToInsecureRepositories "false";
APT::Get::AllowUnauthenticated "false";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear Acquire::IndexTargets::deb::DEP-11;
#clear Acquire::IndexTargets::deb::CNF;
#clear Acquire::IndexTargets::deb::Contents-deb;
"""

_KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
_OTHER_SOURCES = """\
Dir::Etc::SourceList "{folder}/sources.list";
Dir::Etc::SourceParts "-";
APT::Default-Release "{suite}";
"""


@dataclass(frozen=True)
class Package:
    """A Debian package in the cache; `sha256` is that of the .deb file, `source` its address, or apt."""

    name: str
    version: str
    architecture: str
    sha256: str
    file: Path
    source: str = "apt"


def fetch_package(cache: Cache, name: str, *, pattern: str | None, offline: bool, progress: Progress) -> Package:
    """The cached package of this name, downloaded on first use; it stays at that version until the cache is cleared.

    With `pattern`, `name` is a metapackage and the dependency that the regular expression matches is meant. Raises
    ImageError where it is not cached and `offline`, or where no source has it.
    """
    reference = f"package-{name}"
    object_folder = cache.find(reference)
    if object_folder is None:
        if offline:
            raise ImageError(f"Debian's package {name} is not in the cache: {remedy_for('image')}.")
        object_folder = cache.build(reference, lambda folder: _download(folder, name, pattern, progress), progress)
    return cached_package(object_folder)


def cached_package(object_folder: Path) -> Package:
    """The package that an object of the cache is."""
    facts = json.loads((object_folder / "package.json").read_text(encoding="utf-8"))
    return Package(file=object_folder / "package.deb", **facts)


def fetch_closure(
    folder: Path, names: Sequence[str], progress: Progress, *, suites: Sequence[str] = ()
) -> dict[str, str]:
    """Downloads packages with all that they depend on, as if nothing were installed; package -> version.

    The .deb files are put into `folder`. They are of the host's own sources; or of `suites` of Debian, of which the
    last is preferred, from the mirror that the host's own sources name. Raises ImageError where one is unavailable.
    """
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        private = Path(name)
        private.chmod(0o755)  # root's apt downloads as a user of its own
        configuration, words = _update(private, f"Debian's packages {', '.join(names)}", progress, suites)
        (private / "status").touch()
        progress(f"downloading {', '.join(names)} and what they depend on")
        bare = ["-o", f"Dir::State::status={private / 'status'}", "--yes", "--no-install-recommends"]
        try:
            run(["apt-get", "--config-file", configuration, "--quiet", *bare, "--download-only", "install", *names])
            debs = sorted((private / "cache/archives").glob("*.deb"))
            versions = {
                run(["dpkg-deb", "--show", "--showformat", "${Package}", deb]): _facts(deb)["version"] for deb in debs
            }
            _require_signed(configuration, [f"{name}={version}" for name, version in versions.items()], debs)
        except ImageError as error:
            raise ImageError(f"{error} {words}".strip()) from error
        for deb in debs:
            shutil.move(deb, folder / deb.name)
        return versions


def install(
    tree: Path,
    suite: str,
    names: Sequence[str],
    progress: Progress,
    *,
    components: str = "main contrib",
    variant: str = "apt",
    licences: bool = False,
    documents: Sequence[str] = (),
    source: str | None = None,
    mode: str | None = None,
    lists: Path | None = None,
) -> dict[str, str]:
    """Installs packages of a suite of Debian into a new folder, their own scripts run in it; package -> version.

    The mirror is the one that this host's own sources name, unless a `source` (a line of sources.list) is given.
    `variant` and `mode`: mmdebstrap's, what comes besides the packages, and how their scripts are run; `licences`: keep
    each package's copyright file; `documents`: patterns of other files below /usr/share/doc to keep; `lists`: a new
    folder for the signed lists that apt chose from (`published` reads them).
    Everything in the folder belongs to who calls, and it has no device nodes. As an ordinary user it needs
    subordinate user ids (/etc/subuid). Raises ImageError where mmdebstrap is missing or fails.
    """
    progress(f"installing {', '.join(names)} of Debian {suite} into a folder (some minutes)")
    signed = f"[signed-by={_KEYS}] " if Path(_KEYS).exists() else ""  # else by the keys that mmdebstrap knows
    source = source or f"deb {signed}{_mirror()} {suite} {components}"
    find_program("mmdebstrap")
    patterns = [*(["*/copyright"] if licences else []), *documents]
    archive = tree.with_suffix(".tar")
    command: list[str | Path] = [
        "mmdebstrap",
        f"--mode={mode or ('root' if os.geteuid() == 0 else 'unshare')}",
        f"--variant={variant}",
        "--format=tar",
        '--aptopt=APT::Install-Recommends "false"',
        f'--aptopt=Acquire::Check-Valid-Until "{_asks_how_old()}"',
        '--aptopt=Acquire::GzipIndexes "false"',
        '--aptopt=Acquire::AllowInsecureRepositories "false"',
        "--dpkgopt=force-unsafe-io",
        *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "info", "man", "locale")),
        *(f"--dpkgopt=path-include=/usr/share/doc/{pattern}" for pattern in patterns),
        *([f"--customize-hook=sync-out /var/lib/apt/lists {shlex.quote(str(lists))}"] if lists else []),
        f"--include={','.join(names)}",
        suite,
        archive,
        source,
    ]
    _bootstrap(command, tree.parent)
    tree.mkdir()
    run(["tar", "--extract", "--file", archive, "--directory", tree, "--no-same-owner", "--exclude=./dev/*"])
    archive.unlink()
    shown = run(["dpkg-query", f"--admindir={tree / 'var/lib/dpkg'}", "--show", "--showformat=${Package} ${Version}\n"])
    return dict(line.split() for line in shown.splitlines() if len(line.split()) == 2)


def _bootstrap(command: Sequence[str | Path], folder: Path) -> None:
    """Runs mmdebstrap, as root with its temporary files in a folder; raises ImageError with its first complaint."""
    # Its mounts and its processes are gone with this one, however it ends; as a user they are in its own namespaces.
    apart = ["setpriv", "--pdeathsig", "KILL"]
    more = {"SOURCE_DATE_EPOCH": _INSTALLED_SECONDS}
    if os.geteuid() == 0:
        apart += ["unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc"]
        more["TMPDIR"] = str(folder)  # a user's subordinate ids may not enter the user's folders
    answer = _run([*apart, *command], more=more)
    if answer.returncode != 0:  # the first complaint has the cause, the last one only says that it failed
        words = [line for line in answer.stderr.splitlines() if line.startswith("E: ")] or ["no message"]
        raise ImageError(f"mmdebstrap failed with exit code {answer.returncode}: {words[0].removeprefix('E: ')}")


def published(lists: Path) -> dict[tuple[str, str], dict[str, str]]:
    """Package and version -> its architecture and its .deb file's SHA-256 (hex), as apt's lists in a folder have them.

    Those lists are Debian's signed word: apt held each package to them before it was unpacked.
    """
    packages = {}
    for file in sorted(lists.glob("*Packages")):
        for stanza in file.read_text(encoding="utf-8").split("\n\n"):
            fields = dict(re.findall(r"^(Package|Version|Architecture|SHA256): *(\S+)$", stanza, re.MULTILINE))
            if len(fields) == 4:
                facts = {"architecture": fields["Architecture"], "sha256": fields["SHA256"]}
                packages[fields["Package"], fields["Version"]] = facts
    return packages


def _asks_how_old() -> str:
    """Whether this host's apt holds an archive to its Valid-Until, as apt writes it; mmdebstrap's apt is to do as that.

    Only the host's owner switches it off, as for a mirror of an old day.
    """
    setting = run(["apt-config", "shell", "ASKS", "Acquire::Check-Valid-Until/b"]).strip()
    return "false" if setting == "ASKS='false'" else "true"


def _mirror() -> str:
    """The address of the Debian mirror that this host's sources name for its own release."""
    lines = run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)"]).splitlines()
    for line in lines:
        words = line.split()
        if len(words) == 3 and words[2] == "main" and "-" not in words[1]:
            return words[0]
    raise ImageError("this host's apt sources name no Debian release with the component main; add Debian's mirror.")


def unpack(package: Package, folder: Path) -> None:
    """Unpacks a package's files below a folder."""
    run(["dpkg-deb", "--extract", package.file, folder])


def architecture() -> str:
    """Debian's name for this machine's architecture, for example amd64."""
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)


def run(
    arguments: Sequence[str | Path], folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> str:
    """Runs a program in a folder and returns its output; raises ImageError with its last words."""
    answer = _run(arguments, folder, environment)
    if answer.returncode != 0:
        lines = (answer.stderr.strip() or answer.stdout.strip() or "no message").splitlines()
        words = next((line for line in lines if line.startswith("E: ")), lines[-1])  # apt's cause stands first
        raise ImageError(f"{arguments[0]} failed with exit code {answer.returncode}: {words}")
    return answer.stdout


def find_program(name: str) -> str:
    """The path of a program; raises ImageError where there is none."""
    path = shutil.which(name)
    if path is None:
        raise ImageError(f"The program {name} is missing, and the guest image needs it: install its Debian package.")
    return path


def _run(
    arguments: Sequence[str | Path], folder: Path | None = None, more: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    command = [find_program(str(arguments[0])), *arguments[1:]]
    environment = os.environ | {"LC_ALL": "C"} | dict(more or {})
    try:
        return subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ImageError(f"{arguments[0]} did not end within {_TIMEOUT_S:.0f} s: check the network.") from None


def _download(folder: Path, name: str, pattern: str | None, progress: Progress) -> None:
    """Fills an object with package.deb and package.json."""
    private = folder.parent / "apt"  # beside the object: goes away with the builder's temporary folder
    configuration, words = _update(private, f"Debian's package {name}", progress)
    try:
        concrete = _resolve(configuration, name, pattern)
        progress(f"downloading {concrete}")
        run(["apt-get", "--config-file", configuration, "--quiet", "download", concrete], private / "download")
        (downloaded,) = (private / "download").glob("*.deb")
        _require_signed(configuration, [concrete], [downloaded])
    except ImageError as error:
        reason = words or str(error)
        advice = "check the network and the system's apt sources"
        raise ImageError(f"Debian's package {name} could not be downloaded ({reason}): {advice}.") from error
    downloaded.replace(folder / "package.deb")
    facts = {"name": concrete, **_facts(folder / "package.deb"), "sha256": file_digest(folder / "package.deb")}
    (folder / "package.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")


def _require_signed(configuration: Path, packages: Sequence[str], debs: Sequence[Path]) -> None:
    """ImageError where a file has not a digest of the signed lists, or a package's source is not verified by apt."""
    output = run(["apt-get", "--config-file", configuration, "--quiet", "--print-uris", "download", *packages])
    downloads = re.findall(r"^'([^']+)' \S+ \d+ SHA256:([0-9a-f]{64})", output, re.MULTILINE)
    places = ["LIST", "Dir::Etc::sourcelist/f", "PARTS", "Dir::Etc::sourceparts/d"]
    configured = run(["apt-config", "--config-file", configuration, "shell", *places])
    refuse_unsigned((address for address, _ in downloads), configured)
    for deb in debs:
        if file_digest(deb) not in {digest for _, digest in downloads}:
            raise ImageError(f"{deb.name} has another digest than the archive's signed list says")


def _update(private: Path, subject: str, progress: Progress, suites: Sequence[str] = ()) -> tuple[Path, str]:
    """A configuration of apt's own in a folder, with fresh lists; and what it complained of, empty for nothing."""
    for needed in ("lists/partial", "cache/archives/partial", "log", "download"):
        (private / needed).mkdir(parents=True)
    configuration = private / "apt.conf"
    text = _APT_CONFIGURATION.format(folder=private)
    if suites:
        lines = [f"deb [signed-by={_KEYS}] {_mirror()} {suite} main\n" for suite in suites]
        (private / "sources.list").write_text("".join(lines), encoding="utf-8")
        text += _OTHER_SOURCES.format(folder=private, suite=suites[-1])
    configuration.write_text(text, encoding="utf-8")
    progress(f"looking for {subject}")
    update = _run(["apt-get", "--config-file", configuration, "--quiet", "update"])
    words = [line for line in update.stderr.splitlines() if "Failed to fetch" in line or line.startswith("E:")]
    return configuration, words[0] if words else ""


def _resolve(configuration: Path, name: str, pattern: str | None) -> str:
    """The concrete package behind a metapackage, from the newest version's dependencies."""
    shown = run(["apt-cache", "--config-file", configuration, "show", "--no-all-versions", name])
    if pattern is None:
        return name
    for line in shown.splitlines():
        if line.startswith("Depends:"):
            for dependency in re.split(r"[,|]", line.removeprefix("Depends:")):
                concrete = dependency.split()[0]
                if re.fullmatch(pattern, concrete):
                    return concrete
    raise ImageError(f"{name} depends on no package like {pattern}")


def _facts(deb: Path) -> dict[str, str]:
    """Version and architecture as the package itself says."""
    fields = run(["dpkg-deb", "--show", "--showformat", "${Version} ${Architecture}", deb]).split()
    return {"version": fields[0], "architecture": fields[1]}
