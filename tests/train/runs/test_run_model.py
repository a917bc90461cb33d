"""The final.mdl of a run, which must be the one that it was trained with."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.cli import main
from bayes_asr.kaldi_io.initial_mdl import build_monophone_model
from bayes_asr.kaldi_io.mdl import write_transition_model
from bayes_asr.kaldi_io.side_files import ENVIRONMENT
from bayes_asr.kaldi_io.transition_model import number_transitions
from bayes_asr.train.runs.configuration import read_configuration
from bayes_asr.train.runs.run_model import copy_environment, locate_model
from bayes_asr.train.start import train
from tests.support.small_corpus import MODEL, PHONES, write_corpus
from tests.support.training_runs import config_of

REVERSED = np.hstack([MODEL.tuples[:, :2], MODEL.tuples[::-1, 2:]])
OTHERS = {
    "of other states": build_monophone_model(PHONES, dict(zip(PHONES, (1, 2, 3), strict=True))),
    "of other pdfs": number_transitions(MODEL.topology, REVERSED, MODEL.log_prob),
}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    train(config_of(write_corpus(tmp_path / "corpus"), "train.epochs=1"), tmp_path / "run")
    return tmp_path / "run"


def test_the_model_of_the_training_may_have_other_probabilities(run: Path) -> None:
    config = read_configuration(run)
    path = locate_model(run, config)
    assert path == Path(config.data.dir) / "exp/ali/final.mdl"
    write_transition_model(replace(MODEL, log_prob=MODEL.log_prob * 2), path)
    assert locate_model(run, config) == path


@pytest.mark.parametrize("other", OTHERS)
def test_another_model_in_its_place_is_refused(other: str, run: Path, tmp_path: Path) -> None:
    config = read_configuration(run)
    path = locate_model(run, config)
    assert OTHERS[other].num_pdfs == MODEL.num_pdfs
    for folder in ("ali", "ali_dev"):
        write_transition_model(OTHERS[other], path.parents[1] / folder / "final.mdl")
    with pytest.raises(InputError, match=r"ali/final\.mdl: has other transitions than when"):
        train(replace(config, train=replace(config.train, epochs=2)), run)
    copy_environment(run, tmp_path)  # as a run that has the network of this one
    for place in (run, tmp_path):
        with pytest.raises(InputError, match=r"final\.mdl: has other transitions than"):
            locate_model(place, config)
    for folder in ("ali", "ali_dev"):
        write_transition_model(MODEL, path.parents[1] / folder / "final.mdl")
    locate_model(run, config)


def test_a_run_that_does_not_say_is_taken_as_it_is(run: Path, tmp_path: Path) -> None:
    config = read_configuration(run)
    environment = json.loads((run / ENVIRONMENT).read_text())
    del environment["transitions"]
    (tmp_path / ENVIRONMENT).write_text(json.dumps(environment))
    write_transition_model(OTHERS["of other states"], path := locate_model(run, config))
    assert locate_model(tmp_path, config) == path


def test_runs_of_two_models_are_not_combined(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def combine(other: Path, out: str) -> int:
        return main(["combine", str(run), str(other), "--out", str(tmp_path / out)])

    twin = shutil.copytree(run, tmp_path / "twin")
    assert combine(twin, "both") == 0
    environments = [json.loads((at / ENVIRONMENT).read_text()) for at in (run, tmp_path / "both")]
    assert environments[0]["transitions"] == environments[1]["transitions"]
    (twin / ENVIRONMENT).write_text(json.dumps({**environments[0], "transitions": "others"}))
    assert combine(twin, "mixed") == 1
    assert "final.mdl of different transitions" in capsys.readouterr().err
