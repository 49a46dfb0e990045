"""Debian's archive as nested hosts are made of it, and the programs that unpack it, in the place of the real ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

LIBRARIES = {
    "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2": b"the dynamic linker",
    "usr/lib64/ld-linux-x86-64.so.2@": b"../lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
    "usr/lib/x86_64-linux-gnu/libgcc_s.so.1": b"libgcc",
    "usr/lib/x86_64-linux-gnu/libc-2.36.so": b"libc",
    "usr/lib/x86_64-linux-gnu/libc.so.6@": b"libc-2.36.so",
}


@dataclass
class Archive:
    """``packages``: the files of each; a name with @ at its end is a link. Keeps what was ``asked``."""

    packages: dict[str, Mapping[str, bytes]] = field(default_factory=lambda: {"libc6": LIBRARIES})
    asked: list[tuple[object, ...]] = field(default_factory=list)

    @property
    def versions(self) -> dict[str, str]:
        """Those of all packages."""
        return {name: f"1:{number}" for number, name in enumerate(self.packages)}

    def fetch_closure(
        self, folder: Path, names: Sequence[str], progress: object, *, suites: Sequence[str] = ()
    ) -> dict[str, str]:
        """As ``debian.fetch_closure``."""
        assert callable(progress)
        self.asked.append(("fetch", *names, tuple(suites)))
        (folder / "a-list").write_text("no package")
        for name in self.packages:
            (folder / f"{name}.deb").write_text(name)
        return self.versions

    def install(self, tree: Path, suite: str, names: Sequence[str], progress: object) -> dict[str, str]:
        """As ``debian.install``."""
        assert callable(progress)
        self.asked.append(("install", suite, *names))
        tree.mkdir()
        for name in self.packages:
            self._unpack(name, tree)
        return self.versions

    def run(self, argv: Sequence[str | Path]) -> str:
        """What ``dpkg-deb`` does, and what a dynamic linker prints."""
        if argv[:2] == ["dpkg-deb", "--extract"]:
            deb, tree = map(Path, argv[2:])
            self._unpack(deb.read_text(), tree)
            return ""
        _linker, _option, places, *_ = argv
        return f"\tlibc.so.6 => {str(places).partition(':')[0]}/libc.so.6 (0x00007f1f0a0e4000)\n"

    def _unpack(self, name: str, tree: Path) -> None:
        for path, content in self.packages[name].items():
            file = tree / path.removesuffix("@")
            file.parent.mkdir(parents=True, exist_ok=True)
            if path.endswith("@"):
                file.symlink_to(content.decode())
            else:
                file.write_bytes(content)
                file.chmod(0o755 if "/bin/" in path else 0o644)
