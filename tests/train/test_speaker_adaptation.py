"""Activations of each speaker: estimated, stored, applied and folded."""

import re
import shutil
from pathlib import Path

import kaldiio
import numpy as np
import pytest
import torch

import bayes_asr
from bayes_asr.cli import main
from bayes_asr.config.merge import load
from bayes_asr.data.corpus.sets import open_set
from bayes_asr.kaldi_io.ark import write_matrices
from bayes_asr.kaldi_io.initial_mdl import build_monophone_model
from bayes_asr.kaldi_io.integers import write_int_vectors
from bayes_asr.kaldi_io.mdl import write_transition_model
from bayes_asr.train.loader import Loader
from bayes_asr.train.runs import checkpoint
from bayes_asr.train.runs.configuration import read_configuration
from bayes_asr.train.runs.trained_network import read_network
from bayes_asr.train.speaker_adaptation import adapt
from tests.support.small_corpus import DIMENSIONS, SETS, made_up, settings

UNIT = ("model.unit=mlp", "model.activation=p-sigmoid", "model.layers=2", "model.norm=none")
RATE = 0.03


@pytest.fixture(scope="module")
def run(small_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("adapted") / "run"
    assert main(["train", "conf/base.yaml", *settings(small_corpus, *UNIT), f"--out={path}"]) == 0
    return path


@pytest.fixture(scope="module")
def adapted(run: Path, small_corpus: Path) -> Path:
    path = run.parent / "own"
    ali = f"--ali=dev={small_corpus}/exp/ali_dev"
    assert main(["adapt", str(run), ali, "--steps=3", f"--out={path}"]) == 0
    return path


@pytest.mark.slow
def test_a_step_goes_down_the_loss_of_the_speaker_alone(run: Path) -> None:
    """The first step of Adam is as long as the rate, against the sign of the gradient."""
    network, config = read_network(run), load([run / "config.yaml"])
    data = open_set(config, "dev")
    before = {name: value.clone() for name, value in network.model.state_dict().items()}
    found = adapt(network, data, steps=1, learning_rate=RATE)
    assert sorted(found) == sorted({data.features.speakers[utt] for utt in data.lengths})
    for speaker, values in found.items():
        own = [utt for utt in data.lengths if data.features.speakers[utt] == speaker]
        batch = Loader(data, network.front_ends, ["pdfs"], seed=0, epoch=1)(own)
        parameters = network.model.activation_parameters
        logits = network.model(batch.streams, batch.frames)["pdfs"]
        loss = torch.nn.functional.cross_entropy(logits, batch.targets["pdfs"])
        gradients = torch.autograd.grad(loss, list(parameters.values()))
        for (name, parameter), gradient in zip(parameters.items(), gradients, strict=True):
            clear = gradient.abs() > 1e-5
            assert clear.any()
            expected = parameter - RATE * gradient.sign()
            torch.testing.assert_close(values[name][clear], expected[clear], rtol=0, atol=1e-4)
    after = network.model.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())


def test_forward_computes_each_speaker_by_his_own(adapted: Path, run: Path, tmp_path: Path) -> None:
    for path, out in ((adapted, tmp_path / "own"), (run, tmp_path / "all")):
        assert main(["forward", str(path), "--on", "dev", "--out", str(out)]) == 0
    found, plain = (
        dict(kaldiio.load_scp(str(tmp_path / name / "loglikes.scp"))) for name in ("own", "all")
    )
    network = read_network(adapted)
    data = open_set(load([run / "config.yaml"]), "dev")
    for utt, matrix in found.items():
        alone = bayes_asr.load(run)
        alone.model.set_activations(network.speakers[data.features.speakers[utt]])
        torch.testing.assert_close(
            torch.tensor(matrix), alone(data.read(utt, "features")), rtol=0, atol=1e-5
        )
        assert abs(matrix - plain[utt]).max() > 1e-3
        nobody = bayes_asr.load(adapted)(data.read(utt, "features"))
        torch.testing.assert_close(nobody, torch.tensor(plain[utt]), rtol=0, atol=1e-5)


