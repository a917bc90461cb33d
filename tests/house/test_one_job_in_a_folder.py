"""Two jobs that would write into one folder, and what a killed one left there."""

from pathlib import Path

import pytest

from bayes_asr.base import lock
from bayes_asr.base.errors import InputError
from bayes_asr.base.files import HOST
from tests.attacks.laboratory import bayes_asr, build, contents, copy, inside

COMMANDS = {
    "forward": "forward run --data data/test --out out",
    "decode": "decode --loglikes run/forward_test/loglikes.ark --graph exp/graph"
    " --model exp/ali/final.mdl --out out",
}
BUSY = "out: another process is at work in this folder; wait until it ends, or choose another"


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("jobs") / "laboratory")


@pytest.mark.parametrize("verb", COMMANDS)
def test_second_job_is_refused_and_harms_nothing(
    verb: str, laboratory: Path, tmp_path: Path
) -> None:
    lab = copy(laboratory, tmp_path / "lab")
    with inside(lab):
        assert bayes_asr(COMMANDS[verb]).status == 0
        with lock.alone_in(lab / "out"):
            before = contents(lab)
            said = bayes_asr(COMMANDS[verb])
            assert (said.status, said.complaint.startswith(BUSY)) == (1, True)
            assert contents(lab) == before
        assert bayes_asr(COMMANDS[verb]).status == 0
    assert not (lab / "out" / lock.MARK).exists()


@pytest.mark.parametrize("verb", COMMANDS)
def test_what_a_killed_job_left_goes_at_the_next_start(
    verb: str, laboratory: Path, tmp_path: Path
) -> None:
    lab = copy(laboratory, tmp_path / "lab")
    partial = f".{HOST}.99999999.0123456789abcdef.partial/loglikes.ark"
    left = {"forward": partial, "decode": ".decode.x1y2/lat.1.gz"}[verb]
    with inside(lab):
        assert bayes_asr(COMMANDS[verb]).status == 0
        whole = contents(lab / "out")
        for name in (lock.MARK, left):
            (lab / "out" / name).parent.mkdir(exist_ok=True)
            (lab / "out" / name).write_bytes(b"half")
        assert bayes_asr(COMMANDS[verb]).status == 0
    assert contents(lab / "out") == whole


def test_mark_that_its_last_user_removes_keeps_nobody_out_and_is_not_relied_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is opened, removed, then locked: meanwhile another process may have made a new one."""
    mark = tmp_path / lock.MARK
    take = lock._lock
    monkeypatch.setattr(lock, "_lock", lambda file: (mark.unlink(), take(file)))
    with pytest.raises(InputError, match="at work in this folder"), lock.in_use(mark):
        pass
    monkeypatch.undo()
    with lock.in_use(mark):
        assert lock.is_held(mark)
