"""Small files of /proc and /sys, read: what a host does not offer is None, never zero."""

from __future__ import annotations

from pathlib import Path


def read_text(path: Path) -> str | None:
    """A small file's text without white space at its ends, or None where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def read_numbers(paths: list[Path]) -> tuple[int, ...] | None:
    """The numbers in small files; None where there are no files or none can be read now."""
    texts = [read_text(path) for path in paths]
    numbers = tuple(int(text) for text in texts if text is not None and text.lstrip("-").isdigit())
    return numbers or None


def read_table(path: Path) -> dict[str, int]:
    """`name number` lines, as in /proc/vmstat; what is not of that form is left out."""
    rows = (line.split() for line in (read_text(path) or "").splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}


def colon_table(text: str | None) -> dict[str, int]:
    """`name: number` lines, as in /proc/PID/status and /proc/PID/io; what is not of that form is left out."""
    rows = (line.partition(":") for line in (text or "").splitlines())
    return {name: int(value) for name, _, value in rows if value.strip().isdigit()}


def numbered(folder: Path) -> list[int]:
    """The folders in it whose names are numbers, such as processes; none where it cannot be read."""
    try:
        return [int(entry.name) for entry in folder.iterdir() if entry.name.isdigit()]
    except OSError:
        return []


def memory_bytes(root: Path, field: str) -> int | None:
    """A field of /proc/meminfo in bytes."""
    for line in (read_text(root / "proc/meminfo") or "").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    return None
