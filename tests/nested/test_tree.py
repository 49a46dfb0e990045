"""A folder of unpacked packages: where its links lead, how it is merged, and which libraries its programs load."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.facts import refused

from virtoll.errors import ImageError
from virtoll.nested.tree import LINKER, merge, resolved, with_libraries

ELF = b"\x7fELF, as far as anybody looks"
GCC = "usr/lib/x86_64-linux-gnu/libgcc_s.so.1"
ANSWERS_AS_THE_LINKER = """\
#!/bin/sh
echo "$@" >>"$0.asked"
cat "$4.libraries"
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with a dynamic linker that prints what stands next to the program, as ``ld.so --list`` printed it."""
    made = tmp_path / "tree"
    linker = made / LINKER
    linker.parent.mkdir(parents=True)
    linker.write_text(ANSWERS_AS_THE_LINKER)
    linker.chmod(0o755)
    return made


def written(file: Path, content: bytes) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


def program(tree: Path, name: str, *libraries: str) -> Path:
    """A program of the folder; ``libraries``: lines of its dynamic linker."""
    file = written(tree / name, ELF)
    file.with_name(f"{file.name}.libraries").write_text("".join(f"\t{line}\n" for line in libraries))
    return file


def test_programs_and_libraries_are_below_usr_once_it_is_merged(tmp_path: Path) -> None:
    written(tmp_path / "bin/mount", b"mount")
    (tmp_path / "bin/umount").symlink_to("mount")
    written(tmp_path / "usr/bin/ip", b"ip")
    (tmp_path / "sbin").symlink_to("usr/elsewhere")
    merge(tmp_path)
    for name in ("bin", "sbin", "lib", "lib64"):
        assert (tmp_path / name).readlink() == Path(f"usr/{name}")
        assert (tmp_path / "usr" / name).is_dir()
    assert (tmp_path / "usr/bin/mount").read_bytes() == b"mount"
    assert (tmp_path / "usr/bin/umount").readlink() == Path("mount")
    assert (tmp_path / "usr/bin/ip").read_bytes() == b"ip"


def test_a_merged_folder_stays_as_it_is(tmp_path: Path) -> None:
    written(tmp_path / "lib/libc.so", b"c")
    merge(tmp_path)
    merge(tmp_path)
    assert (tmp_path / "lib/libc.so").read_bytes() == b"c"
    assert (tmp_path / "lib").readlink() == Path("usr/lib")


def test_a_link_leads_to_its_file_within_the_folder(tmp_path: Path) -> None:
    """Debian's alternatives: an absolute link, of a link, is one of the folder and none of this host."""
    file = written(tmp_path / "usr/bin/mawk", b"mawk")
    alternatives = tmp_path / "etc/alternatives"
    alternatives.mkdir(parents=True)
    (alternatives / "awk").symlink_to("/usr/bin/mawk")
    (tmp_path / "usr/bin/awk").symlink_to("/etc/alternatives/awk")
    (tmp_path / "usr/bin/nawk").symlink_to("awk")
    for name in ("awk", "nawk", "mawk"):
        assert resolved(tmp_path, tmp_path / "usr/bin" / name) == file


def test_each_program_comes_with_what_its_linker_would_load(tree: Path) -> None:
    places = tree / "usr/lib/x86_64-linux-gnu"
    libraries = (
        "linux-vdso.so.1 (0x00007ffe4a5f2000)",
        f"libmnl.so.0 => {places}/libmnl.so.0 (0x00007f1f0a2c5000)",
        f"libc.so.6 => {places}/libc.so.6 (0x00007f1f0a0e4000)",
        "/lib64/ld-linux-x86-64.so.2 (0x00007f1f0a2e1000)",
    )
    program(tree, "usr/bin/ip", *libraries)
    program(tree, "usr/bin/flock", libraries[2])
    written(tree / "usr/bin/script", b"#!/bin/sh\n")
    names = ["usr/bin/ip", "usr/bin/flock", "usr/bin/script"]
    loaded = [places / "libmnl.so.0", places / "libc.so.6"]
    expected = {tree / LINKER, tree / GCC, *(tree / name for name in names), *loaded}
    files = with_libraries(tree, names)
    assert set(files) == expected
    assert len(files) == len(expected), "each once"
    asked = Path(f"{tree / LINKER}.asked").read_text().splitlines()
    assert [line.split()[-1] for line in asked] == [str(tree / name) for name in names[:2]], "a script loads nothing"
    option, folders, listing, _ = asked[0].split()
    assert (option, listing) == ("--library-path", "--list")
    assert folders.split(":")[:2] == [str(places), str(tree / "usr/lib")]


def test_a_program_behind_a_link_of_the_folder_is_looked_into(tree: Path) -> None:
    library = tree / "usr/lib/libone.so"
    program(tree, "usr/lib/xen/bin/xl", f"libone.so => {library} (0x0)")
    link = tree / "usr/sbin/xl"
    link.parent.mkdir()
    link.symlink_to("../lib/xen/bin/xl")
    assert {link, library} <= set(with_libraries(tree, ["usr/sbin/xl"]))


def test_a_program_or_a_library_that_is_missing_is_named(tree: Path) -> None:
    with refused("usr/bin/absent", error=ImageError):
        with_libraries(tree, ["usr/bin/absent"])
    program(tree, "usr/bin/ip", "libbpf.so.1 => not found")
    with refused("usr/bin/ip", "libbpf.so.1", error=ImageError):
        with_libraries(tree, ["usr/bin/ip"])
