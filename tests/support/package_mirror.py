"""A mirror of Debian packages that a test makes for an image."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from virtoll.image import Recipe
from virtoll.image.cache import file_digest

FREE = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\nFiles: *\nLicense: Expat\n"


@dataclass
class Mirror:
    """A folder that apt takes for a mirror, with packages of the test's own."""

    folder: Path
    index: list[str] = field(default_factory=list)

    def add(
        self,
        name: str,
        *,
        section: str = "utils",
        licence: str | None = FREE,
        depends: str = "",
        program: bytes | None = None,
    ) -> None:
        """A package with /usr/share/NAME/word, which holds "from NAME", and a copyright file where it has a licence.

        ``program``: what is to be /usr/bin/busybox, to which /bin/busybox and /bin/dd are links.
        """
        tree = self.folder / "trees" / name
        files = {f"usr/share/{name}/word": f"from {name}\n"}
        files["DEBIAN/control"] = (
            f"Package: {name}\nVersion: 1.2-3\nArchitecture: all\nMaintainer: A <a@example.org>\n"
            f"Section: {section}\n{f'Depends: {depends}' + chr(10) if depends else ''}Description: for a test\n"
        )
        if licence is not None:
            files[f"usr/share/doc/{name}/copyright"] = licence
        for path, text in files.items():
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).write_text(text, encoding="utf-8")
        if program is not None:
            (tree / "usr/bin").mkdir(parents=True)
            (tree / "usr/bin/busybox").write_bytes(program)
            (tree / "bin").mkdir()
            for link in ("busybox", "dd"):
                (tree / "bin" / link).symlink_to("../usr/bin/busybox")
        for made in (tree, *tree.rglob("*")):  # whatever the umask is
            if not made.is_symlink():
                made.chmod(0o755 if made.is_dir() or made.name == "busybox" else 0o644)
        deb = self.folder / f"{name}.deb"
        subprocess.run(["dpkg-deb", "--root-owner-group", "--build", tree, deb], check=True, capture_output=True)
        facts = f"Filename: ./{deb.name}\nSize: {deb.stat().st_size}\nSHA256: {file_digest(deb)}\n"
        self.index.append(files["DEBIAN/control"] + facts)
        (self.folder / "Packages").write_text("\n".join(self.index), encoding="utf-8")

    def recipe(self, *names: str) -> Recipe:
        """These packages out of this mirror, and nothing besides."""
        source = f"deb [trusted=yes] copy:{self.folder} ./"
        return Recipe("bookworm", names, variant="custom", source=source, mode="chrootless")
