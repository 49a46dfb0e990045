"""The tools that workloads need, as a root file system of Debian packages in the cache.

Made once by mmdebstrap from Debian's component main, as a list of packages names them. It is made from non-free too
where the user asked for the image that says so. What versions and licences went in is kept beside the tree. It stays at
these versions until the cache is cleared, and needs no network any more.

Main types: `Recipe` (what is to be in), `ToolTree`. Must not: know a workload, a platform or the agent.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from virtoll.errors import ImageError
from virtoll.image import debian
from virtoll.image.cache import Cache, Progress
from virtoll.image.licences import read_licences

DEBS = "debs.json"
"""In a tree's object: package -> architecture of its .deb file, and that file's SHA-256 (hex)."""

_VERSION = 1  # raise it when what is made from the same recipe changes


@dataclass(frozen=True)
class Recipe:
    """What is to be in a tree. `variant`, `mode`: mmdebstrap's; `source`: a line of sources.list, not this host's.

    `documents`: files below /usr/share/doc that are to stay although documents are left out, as shell patterns.
    `components`: those of Debian that packages may be of. `copied`: files that a tool would make for itself at its
    first start, which a guest's root does not allow. Each is the pattern of the one source and the target, both in the
    tree.
    """

    suite: str
    packages: tuple[str, ...]
    components: tuple[str, ...] = ("main",)
    copied: tuple[tuple[str, str], ...] = ()
    variant: str = "apt"
    source: str | None = None
    mode: str | None = None
    documents: tuple[str, ...] = ()


# One release for every host, so that two hosts compare the same tools. netperf and lmbench are non-free: see below.
FULL = Recipe(
    "bookworm",
    (
        "bc",
        "bison",
        "bonnie++",
        "bzip2",
        "dbench",
        "fio",
        "flex",
        "gcc",
        "httperf",
        "iperf",
        "iperf3",
        "iproute2",
        "libc6-dev",
        "libelf-dev",
        "libssl-dev",
        "linux-source-6.1",
        "make",
        "mariadb-server",
        "nginx-light",
        "povray",
        "povray-examples",
        "povray-includes",
        "rsync",
        "stress",
        "stress-ng",
        "sysbench",
        "xz-utils",
    ),
    documents=("povray/examples/advanced/benchmark/*",),  # its standard benchmark
)

# The same and two tools that Debian does not call free software, for their conditions to who publishes results
# (lmbench) or sells copies (netperf): nothing has them that was not asked for by name.
FULL_NON_FREE = replace(
    FULL,
    packages=tuple(sorted((*FULL.packages, "lmbench", "netperf"))),
    components=("main", "non-free"),
    copied=(("usr/lib/lmbench/bin/*/hello", "var/tmp/lmbench/hello"),),
)
RECIPES: Mapping[str, Recipe] = {"full": FULL, "full-non-free": FULL_NON_FREE}

# What installing leaves that is this host's, this moment's, or a state that each trial makes anew.
_REMOVED = (
    "etc/apt/apt.conf.d/99mmdebstrap",
    "etc/apt/sources.list",
    "etc/dpkg/dpkg.cfg.d/99mmdebstrap",
    "etc/machine-id",
    "etc/resolv.conf",
    "var/lib/dbus/machine-id",
    "var/lib/systemd/random-seed",
)
_EMPTIED = ("boot", "dev", "run", "tmp", "var/cache", "var/lib/apt/lists", "var/lib/mysql", "var/log", "var/tmp")
_WRITTEN = {
    "etc/hostname": "guest\n",
    "etc/hosts": "127.0.0.1 localhost guest\n::1 localhost\n",
    "etc/resolv.conf": "",
}


@dataclass(frozen=True)
class ToolTree:
    """A tree in the cache. `digest`: of its object; `facts`: suite, wanted packages, all packages, their licences.

    `debs`: what is known of the packages' files, as JSON.
    """

    digest: str
    root: Path
    facts: dict[str, Any]
    debs: str

    @property
    def packages(self) -> dict[str, str]:
        """Package -> version, of all that is installed."""
        return dict(self.facts["packages"])


def prepare_tools(
    cache: Cache,
    recipe: Recipe = FULL,
    *,
    name: str = "full",
    offline: bool = False,
    progress: Progress,
    whole: bool = False,
) -> ToolTree:
    """The tree of this recipe, from the cache or made now; with `whole` its files are what their hash says.

    Raises ImageError where it is not cached and `offline` (`name`: what to build), or where mmdebstrap is missing or
    fails. It also does so for a package of a component of Debian that the recipe does not name.
    """
    key = json.dumps([_VERSION, debian.architecture(), asdict(recipe)])
    reference = f"tools-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    object_folder = cache.find_whole(reference) if whole else cache.find(reference)
    if object_folder is None:
        if offline:
            raise ImageError(
                f"The guest image {name} is not in the cache: run 'virtoll image build {name}' with a network."
            )
        _require_mmdebstrap(name)
        object_folder = cache.build(reference, lambda folder: _fill(folder, recipe, progress), progress)
    facts = json.loads((object_folder / "tools.json").read_text(encoding="utf-8"))
    return ToolTree(
        object_folder.name, object_folder / "root", facts, (object_folder / DEBS).read_text(encoding="utf-8")
    )


def _require_mmdebstrap(name: str) -> None:
    try:
        debian.find_program("mmdebstrap")
    except ImageError:
        raise ImageError(
            f"The guest image {name} is installed by mmdebstrap, which is missing: 'virtoll setup --tools' installs or "
            "names it."
        ) from None


def _fill(folder: Path, recipe: Recipe, progress: Progress) -> None:
    """Fills an object with root/, tools.json and debs.json."""
    tree, lists = folder.parent / "tree", folder.parent / "lists"
    lists.mkdir()
    packages = debian.install(
        tree,
        recipe.suite,
        recipe.packages,
        progress,
        components=" ".join(recipe.components),
        variant=recipe.variant,
        licences=True,
        documents=recipe.documents,
        source=recipe.source,
        mode=recipe.mode,
        lists=lists,
    )
    files = debian.published(lists)
    debs = {name: files[name, version] for name, version in packages.items() if (name, version) in files}
    (folder / DEBS).write_text(json.dumps(debs, indent=1, sort_keys=True), encoding="utf-8")
    licences = read_licences(tree, recipe.components)
    tidy(tree)
    for pattern, target in recipe.copied:
        (source,) = tree.glob(pattern)
        (tree / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, tree / target)
    tree.rename(folder / "root")
    facts = {
        "suite": recipe.suite,
        "wanted": recipe.packages,
        "packages": packages,
        "licences": licences,
        "bytes": sum(path.lstat().st_size for path in (folder / "root").rglob("*") if not path.is_dir()),
    }
    (folder / "tools.json").write_text(json.dumps(facts, indent=1, sort_keys=True), encoding="utf-8")


def tidy(tree: Path) -> None:
    """Takes out of a fresh tree what is not the packages' own, and writes the few files that name the guest."""
    for name in _REMOVED:
        with contextlib.suppress(FileNotFoundError):
            (tree / name).unlink()
    for name in _EMPTIED:
        folder = tree / name
        for path in sorted(folder.rglob("*"), reverse=True) if folder.is_dir() and not folder.is_symlink() else ():
            if path.is_symlink() or not path.is_dir():
                path.unlink()
            elif name not in ("var/log", "var/cache"):  # servers want their folder there
                shutil.rmtree(path)
    for name, text in _WRITTEN.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text, encoding="utf-8")
