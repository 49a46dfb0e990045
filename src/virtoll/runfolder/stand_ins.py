"""Stand-ins for what tells a host, a user or a place: the same name always has the same one, for the same key.

A stand-in is made by HMAC-SHA256 (RFC 2104) of the name, so that nobody without the key can try names until one fits.
That matters: a host name has little to guess, and so has a fingerprint of a host without a machine-id.

Two kinds of things are found in a text: names that are known (`StandIns.names`), and what looks like an address, a
path, an interface or a device. Addresses of documentation and benchmarks stay, and so do paths of the system itself.
Main types: `StandIns`. Pure.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

GENERIC: Final = frozenset(
    {
        *("api", "debian", "each", "example", "fedora", "generator", "guest", "guests", "host", "hypervisor", "lab"),
        *("left", "linux", "local", "localhost", "machine", "marks", "native", "nested", "none", "peer", "right"),
        *(
            "auto",
            "both",
            "bridge",
            "channel",
            "complete",
            "end",
            "entry",
            "exit",
            "failed",
            "idle",
            "in",
            "interrupted",
        ),
        *(
            "invalid",
            "lower",
            "higher",
            "model",
            "nic",
            "one",
            "out",
            "points",
            "figures",
            "running",
            "skipped",
            "start",
        ),
        *("root", "runs", "server", "sink", "system", "this", "ubuntu", "user", "users", "virtoll"),
    }
)
"""Names that tell nobody anything, and words of the run folder's format that a host may be called by."""
LEAST_LETTERS: Final = 3
_KEPT_NETWORKS: Final = tuple(
    ipaddress.ip_network(network)
    for network in (
        *("0.0.0.0/32", "127.0.0.0/8", "192.0.2.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
        *("255.0.0.0/8", "::/127", "2001:2::/48", "2001:db8::/32"),
    )
)
"""Unspecified, loopback, netmasks, documentation (RFC 5737, 3849) and benchmarks (RFC 2544, 5180)."""
_KEPT_PATHS: Final = re.compile(r"/(?:proc|sys|bin|sbin|lib|lib64|usr/s?bin|usr/lib|dev(?!/disk|/mapper))(?:/|$)")
_KEPT_HOSTS: Final = re.compile(r"(?:[\w-]+\.)*(?:debian\.org|ubuntu\.com|kernel\.org|github\.com)")
_LAB_MAC: Final = "02:76:74:"  # of the lab's own links
_MAC = r"\b[0-9A-Fa-f]{2}(?P<mac>[:-])(?:[0-9A-Fa-f]{2}(?P=mac)){4}[0-9A-Fa-f]{2}\b"
_UUID = r"\b[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\b"
_URL = r"\b[a-z][a-z0-9+.-]*://[^\s\"'<>]*"
_AT_HOST = r"[\w.+-]+@[A-Za-z0-9][\w.-]*"
_IPV4 = r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?!\.?\d)"
_IPV6 = r"(?<![\w:.])[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?![\w:.])"
_PCI = r"\b(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-1][0-9a-f]\.[0-7]\b"
_NIC = r"\b(?:en|wl|ww|ib)(?:P\d+)?(?:p\d+s\d+|s\d+|o\d+|x[0-9a-f]{12})\w*"
_PATH = r"(?<![\w.>~/-])~?/[\w.+@%~:-]*[\w+@%~-](?:/(?:[\w.+@%~:-]*[\w+@%~-])?)*"
_IN_A_PATH: Final = re.compile(rf"{_MAC}|{_UUID}|{_PCI}|{_NIC}")


