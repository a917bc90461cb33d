"""A small part of the attacks of `tests.attacks.siege`, which runs as many as are asked for."""

import os
import random
import shutil
from pathlib import Path

import pytest

from tests.attacks import siege, verbs
from tests.attacks.failing_calls import run_preloaded
from tests.attacks.siege import ATTACKS, FILES, RUN, Outcome, besiege, meet

ROUNDS = 25


@pytest.mark.slow
@pytest.mark.parametrize("attack", [a for a in ATTACKS if a not in (*FILES, RUN)])
def test_mean_inputs_are_answered_or_refused_in_one_line(attack: str) -> None:
    outcomes = [meet(attack, 1, number) for number in range(ROUNDS)]
    assert [o.trace for o in outcomes if o.result not in ("answered", "refused")] == []
    assert {o.result for o in outcomes} >= {"refused"}


@pytest.mark.parametrize("what", ["forward", "graph"])
def test_calls_whose_files_are_changed_answer_or_refuse_in_one_line(what: str) -> None:
    outcomes = [meet(f"files of {what}", 1, number) for number in range(6)]
    assert [o.trace for o in outcomes if o.result not in ("answered", "refused")] == []
    assert {o.result for o in outcomes} >= {"refused"}


@pytest.mark.slow
def test_recipes_on_changed_corpora_go_on_or_refuse() -> None:
    outcomes = [*besiege(RUN, 20261203, range(6))]
    assert [o.trace for o in outcomes if o.result not in ("answered", "refused")] == []
    assert {o.result for o in outcomes} == {"answered", "refused"}


def test_verbs_answer_alike_in_children_and_as_users_run_them() -> None:
    (alike,) = besiege("separators in texts, options of wer", 1, [1], real_every=2)
    assert alike.result in ("answered", "refused"), alike.trace


def test_another_answer_of_a_real_process_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(rng: random.Random, _: object) -> None:
        if verbs.run_main is verbs.run_apart:
            raise siege.RefusedError("x: error: no")

    monkeypatch.setitem(ATTACKS, "two answers", answer)
    assert [o.result for o in besiege("two answers", 1, range(4), real_every=2)] == [
        *("answered", "unlike", "answered", "unlike")
    ]


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("gcc"), reason="gcc is not there")
def test_calls_of_the_system_that_fail_leave_all_whole(tmp_path: Path) -> None:
    done = run_preloaded(tmp_path, "--count=1")
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_what_is_looked_for_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A traceback, a dead process and an endless run are told apart, and the rest goes on."""

    def misbehave(rng: random.Random, _: object) -> None:
        kind = rng.choice(("answer", "refuse", "raise", "die", "hang"))
        if kind == "refuse":
            raise siege.RefusedError("x: error: no")
        if kind == "raise":
            raise RuntimeError("found")
        if kind == "die":
            os._exit(9)
        while kind == "hang":
            pass

    monkeypatch.setitem(ATTACKS, "misbehaviour", misbehave)
    monkeypatch.setattr(siege, "SECONDS", 2)
    outcomes = list(besiege("misbehaviour", 1, range(8)))
    expected = {
        "answer": ("answered", ""),
        "refuse": ("refused", ""),
        "raise": ("traceback", "found"),
        "die": ("traceback", "died"),
        "hang": ("over a minute", ""),
    }
    kinds = [random.Random(f"misbehaviour 1 {n}").choice([*expected]) for n in range(8)]
    assert {*kinds} == {*expected}
    assert outcomes == [
        Outcome("misbehaviour", n, expected[kind][0], outcomes[n].trace)
        for n, kind in enumerate(kinds)
    ]
    assert all(expected[kind][1] in outcomes[n].trace for n, kind in enumerate(kinds))
