"""What is in an image, as a bill of materials in CycloneDX's form, in the cache beside the image.

It is made from what the image's own records hold: the agent, Debian's packages with their versions, licences and the
digests of the .deb files, the shell, and the kernel that machines boot. The same image has the same bill.

Main function: ``image_bill``. Must not: download, or start a program.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from virtoll.image import sbom
from virtoll.image.cache import Cache, Progress, default_cache
from virtoll.image.clone import AGENT_VARIABLE
from virtoll.image.debian import architecture
from virtoll.image.guest import GuestImage
from virtoll.image.tools import DEBS
from virtoll.version import __version__

FILE = "sbom.cdx.json"
_RECIPE = 1  # raise it when another bill is made of the same image


def image_bill(image: GuestImage, *, cache: Cache | None = None, progress: Progress | None = None) -> Path:
    """The file with the bill of an image and, where it has one, of the kernel with it; made where it is not there."""
    cache = cache or default_cache()
    bundled = AGENT_VARIABLE not in os.environ
    kernel = image.machine.kernel.package_sha256 if image.machine is not None else None
    key = json.dumps([_RECIPE, __version__, image.digest, kernel, bundled])
    reference = f"sbom-{hashlib.sha256(key.encode()).hexdigest()[:16]}"

    def fill(folder: Path) -> None:
        of = {"type": "container", "bom-ref": f"image-{image.name}", "name": f"virtoll-guest-{image.name}"}
        facts = {**of, "hashes": [{"alg": "SHA-256", "content": image.digest.removeprefix("sha256:")}]}
        bill = sbom.document(facts, _components(image, bundled=bundled), serial=key)
        (folder / FILE).write_text(sbom.text(bill), encoding="utf-8")

    object_folder = cache.find_whole(reference) or cache.build(reference, fill, progress or (lambda _: None))
    return object_folder / FILE


def _components(image: GuestImage, *, bundled: bool) -> Iterator[sbom.Component]:
    yield sbom.agent(__version__, image.agent_sha256, image.agent.read_bytes(), bundled=bundled)
    facts = json.loads((image.root.parent / "image.json").read_text(encoding="utf-8"))
    if shell := facts.get("busybox"):
        yield _debian("busybox-static", shell["version"], architecture(), sha256=shell["sha256"])
    if image.tools is not None:
        known = image.root.parent / DEBS
        debs: dict[str, dict[str, str]] = json.loads(known.read_text(encoding="utf-8")) if known.exists() else {}
        for name, version in image.tools["packages"].items():
            deb = debs.get(name, {})
            kind, licences = deb.get("architecture"), image.tools["licences"].get(name, ())
            yield _debian(name, version, kind, sha256=deb.get("sha256"), licences=licences, suite=image.tools["suite"])
    if image.machine is not None:
        kernel = image.machine.kernel
        component = _debian(kernel.package, kernel.version, architecture(), sha256=kernel.package_sha256)
        if "://" in kernel.source:
            component["externalReferences"] = [{"type": "distribution", "url": kernel.source}]
        yield component


def _debian(
    name: str,
    version: str,
    kind: str | None,
    *,
    sha256: str | None,
    licences: Any = (),
    suite: str | None = None,
) -> sbom.Component:
    """A Debian package; ``kind``: its architecture; None for what the image's records do not have."""
    more = [f"arch={kind}"] if kind else []
    more += [f"distro={suite}"] if suite else []
    purl = f"pkg:deb/debian/{name}" + (f"?{'&'.join(more)}" if more else "")
    return sbom.library(name, version, purl, sha256=sha256, licences=tuple(licences))
