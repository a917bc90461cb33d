"""Progress in a log: not too often, not too seldom, with the time that is left."""

import os
import re
from pathlib import Path
from typing import Any

import pytest

from bayes_asr.base import progress
from bayes_asr.base.progress import Progress, follow
from bayes_asr.train.start import train
from tests.support.training_runs import OPTIONS, config_of


class Clock:
    """Time that passes when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(progress.time, "monotonic", made.monotonic)
    return made


def lines(said: str) -> list[str]:
    return re.findall(r"work: (.*)", said)


def test_long_work_says_a_line_for_each_tenth(clock: Clock, messages: Any) -> None:
    with Progress("work", "batches", 200) as shown:
        for number in range(200):
            clock.now += 10
            shown.advance(loss=f"{number}")
    told = lines(messages())
    assert len(told) == 9
    assert told[0] == "20 of 200 batches, 0:30:00 left, loss 19"
    assert told[-1] == "180 of 200 batches, 0:03:20 left, loss 179"


def test_very_long_work_says_one_every_ten_minutes(clock: Clock, messages: Any) -> None:
    with Progress("work", "batches", 1000) as shown:
        for _ in range(50):
            clock.now += 60
            shown.advance()
    assert [line.split()[0] for line in lines(messages())] == ["10", "20", "30", "40", "50"]


def test_work_that_goes_on_counts_what_is_left_at_its_own_pace(clock: Clock, messages: Any) -> None:
    with Progress("work", "batches", 100, initial=50) as shown:
        clock.now += 30
        for _ in range(20):
            clock.now += 1
            shown.advance()
    assert lines(messages())[0] == "51 of 100 batches, 0:25:19 left"


def test_short_work_and_other_processes_say_nothing(clock: Clock, messages: Any) -> None:
    with Progress("work", "batches", 100) as shown:
        for _ in range(100):
            clock.now += 0.1
            shown.advance()
    with Progress("work", "batches", 100, shown=False) as shown:
        for _ in range(100):
            clock.now += 100
            shown.advance()
    assert not lines(messages())


def test_items_pass_and_unknown_totals_are_counted(clock: Clock, messages: Any) -> None:
    def items() -> Any:
        for number in range(3):
            clock.now += 700
            yield number

    assert list(follow(items(), "work")) == [0, 1, 2]
    assert lines(messages()) == ["1 utt", "2 utt", "3 utt"]


def test_bar_goes_round_a_pipe_to_the_terminal_that_a_script_names(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, messages: Any, tmp_path: Path
) -> None:
    """The log has its lines all the same; a file that is no terminal is left as it is."""
    ours, theirs = os.openpty()
    monkeypatch.setenv(progress.TERMINAL, os.ttyname(theirs))
    list(follow(range(3), "work"))
    bar = os.read(ours, 10_000).decode()
    assert "work:   0%" in bar
    assert "0/3" in bar
    with Progress("work", "batches", 200) as shown:
        for _ in range(200):
            clock.now += 10
            shown.advance()
    assert len(lines(messages())) == 9
    os.close(theirs)
    os.close(ours)
    file, absent = tmp_path / "no terminal", tmp_path / "absent"
    file.write_text("text")
    for name in (file, absent):
        monkeypatch.setenv(progress.TERMINAL, str(name))
        list(follow(range(3), "work"))
    assert file.read_text() == "text"
    assert not absent.exists()


def test_epochs_say_how_long_the_run_will_take(
    small_corpus: Any, tmp_path: Any, messages: Any
) -> None:
    """And what comes before the first is short."""
    train(
        config_of(small_corpus, *OPTIONS, "train.epochs=3", f"data.index={tmp_path}"),
        tmp_path / "run",
    )
    epochs = re.findall(r"epoch (\d) of 3: .*; took 0:\d\d:\d\d, (.*)", messages())
    assert [number for number, _ in epochs] == ["1", "2", "3"]
    assert re.fullmatch(r"0:\d\d:\d\d left", epochs[0][1])
    assert epochs[2][1] == "the last"
    before = messages().split("epoch 1 of 3")[0].splitlines()
    assert len(before) <= 9
    assert not re.search("not there yet|made in", messages())
