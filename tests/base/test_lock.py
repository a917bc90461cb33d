"""Files that stay in a folder: locks and logs."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.base.lock import in_turn, in_use, is_held
from bayes_asr.base.log import also_in


@pytest.mark.parametrize("begin", [in_use, in_turn, also_in])
@pytest.mark.parametrize("kind", ["link", "link to nothing", "pipe", "link to a device"])
def test_what_is_planted_in_the_place_of_a_lock_or_a_log_is_not_written_to(
    begin: Callable[[Path], AbstractContextManager[object]], kind: str, tmp_path: Path
) -> None:
    folder, precious = tmp_path / "run", tmp_path / "precious"
    folder.mkdir()
    place = folder / ".in_use"
    if kind == "link":
        precious.write_text("precious")
    if kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to("/dev/null" if kind.endswith("device") else precious)
    with pytest.raises(InputError, match=f"^{place}: is a link, a pipe or a device"), begin(place):
        pass
    assert precious.exists() == (kind == "link")
    assert kind != "link" or precious.read_text() == "precious"


def test_a_pipe_is_no_lock(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert not is_held(tmp_path / "pipe")
    with in_use(tmp_path / "lock"):
        assert is_held(tmp_path / "lock")
    assert not is_held(tmp_path / "lock")
