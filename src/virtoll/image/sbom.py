"""A bill of materials in CycloneDX's JSON (version 1.6): its form, and what the agent is made of.

Read by ``setup.py`` too, which has the standard library alone. The same contents give the same text: there is no time
in it, and its serial number is made from what it is of.

Main functions: ``document``, ``agent``, ``library``. Must not: import anything of Virtoll, or look for what it lists.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

Component = dict[str, Any]
CRATES = Path(__file__).with_name("crates.json")
"""What the agent links: name, version, licence and SHA-256 (hex) of each crate, written by ``make licences``."""

_RUSTC = re.compile(rb"rustc version (\d+\.\d+\.\d+)")
_GLIBC = re.compile(rb"GNU C Library \(Debian GLIBC ([^)]+)\) stable release")


def library(
    name: str,
    version: str | None,
    purl: str,
    *,
    sha256: str | None = None,
    licences: Sequence[str] = (),
    expression: str | None = None,
) -> Component:
    """A part that another project made. ``purl``: its address without the version.

    ``sha256`` (hex) is that of the file in which it was published. ``licences`` are names as the project has them,
    ``expression`` is SPDX's. What is not known is left out.
    """
    kind, _, query = purl.partition("?")
    address = kind + (f"@{quote(version, safe='.~-_')}" if version else "") + (f"?{query}" if query else "")
    component: Component = {"type": "library", "bom-ref": address, "name": name, "purl": address}
    if version:
        component["version"] = version
    if sha256:
        component["hashes"] = [{"alg": "SHA-256", "content": sha256}]
    if expression:
        component["licenses"] = [{"expression": expression.replace("/", " OR ")}]
    elif licences:
        component["licenses"] = [{"license": {"name": licence}} for licence in licences]
    return component


def agent(version: str, sha256: str, program: bytes, *, bundled: bool = True) -> Component:
    """The agent: Rust's library and the C library by what the program says of itself, and the crates that it links.

    ``bundled``: it is this version's agent; of another one the crates are not known.
    """
    parts = []
    if match := _RUSTC.search(program):
        parts.append(library("rust-std", match[1].decode(), "pkg:generic/rust-std", expression="MIT OR Apache-2.0"))
    if match := _GLIBC.search(program):
        parts.append(library("glibc", match[1].decode(), "pkg:deb/debian/glibc", expression="LGPL-2.1-or-later"))
    for crate in json.loads(CRATES.read_text(encoding="utf-8")) if bundled else ():
        name, licence = crate["name"], crate["licence"]
        parts.append(library(name, crate["version"], f"pkg:cargo/{name}", sha256=crate["sha256"], expression=licence))
    component: Component = {
        "type": "application",
        "bom-ref": "virtoll-agent",
        "name": "virtoll-agent",
        "hashes": [{"alg": "SHA-256", "content": sha256}],
        "components": parts,
    }
    if bundled:
        return {**component, "version": version}
    return {
        **component,
        "properties": [{"name": "virtoll:crates", "value": "not known: VIRTOLL_AGENT named this program"}],
    }


def document(of: Component, components: Iterable[Component], *, serial: str) -> dict[str, Any]:
    """The whole bill. ``serial``: a text that is another one for other contents."""
    parts = sorted(components, key=lambda component: str(component["bom-ref"]))
    needs = [{"ref": of["bom-ref"], "dependsOn": [component["bom-ref"] for component in parts]}]
    needs += [
        {"ref": component["bom-ref"], "dependsOn": [part["bom-ref"] for part in component["components"]]}
        for component in parts
        if component.get("components")
    ]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, serial)}",
        "version": 1,
        "metadata": {"component": of},
        "components": parts,
        "dependencies": needs,
    }


def text(bill: Mapping[str, Any]) -> str:
    """The bill as a file holds it."""
    return json.dumps(bill, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def wheel(
    version: str, program: bytes, sha256: str, requirements: Mapping[str, Sequence[str]], scripts: Mapping[str, Any]
) -> dict[str, Any]:
    """The bill of a wheel: the agent, the page's scripts, and what pip installs besides.

    ``requirements``: of each extra ("" for none) what pip is told; the version that pip chooses is not in the wheel.
    ``scripts``: ``ORIGINS.toml`` of the page's library.
    """
    of = {"type": "application", "bom-ref": "virtoll", "name": "virtoll", "version": version}
    parts = [agent(version, sha256, program)]
    for file, origin in scripts.items():
        name, _, number = origin["package"].partition("@")
        component = library(name, number, f"pkg:npm/{name}", sha256=origin["sha256"], expression=origin["licence"])
        parts.append({**component, "properties": [{"name": "virtoll:file", "value": file}]})
    required: dict[str, Component] = {}
    for extra, listed in requirements.items():
        for requirement in listed:
            name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
            plain = re.sub(r"[-_.]+", "-", name).lower()
            if plain == "virtoll" or plain in required:
                continue
            properties = [{"name": "virtoll:requirement", "value": requirement}]
            properties += [{"name": "virtoll:extra", "value": extra}] if extra else []
            scope = "optional" if extra else "required"
            required[plain] = {**library(name, None, f"pkg:pypi/{plain}"), "scope": scope, "properties": properties}
    bill = document({**of, "purl": f"pkg:pypi/virtoll@{version}"}, [*parts, *required.values()], serial="")
    return {**bill, "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, text(bill))}"}
