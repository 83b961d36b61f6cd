"""Small files of tables."""

from __future__ import annotations

from pathlib import Path


def write(folder: Path, content: str | bytes, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def write_cells(folder: Path, cells: list[str]) -> Path:
    """Write a column x of cells, and another one of numbers."""
    return write(folder, "\n".join(["x;y", *(f"{cell};{i}" for i, cell in enumerate(cells)), ""]))