def test_who_has_none_of_his_own_is_named(
    adapted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["forward", str(adapted), "--on", "train", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().err
    assert said.count("have no activations of their own in this run, and are computed as") == 1


def test_one_speaker_is_folded_into_a_plain_network(
    adapted: Path, run: Path, tmp_path: Path
) -> None:
    speaker, values = next(iter(read_network(adapted).speakers.items()))
    assert main(["fold", str(adapted), "--speaker", speaker, f"--out={tmp_path}/plain"]) == 0
    x = torch.randn(9, bayes_asr.load(run).front_ends["features"].stored_size)
    own = bayes_asr.load(run)
    own.model.set_activations(values)
    plain = bayes_asr.load(tmp_path / "plain")
    torch.testing.assert_close(plain(x), own(x), rtol=0, atol=1e-5)
    assert not plain.model.activation_parameters
    assert not plain.speakers


def test_a_layer_is_that_of_the_speaker(adapted: Path, run: Path, tmp_path: Path) -> None:
    for path, out in ((adapted, tmp_path / "own"), (run, tmp_path / "all")):
        where = ["--layer", "layer1", "--out", str(out)]
        assert main(["forward", str(path), "--on", "dev", *where]) == 0
    found, plain = (
        dict(kaldiio.load_scp(str(tmp_path / name / "feats.scp"))) for name in ("own", "all")
    )
    assert all(abs(found[utt] - plain[utt]).max() > 1e-3 for utt in plain)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["fold", "OWN", "--speaker", "nobody"], "has no activations of nobody"),
        (["adapt", "SMALL", "--ali", "dev=ALI"], "have no parameters that a speaker could have"),
        (["adapt", "RUN", "--ali", "dev=nowhere"], "none of these exists"),
        (["adapt", "RUN", "--ali", "dev=ALI", "--ali=dev=ALI"], "one folder of each set"),
        (["adapt", "RUN", "--ali", "dev=ALI", "--set", "model.units=3"], "may be set begins with"),
    ],
)
def test_what_cannot_be_done_is_said(
    arguments: list[str],
    complaint: str,
    adapted: Path,
    run: Path,
    small_run: Path,
    small_corpus: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = {"OWN": adapted, "RUN": run, "SMALL": small_run}
    given = [str(names.get(word, word)) for word in arguments]
    given = [word.replace("ALI", f"{small_corpus}/exp/ali_dev") for word in given]
    assert main([*given, "--out", str(tmp_path / "out")]) == 1
    assert complaint in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_utterances_without_alignment_are_left_out_as_the_message_says(
    run: Path, small_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *_ = made_up("dev", SETS["dev"])[1].items()
    ali = tmp_path / "ali"
    shutil.copytree(small_corpus / "exp" / "ali_dev", ali)
    write_int_vectors([first], ali / "ali.1.gz")
    given = ["adapt", str(run), f"--ali=dev={ali}", "--steps=1", f"--out={tmp_path / 'out'}"]
    assert main(given) == 1
    (advice,) = re.findall(r"skip them by (--set \S+)", capsys.readouterr().err)
    assert main([*given, *advice.split()]) == 0


def test_speakers_of_two_sets_are_named(
    run: Path, small_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sets = (f"--ali={name}={small_corpus}/exp/ali_dev" for name in ("dev", "test"))
    same = f"--set=data.test.features={small_corpus}/data/dev"
    out = tmp_path / "out"
    assert main(["adapt", str(run), *sets, same, "--steps=1", f"--out={out}"]) == 0
    names = ", ".join(sorted(checkpoint.read(out / "best.pt")["speakers"]))
    remark = f"test: the activations adapted to it replace those of {names}"
    assert remark in capsys.readouterr().err.splitlines()


def test_alignments_of_another_model_are_refused(
    run: Path, small_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lengths = [(utt, len(tids)) for utt, tids in made_up("dev", SETS["dev"])[1].items()]
    write_int_vectors(((utt, np.ones(n, np.int32)) for utt, n in lengths), tmp_path / "ali.1.gz")
    write_transition_model(build_monophone_model((3, 5), 2), tmp_path / "final.mdl")
    given = ["adapt", str(run), f"--ali=dev={tmp_path}", f"--out={tmp_path / 'out'}"]
    assert main(given) == 1
    model = small_corpus / "exp/ali/final.mdl"
    assert f"has other transitions than {model} (6 pdfs)" in capsys.readouterr().err


def test_features_of_another_width_are_refused(
    run: Path, small_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(run, tmp_path / "run")
    shutil.copytree(small_corpus, tmp_path / "corpus")
    config = read_configuration(run, [f"data.dir={tmp_path / 'corpus'}"])
    config.save(tmp_path / "run" / "config.yaml")
    narrow = [(utt, x[:, :1]) for utt, x in made_up("dev", SETS["dev"])[0].items()]
    data = tmp_path / "corpus/data/dev"
    write_matrices(narrow, data / "feats.ark", data / "feats.scp")
    ali = f"--ali=dev={tmp_path}/corpus/exp/ali_dev"
    assert main(["adapt", str(tmp_path / "run"), ali, f"--out={tmp_path / 'out'}"]) == 1
    assert f"has 1 dimensions, but the network reads {DIMENSIONS}" in capsys.readouterr().err


def test_a_network_with_further_labels_adapts_to_its_first(
    small_corpus: Path, tmp_path: Path
) -> None:
    further = ("data.train.labels={more: exp/ali}", "data.dev.labels={more: exp/ali_dev}")
    options = (*UNIT, *further, "train.target_weights={more.pdfs: 0.5}")
    run, out = tmp_path / "run", tmp_path / "out"
    assert main(["train", "conf/base.yaml", *settings(small_corpus, *options), f"--out={run}"]) == 0
    ali = f"--ali=test={small_corpus}/exp/ali_dev"
    test = f"data.test.features={small_corpus}/data/dev"
    read_configuration(run, [test]).save(run / "config.yaml")
    assert main(["adapt", str(run), ali, "--steps=1", f"--out={out}"]) == 0
    assert checkpoint.read(out / "best.pt")["speakers"]


def test_speakers_that_do_not_fit_the_network_are_refused(adapted: Path) -> None:
    content = checkpoint.read(adapted / "best.pt")
    next(iter(content["speakers"].values())).popitem()
    with pytest.raises(ValueError, match="is missing"):
        checkpoint.check_network(content)
