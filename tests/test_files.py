"""Files that are whole or not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from hgr_jax._files import atomic_write


def test_a_file_replaces_the_earlier_one_when_complete(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "a.csv"
    for text in ("first", "second"):
        with atomic_write(path) as partial:
            assert partial.suffix == ".csv"
            partial.write_text(text)
            assert not path.exists() or path.read_text() == "first"
        assert path.read_text() == text
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("started", [True, False])
def test_a_failure_leaves_what_was_there(
    tmp_path: Path, error: type[BaseException], started: bool
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("before")

    def fail() -> None:
        with atomic_write(path) as partial:
            if started:
                partial.write_text("half")
            raise error

    with pytest.raises(error):
        fail()
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"), atomic_write(tmp_path / "file" / "a.csv"):
        pass
