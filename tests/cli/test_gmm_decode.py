"""The steps `gmm decode` and `gmm score`: what they print and write, and what they refuse."""

import argparse
import json
from pathlib import Path
from types import ModuleType

import pytest

from bayes_asr.cli import score as score_run
from bayes_asr.cli.gmm import decode, score
from bayes_asr.config import load
from bayes_asr.decode.search_record import read_record
from bayes_asr.errors import InputError
from bayes_asr.report.runs import find_systems
from bayes_asr.score.scores import read_scores
from tests.support.places import CONF
from tests.support.spoken_mixtures import Spoken, write_model, write_spoken


@pytest.fixture
def spoken(tmp_path: Path) -> Spoken:
    return write_spoken(tmp_path, per_speaker=2)


def run_step(step: ModuleType, *argv: object) -> None:
    parser = argparse.ArgumentParser()
    step.add_arguments(parser)
    step.run(parser.parse_args([str(arg) for arg in argv]))


def decode_dev(spoken: Spoken, out: Path, *options: object) -> None:
    run_step(decode, spoken.data, spoken.graph, spoken.model, out / "decode_dev", *options)


def score_dev(out: Path, *options: object) -> None:
    settings = [
        f"data.dir={out.parent}",
        "data.dev.features=[data]",
        "score.metric=wer",
        "score.costs=levenshtein",
    ]
    run_step(score, out, CONF / "base.yaml", *(f"--set={text}" for text in settings), *options)


def test_model_says_whether_speakers_are_adapted_to(
    spoken: Spoken, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    decode_dev(spoken, tmp_path / "plain")
    assert not (tmp_path / "plain" / "decode_dev" / "trans.1").exists()
    write_model(spoken.model, spoken.mixtures, "final.alimdl")
    decode_dev(spoken, tmp_path / "adapted", "--min-count", 50)
    assert (tmp_path / "adapted" / "decode_dev" / "trans.1").exists()
    decode_dev(spoken, tmp_path / "not", "--no-adapt", "--json")
    assert not (tmp_path / "not" / "decode_dev" / "trans.1").exists()
    plain, adapted, summary = capsys.readouterr().out.splitlines()
    assert plain.startswith("decoded 4 utterances, 240 frames into")
    assert adapted.startswith("decoded 4 utterances, 240 frames with transforms of their speakers")
    assert json.loads(summary)["utterances"] == 4


def test_record_says_with_what_a_set_was_decoded(spoken: Spoken, tmp_path: Path) -> None:
    decode_dev(spoken, tmp_path / "out", "--beam", 11, "--adapt", "--min-count", 50)
    record = read_record(tmp_path / "out" / "decode_dev")
    assert record is not None
    assert (record["beam"], record["lattice_beam"], record["gaussians"]) == (11, 6, 6)
    assert record["parameters"] == 6 * (2 * 4 + 1)
    assert record["model"] == str(spoken.model / "final.mdl")


def test_folder_is_scored_as_a_run(
    spoken: Spoken, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its configuration is the recipe's, with graph, search and weights of the decoding."""
    out = tmp_path / "mono"
    decode_dev(spoken, out, "--lmwt", 3, 12, "--beam", 11)
    score_dev(out)
    (plain,) = read_scores(out / "score_dev.json")
    assert (plain.metric, plain.counts.tokens, len(plain.speakers)) == ("wer", 8, 2)
    config = load([out / "config.yaml"])
    assert config.data.graph == (str(spoken.graph),)
    assert (config.decode.beam, config.decode.acoustic_scale) == (11.0, 0.083333)
    assert config.decode.lm_weights == (3.0, 12.0)
    capsys.readouterr()
    run_step(score_run, out)
    assert capsys.readouterr().out.splitlines()[0] == plain.line()
    (system,) = find_systems([tmp_path])
    assert (system.name, system.runs[0].parameters, system.runs[0].has_network) == (
        "mono",
        54,
        False,
    )


def test_what_gmm_decode_did_not_write_is_refused(spoken: Spoken, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="decode_dev: nothing that bayes-asr gmm decode wrote"):
        score_dev(tmp_path / "mono")
    decode_dev(spoken, tmp_path / "mono")
    (tmp_path / "mono" / "decode_dev" / "decode.json").write_text('{"graph": "x"}')
    with pytest.raises(InputError, match="decode dev first"):
        score_dev(tmp_path / "mono")


def test_settings_win_over_files(spoken: Spoken, tmp_path: Path) -> None:
    decode_dev(spoken, tmp_path / "mono")
    score_dev(tmp_path / "mono", "--set=score.metric=per")
    assert {s.metric for s in read_scores(tmp_path / "mono" / "score_dev.json")} == {"per"}
