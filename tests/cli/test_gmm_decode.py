"""The steps `gmm decode`, `baseline` and `score`: what they print and write, and refuse."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.cli import score as score_run
from bayes_asr.cli.gmm import baseline, decode, score
from bayes_asr.config.merge import load
from bayes_asr.decode.search.search_record import read_record
from bayes_asr.evaluate.report.runs import find_systems
from bayes_asr.evaluate.score.scores import read_scores
from bayes_asr.kaldi_io.ark import write_matrices
from tests.attacks.laboratory import contents
from tests.support.places import CONF, RECIPES
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
    assert adapted.startswith("decoded 4 utterances, 240 frames with transforms of their speakers,")
    assert json.loads(summary)["utterances"] == 4


def test_record_says_with_what_a_set_was_decoded(spoken: Spoken, tmp_path: Path) -> None:
    decode_dev(spoken, tmp_path / "out", "--beam", 11, "--adapt", "--min-count", 50)
    record = read_record(tmp_path / "out" / "decode_dev")
    assert record is not None
    assert (record["beam"], record["lattice_beam"], record["gaussians"]) == (11, 6, 6)
    assert record["parameters"] == 6 * (2 * 4 + 1)
    assert record["model"] == str(spoken.model / "final.mdl")


@pytest.mark.parametrize("out", ["data", "graph", "model", "link"])
def test_what_is_read_is_not_written_to(out: str, spoken: Spoken, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(spoken.model)
    before = contents(tmp_path)
    with pytest.raises(InputError, match=f"{out}: holds what is read"):
        run_step(decode, spoken.data, spoken.graph, spoken.model, tmp_path / out)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["lat.3.gz", "trans.2", "words.txt"])
def test_what_others_have_decoded_stays(name: str, spoken: Spoken, tmp_path: Path) -> None:
    """As Kaldi's decode.sh leaves it, and the table of a lang folder."""
    (theirs := tmp_path / "decode_dev").mkdir()
    (theirs / name).write_bytes(b"of Kaldi")
    with pytest.raises(InputError, match=f"decode_dev: holds {name}, which bayes-asr gmm decode"):
        decode_dev(spoken, tmp_path)
    assert [(path.name, path.read_bytes()) for path in theirs.iterdir()] == [(name, b"of Kaldi")]


def test_a_folder_of_an_earlier_version_is_decoded_anew(spoken: Spoken, tmp_path: Path) -> None:
    """The first one left no decode.json."""
    decode_dev(spoken, tmp_path / "mono")
    folder = tmp_path / "mono" / "decode_dev"
    before = contents(folder)
    (folder / "decode.json").unlink()
    decode_dev(spoken, tmp_path / "mono")
    assert contents(folder) == before


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


def decode_baseline(spoken: Spoken, out: Path, *settings: str) -> None:
    named = [
        f"data.dir={out.parent}",
        "data.train.alignments=[model]",
        "data.graph=[graph]",
        *(f"data.{name}.features=[data]" for name in ("dev", "test")),
        "decode.lm_weights=[3, 12]",
        "decode.insertion_penalties=[0, 0.5]",
        *settings,
    ]
    options = [f"--set={text}" for text in named]
    run_step(baseline, CONF / "base.yaml", *options, "--out", out)


def test_baseline_is_decoded_as_the_networks_of_a_recipe(spoken: Spoken, tmp_path: Path) -> None:
    """Its features stay as they are, whatever the model's folder does to cepstra."""
    beams = "--beam", 11, "--lattice-beam", 7, "--max-active", 900, "--min-active", 100
    decode_dev(spoken, tmp_path / "plain", "--lmwt", 3, 12, "--wip", 0, 0.5, *beams)
    for name in ("cmvn_opts", "delta_opts"):
        (spoken.model / name).unlink()
    (spoken.data / "feats.scp").rename(spoken.data / "moved.scp")
    scp = (spoken.data / "moved.scp").read_text().replace(str(spoken.data), "/elsewhere")
    (spoken.data / "feats.scp").write_text(scp)
    out = tmp_path / "baseline"
    searched = "decode.beam=11", "decode.lattice_beam=7", "decode.max_active=900"
    moved = f"data.moved=/elsewhere={spoken.data}"
    decode_baseline(spoken, out, moved, *searched, "decode.min_active=100")
    plain = tmp_path / "plain" / "decode_dev"
    assert read_record(out / "decode_test") == read_record(plain)
    for words in plain.glob("words*.txt"):
        for name in ("dev", "test"):
            assert (out / f"decode_{name}" / words.name).read_bytes() == words.read_bytes()
    assert len(list(plain.glob("words.lmwt*.txt"))) == 4
    run_step(score_run, out)
    assert {path.name for path in out.glob("score_*")} == {"score_dev.json", "score_test.json"}
    (system,) = find_systems([out])
    assert (system.runs[0].parameters, system.runs[0].has_network) == (54, False)


def test_baseline_of_other_features_than_the_model_reads_is_refused(
    spoken: Spoken, tmp_path: Path
) -> None:
    write_matrices(
        ((utt, x[:, :3]) for utt, x in spoken.features.items()),
        *(spoken.data / name for name in ("feats.ark", "feats.scp")),
    )
    with pytest.raises(InputError, match="reads features of 4 values, but here are 3"):
        decode_baseline(spoken, tmp_path / "baseline")


def test_baseline_decodes_one_directory_of_a_set(spoken: Spoken, tmp_path: Path) -> None:
    both = "data.dev.features_all_of=[data, graph]"
    with pytest.raises(
        InputError, match=r"data: one of 2 directories of dev, and a GMM decodes one"
    ):
        decode_baseline(spoken, tmp_path / "baseline", "data.dev.features=[]", both)


@pytest.mark.slow
def test_baseline_of_the_sample_has_the_errors_of_kaldi(
    kaldi_corpus: Callable[[str], Path], tmp_path: Path
) -> None:
    """Kaldi's own tools count 41.3 % on dev, strict: one error of 639 is 0.16."""
    root, config = kaldi_corpus("timit_sample"), RECIPES / "timit_sample" / "config.yaml"
    run_step(baseline, config, f"--set=data.dir={root}", "--out", tmp_path)
    run_step(score_run, tmp_path)
    strict, _ = read_scores(tmp_path / "score_dev.json")
    assert strict.counts.rate == pytest.approx(41.3, abs=0.5)
    network = load([config]).decode
    found = load([tmp_path / "config.yaml"]).decode
    assert found.lm_weights == network.lm_weights
    assert found.insertion_penalties == network.insertion_penalties


@pytest.mark.parametrize("network", ["best.pt", "last.pt"])
def test_the_folder_of_a_network_is_refused_and_stays(
    network: str, spoken: Spoken, tmp_path: Path
) -> None:
    """What mixtures decode there would pass for the network's."""
    trained, config = tmp_path / "run", CONF / "base.yaml"
    decode_dev(spoken, trained)
    (trained / network).touch()
    before = sorted(trained.rglob("*"))
    for step, argv in ((score, [trained, config]), (baseline, [config, "--out", trained])):
        with pytest.raises(InputError, match=network):
            run_step(step, *argv)
    assert sorted(trained.rglob("*")) == before
