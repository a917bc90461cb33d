"""Layers, heads and kinds of output: torch by hand, from the weights in the checkpoint."""

import shutil
from pathlib import Path
from typing import Any

import kaldiio
import numpy as np
import pytest
import torch

import bayes_asr
from bayes_asr.base.errors import InputError
from bayes_asr.cli import main
from bayes_asr.config.merge import load
from bayes_asr.decode.forward import directory
from bayes_asr.decode.forward.log_likelihoods import LogLikelihoods
from bayes_asr.kaldi_io.text import read_mapping, read_text
from bayes_asr.train.runs import checkpoint
from tests.support.places import CONF
from tests.support.small_corpus import MODEL, PHONES, SETS, made_up, settings, write_corpus

Matrices = dict[str, np.ndarray]
MLP = ("model.unit=mlp", "model.layers=3", "model.units=[6,4,7]", "model.dropout=0")


def train(corpus: Path, run: Path, *more: str) -> Path:
    given = [str(CONF / "base.yaml"), *settings(corpus, *more), f"--out={run}"]
    assert main(["train", *given]) == 0
    return run


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def run(corpus: Path) -> Path:
    """An MLP of three layers, whose equations are short."""
    return train(corpus, corpus / "run", *MLP)


def forward(run: Path, out: Path, *options: str) -> int:
    return main(["forward", str(run), "--on=test", f"--out={out}", *options])


def read(path: Path) -> Matrices:
    """An archive by kaldiio, which reads what Kaldi reads."""
    return dict(kaldiio.load_scp(str(path)))


def by_hand(run: Path, layer: int, head: int | None = None) -> Matrices:
    """What a layer of the MLP gives [T, H] for the test set, or the logits of a head on it."""
    content = checkpoint.read(run / "best.pt")
    front_end, weights = content["front_ends"]["features"], content["model"]

    def compute(x: np.ndarray) -> np.ndarray:
        h = (torch.from_numpy(x).double() - front_end["mean"]) / front_end["deviation"]
        for number in range(layer):
            w = {
                name.removeprefix(f"layers.{number}."): value.double()
                for name, value in weights.items()
            }
            a = h @ w["W.weight"].T - w["norm.running_mean"].flatten()
            a = a / (w["norm.running_var"].flatten() + 1e-5).sqrt()
            h = torch.tanh(a * w["norm.weight"].flatten() + w["norm.bias"].flatten())
        if head is not None:
            h = h @ weights[f"heads.{head}.weight"].double().T + weights[f"heads.{head}.bias"]
        return h.numpy()

    return {utt: compute(x) for utt, x in made_up("test", SETS["test"])[0].items()}


def assert_close(found: Matrices, expected: Matrices, atol: float = 1e-5) -> None:
    assert list(found) == list(expected)
    for utt, matrix in expected.items():
        np.testing.assert_allclose(found[utt], matrix, rtol=0, atol=atol)


@pytest.mark.parametrize(("name", "number"), [("layer1", 1), ("layer2", 2), ("layer3", 3)])
def test_a_layer_is_what_its_weights_give(
    name: str, number: int, run: Path, tmp_path: Path
) -> None:
    assert forward(run, tmp_path, f"--layer={name}") == 0
    assert_close(read(tmp_path / "feats.scp"), by_hand(run, number), 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("head", "number"), [("pdfs", 0), ("monophones", 1)])
@pytest.mark.parametrize(
    ("kind", "file"),
    [
        ("posteriors", "posteriors"),
        ("log-posteriors", "log_posteriors"),
        ("log-likelihoods", "loglikes"),
    ],
)
def test_a_head_is_what_its_weights_give(
    kind: str, file: str, head: str, number: int, run: Path, tmp_path: Path
) -> None:
    """Priors are counted here from the labels that the corpus was made with."""
    _, alignments = made_up("train", SETS["train"])
    of = MODEL.pdf if head == "pdfs" else np.searchsorted(PHONES, MODEL.phone)
    labels = np.concatenate([of[ids] for ids in alignments.values()])
    shares = (np.bincount(labels) + 0.5) / (np.bincount(labels) + 0.5).sum()
    logits = by_hand(run, 3, number)
    logs = {u: z - np.log(np.exp(z).sum(1, keepdims=True)) for u, z in logits.items()}
    expected = {
        "posteriors": {u: np.exp(z) for u, z in logs.items()},
        "log-posteriors": logs,
        "log-likelihoods": {u: z - np.log(shares) for u, z in logs.items()},
    }[kind]
    assert forward(run, tmp_path, f"--head={head}", f"--kind={kind}") == 0
    assert_close(read(tmp_path / f"{file}.scp"), expected)