@dataclass(frozen=True)
class StandIns:
    """What replaces what. `key`: the secret. `names`: known names with the word that their stand-in begins with.

    `hidden`: words of the user's, which are replaced wherever they stand, also within a longer word.
    """

    key: bytes
    names: Mapping[str, str] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()

    def digest(self, value: str, digits: int = 8) -> str:
        """So many hexadecimal digits that stand for a value."""
        return hmac.new(self.key, value.encode(), hashlib.sha256).hexdigest()[:digits]

    def of(self, kind: str, value: str) -> str:
        """``host-1a2b3c4d``: a name that tells the kind alone; letters' case makes no other."""
        return f"{kind}-{self.digest(value.lower())}"

    def text(self, text: str) -> str:
        """A text with stand-ins in it; what is one already stays."""
        if self._known is not None:
            text = self._known.sub(self._name, text)
        return self.look(text)

    def look(self, text: str) -> str:
        """A text in which what looks like an address, a path or a device has a stand-in; known names stay."""
        return _LOOKS.sub(self._looks, text)

    @cached_property
    def _known(self) -> re.Pattern[str] | None:
        """The longest first: ``box.example.org`` before ``box``."""
        parts = [re.escape(word) for word in _longest_first(self.hidden)]
        parts += [rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])" for name in _longest_first(self.names)]
        return re.compile("|".join(parts), re.IGNORECASE) if parts else None

    @cached_property
    def _kinds(self) -> Mapping[str, str]:
        return {name.lower(): kind for name, kind in self.names.items()}

    def _name(self, match: re.Match[str]) -> str:
        return self.of(self._kinds.get(match[0].lower(), "name"), match[0])

    def _looks(self, match: re.Match[str]) -> str:
        return _MAKERS[str(match.lastgroup)](self, match[0])


def usable(name: str) -> bool:
    """Whether a name may be looked for in texts: neither too short, nor a number, nor a word that anybody uses."""
    return len(name) >= LEAST_LETTERS and not name.isdigit() and name.lower() not in GENERIC


def parts_of_host(words: str) -> dict[str, str]:
    """What tells a host in ``user@host.domain:port``, with the kind of each: the host with and without its domain."""
    user, _, host = words.removeprefix("ssh ").rpartition("@")
    host = re.sub(r":\d+$", "", host)
    hosts = () if re.fullmatch(_IPV4, host) else (host, host.partition(".")[0])  # an address is found as such
    return {name: kind for name, kind in (*dict.fromkeys(hosts, "host").items(), (user, "user")) if usable(name)}


def _longest_first(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: (-len(name), name))


def _mac(stand_ins: StandIns, mac: str) -> str:
    plain = mac.lower().replace("-", ":")
    if plain.startswith(_LAB_MAC) or plain in ("00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff"):
        return mac
    digest = stand_ins.digest(plain, 10)
    return ":".join(["02", *(digest[place : place + 2] for place in range(0, 10, 2))])


def _uuid(stand_ins: StandIns, uuid: str) -> str:
    digest = stand_ins.digest(uuid.lower(), 32)
    return "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:]))


def _address(stand_ins: StandIns, text: str) -> str:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return text  # a time of day, a version
    kept = any(address in network for network in _KEPT_NETWORKS if network.version == address.version)
    return text if kept else stand_ins.of("address", str(address))


def _url(stand_ins: StandIns, url: str) -> str:
    """A public archive's stays; of another the host and what it serves are told by nothing, and a file is a path."""
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    if _KEPT_HOSTS.fullmatch(host):
        return url
    if host:
        served = f"/{stand_ins.of('path', path)}" if path else slash
        return f"{scheme}://{stand_ins.of('host', host)}{served}"
    name, mark, query = path.partition("?")
    kept = scheme != "file" and "/" not in name  # a driver of libvirt's
    return f"{scheme}:///{name if kept else stand_ins.of('path', name)}{mark}{stand_ins.look(query)}"


def _path(stand_ins: StandIns, text: str) -> str:
    path = text.rstrip("/")
    kept = len(path) < LEAST_LETTERS or (_KEPT_PATHS.match(path) and not _IN_A_PATH.search(path))
    return text if kept else f"/{stand_ins.of('path', path)}"


def _at_host(stand_ins: StandIns, login: str) -> str:
    return stand_ins.of("login", login)


_MAKERS: Final[Mapping[str, Callable[[StandIns, str], str]]] = {
    "an_url": _url,
    "a_mac": _mac,
    "an_uuid": _uuid,
    "a_login": _at_host,
    "a_device": lambda stand_ins, device: stand_ins.of("pci", device),
    "an_ipv4": _address,
    "an_ipv6": _address,
    "a_nic": lambda stand_ins, nic: stand_ins.of("nic", nic),
    "a_path": _path,
}
_LOOKS: Final = re.compile(
    "|".join(
        f"(?P<{name}>{pattern})"
        for name, pattern in zip(_MAKERS, (_URL, _MAC, _UUID, _AT_HOST, _PCI, _IPV4, _IPV6, _NIC, _PATH), strict=True)
    )
)
