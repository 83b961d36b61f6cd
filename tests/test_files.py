"""Files that are whole or not there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hgr_jax._files import atomic_write


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


def test_links_stay_and_lead_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("there", "not there"):
        target, link = tmp_path / "in" / name, tmp_path / f"link to {name}"
        link.symlink_to(target)
        if name == "there":
            target.write_text("before")
        with atomic_write(link) as partial:
            partial.write_text("after")
        assert link.is_symlink()
        assert target.read_text() == "after"
    assert len(list((tmp_path / "in").iterdir())) == 2


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with atomic_write(pipe) as place:
        place.write_text("rows")
    assert os.read(reading, 10) == b"rows"
    os.close(reading)
    assert pipe.is_fifo()