@pytest.mark.parametrize(
    "asked", [{"layer": "layer2"}, {"head": "monophones"}, {"kind": "posteriors"}, {}]
)
def test_load_gives_what_forward_writes(asked: dict[str, str], run: Path, tmp_path: Path) -> None:
    assert forward(run, tmp_path, *(f"--{key}={value}" for key, value in asked.items())) == 0
    (scp,) = tmp_path.glob("*.scp")
    network = bayes_asr.load(run, **asked)  # type: ignore[arg-type]
    features = made_up("test", SETS["test"])[0]
    assert_close(read(scp), {utt: network(x).numpy() for utt, x in features.items()}, 2e-6)


# --- promises


@pytest.fixture(scope="module")
def forwards_only(corpus: Path) -> Path:
    return train(corpus, corpus / "forwards", "model.layers=2", "model.bidirectional=false")


@pytest.mark.slow
@pytest.mark.parametrize("asked", [{"layer": "layer1"}, {"head": "monophones"}])
def test_company_and_chunks_change_nothing(
    asked: dict[str, Any], forwards_only: Path, tmp_path: Path
) -> None:
    options = [f"--{key}={value}" for key, value in asked.items()]
    found = []
    for number, more in enumerate(([], ["--chunk=1"], ["--chunk=4"])):
        assert forward(forwards_only, tmp_path / str(number), *options, *more) == 0
        (scp,) = (tmp_path / str(number)).glob("*.scp")
        found.append(read(scp))
    network = bayes_asr.load(forwards_only, **asked)
    assert isinstance(network, LogLikelihoods)
    stream = network.stream()
    features = made_up("test", SETS["test"])[0]
    alone = {
        utt: torch.cat([stream(x[:5]), stream(x[5:]), stream.finish()]).numpy()
        for utt, x in features.items()
    }
    for other in (*found[1:], alone):
        assert_close(other, found[0])


def test_a_layer_below_both_directions_is_not_streamed(small_run: Path) -> None:
    network = bayes_asr.load(small_run, layer="layer1")
    assert isinstance(network, LogLikelihoods)
    with pytest.raises(InputError, match="reads an utterance from its end too"):
        network.stream()


def test_nothing_is_written_where_an_utterance_fails(
    run: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for name in ("feats.scp", "utt2spk", "text"):
        (data / name).write_bytes((corpus / "data/test" / name).read_bytes())
    (data / "utt2spk").write_text((data / "utt2spk").read_text() + "test0-9 test0\n")
    given = ["forward", str(run), f"--data={data}", "--layer=layer1", f"--out={tmp_path / 'out'}"]
    assert main(given) == 1
    assert f"no features in {data} for 1 of 4 utterances: test0-9" in capsys.readouterr().err
    assert not (tmp_path / "out").exists() or not any((tmp_path / "out").iterdir())


# --- cascades


@pytest.mark.slow
def test_a_network_is_trained_on_what_another_gives(
    run: Path, corpus: Path, tmp_path: Path
) -> None:
    """No utterance is lost on the way, and the second network is as good as its data are."""
    for name in SETS:
        out = tmp_path / "bottleneck" / name
        given = [f"--data={corpus / 'data' / name}", "--layer=layer2", f"--out={out}"]
        assert main(["forward", str(run), *given]) == 0
        assert read_mapping(out / "utt2spk") == read_mapping(corpus / "data" / name / "utt2spk")
        assert read_text(out / "text") == read_text(corpus / "data" / name / "text")
        assert not (out / "cmvn.scp").exists()
    second = train(
        corpus,
        tmp_path / "second",
        *(f"data.{name}.features=[{tmp_path / 'bottleneck' / name}]" for name in SETS),
        "features.left_context=1",
        "train.epochs=6",
    )
    front_end = checkpoint.read(second / "best.pt")["front_ends"]["features"]
    everything = np.concatenate(list(read(tmp_path / "bottleneck/train/feats.scp").values()))
    np.testing.assert_allclose(front_end["mean"][-4:], everything.mean(0), atol=1e-5)
    assert main(["forward", str(second), "--on=test", f"--out={tmp_path / 'out'}"]) == 0
    assert list(read(tmp_path / "out/loglikes.scp")) == list(made_up("test", SETS["test"])[0])


def test_several_directories_become_one(run: Path, corpus: Path, tmp_path: Path) -> None:
    joined = tmp_path / "joined"
    both = [str(corpus / "data" / name) for name in ("train", "dev")]
    shutil.copytree(run, tmp_path / "run")
    changed = load([run / "config.yaml"], [f"data.train.features_all_of=[{','.join(both)}]"])
    changed.save(tmp_path / "run" / "config.yaml")
    given = ["--on=train", "--layer=layer1", f"--out={joined}"]
    assert main(["forward", str(tmp_path / "run"), *given]) == 0
    utterances = sorted([*made_up("train", SETS["train"])[0], *made_up("dev", SETS["dev"])[0]])
    assert list(read_mapping(joined / "utt2spk")) == utterances
    assert sorted(read(joined / "feats.scp")) == utterances
    assert list(read_text(joined / "text")) == utterances


# --- what is refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--layer=layer9"], "has no layer layer9; did you mean layer3?; known: layer1, layer2"),
        (
            ["--head=monophone"],
            "has no head monophone; did you mean monophones?; known: pdfs",
        ),
        (["--layer=layer1", "--head=pdfs"], "a layer has no head and no kind"),
        (["--layer=layer1", "--kind=posteriors"], "a layer has no head and no kind"),
        (["--layer=layer1", "--onnx=x"], "--onnx goes without --layer, --head and --kind"),
    ],
)
def test_what_is_not_there_is_named(
    options: list[str],
    message: str,
    run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert forward(run, tmp_path, *options) == 1
    assert message in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


def test_layers_are_not_written_among_log_likelihoods(
    run: Path, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["forward", str(run), "--on=test", "--head=monophones"]) == 1
    assert "what decoding does not read needs --out" in capsys.readouterr().err
    data = corpus / "data/test"
    assert main(["forward", str(run), f"--data={data}", "--layer=layer1", f"--out={data}"]) == 1
    assert f"{data}: is the data directory that is read" in capsys.readouterr().err
    assert list(read(data / "feats.scp")) == list(made_up("test", SETS["test"])[0])


def test_runs_of_before_lack_priors_of_other_heads(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(run, tmp_path / "old")
    content = checkpoint.read(run / "best.pt")
    del content["other_log_priors"]
    checkpoint.save(tmp_path / "old/best.pt", content)
    assert forward(tmp_path / "old", tmp_path / "out", "--head=monophones") == 1
    assert "priors were kept of pdfs alone: give forward --counts" in capsys.readouterr().err
    for more in (["--kind=posteriors"], [f"--counts={tmp_path / 'counts'}"]):
        (tmp_path / "counts").write_text(" [ 1 1 2 ]\n")
        assert forward(tmp_path / "old", tmp_path / "out", "--head=monophones", *more) == 0
    found, logs = (read(tmp_path / "out" / f"{name}.scp") for name in ("loglikes", "posteriors"))
    for utt, x in found.items():
        np.testing.assert_allclose(x, np.log(logs[utt]) - np.log([0.25, 0.25, 0.5]), atol=1e-5)
    for name in ("best.pt", "last.pt"):
        assert set(checkpoint.read(run / name)["other_log_priors"]) == {"monophones"}


def test_few_frames_of_wide_layers_are_computed_together(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The widest of the MLP hands on 7 numbers of a frame."""
    assert forward(run, tmp_path / "whole") == 0
    taken = []
    together = LogLikelihoods.compute_prepared

    def note(self: LogLikelihoods, matrices: list[np.ndarray]) -> list[torch.Tensor]:
        taken.append([len(matrix) for matrix in matrices])
        return together(self, matrices)

    monkeypatch.setattr(LogLikelihoods, "compute_prepared", note)
    monkeypatch.setattr(directory, "BATCH_NUMBERS", 7 * 40)
    assert forward(run, tmp_path / "parts") == 0
    assert len(taken) > 1
    assert all(sum(frames) <= 40 or len(frames) == 1 for frames in taken)
    whole, parts = (read(tmp_path / name / "loglikes.scp") for name in ("whole", "parts"))
    for utt, matrix in whole.items():
        np.testing.assert_allclose(parts[utt], matrix, rtol=0, atol=1e-5)
