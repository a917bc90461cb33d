"""Averages of networks and decoding of other heads, against NumPy on what each network writes."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import bayes_asr
from bayes_asr.base.errors import InputError
from bayes_asr.cli import main
from bayes_asr.data.targets.target import DISABLED
from bayes_asr.decode.forward.average import AVERAGES, AveragedNetwork
from bayes_asr.kaldi_io.ark import iter_matrices, write_matrices
from bayes_asr.kaldi_io.initial_mdl import build_monophone_model
from bayes_asr.kaldi_io.mdl import write_transition_model
from bayes_asr.train.runs import checkpoint
from bayes_asr.train.runs.combination import Combination, read_combination
from tests.support.places import CONF
from tests.support.small_corpus import settings
from tests.support.spoken_corpus import write_spoken_experiment

COUNTS = {"train": 9, "dev": 4, "test": 5}
DECODING = (
    *("data.graph=[graph]", "score.metric=wer", "decode.lm_weights=[1,5]"),
    "decode.insertion_penalties=[0]",
)
Matrices = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs with front ends of their own: a with deltas, b by speaker."""
    root = write_spoken_experiment(tmp_path_factory.mktemp("corpus"), COUNTS)
    train(root, "a", "features.deltas=1")
    train(root, "b", "features.cmvn=mean", "seed=2", "model.units=5")
    return root


def train(root: Path, name: str, *more: str) -> None:
    given = [str(CONF / "base.yaml"), *settings(root, *DECODING, *more), f"--out={root / name}"]
    assert main(["train", *given]) == 0


def combine(root: Path, out: Path, *more: str, runs: tuple[str, ...] = ("a", "b")) -> int:
    return main(["combine", *(str(root / run) for run in runs), f"--out={out}", *more])


def forward(run: Path, out: Path, *more: str, name: str = "loglikes") -> Matrices:
    assert main(["forward", str(run), "--on=test", f"--out={out}", *more]) == 0
    return dict(iter_matrices(out / f"{name}.scp"))


def posteriors(root: Path, out: Path) -> list[Matrices]:
    """What the two networks say, as probabilities in double precision."""
    found = []
    for run in ("a", "b"):
        logs = forward(root / run, out / run, "--kind=log-posteriors", name="log_posteriors")
        found.append({utt: np.exp(x.astype(np.float64)) for utt, x in logs.items()})
    return found


def priors(run: Path) -> np.ndarray:
    return np.exp(checkpoint.read(run / "best.pt")["log_priors"].numpy())


@pytest.mark.slow
@pytest.mark.parametrize("weights", [(), (3.0, 1.0)])
@pytest.mark.parametrize("average", ["posteriors", "log-posteriors"])
def test_an_average_is_that_of_its_networks(
    average: str, weights: tuple[float, ...], corpus: Path, tmp_path: Path
) -> None:
    more = ["--weights", *map(str, weights)] if weights else []
    assert combine(corpus, tmp_path / "avg", f"--average={average}", *more) == 0
    share = np.array(weights or (1.0, 1.0)) / sum(weights or (1.0, 1.0))
    a, b = posteriors(corpus, tmp_path)
    prior_a, prior_b = priors(corpus / "a"), priors(corpus / "b")
    found = forward(tmp_path / "avg", tmp_path / "out")
    shown = forward(tmp_path / "avg", tmp_path / "out", "--kind=posteriors", name="posteriors")
    assert list(found) == list(a)
    for utt in found:
        if average == "posteriors":
            mean = share[0] * a[utt] + share[1] * b[utt]
            prior = share[0] * prior_a + share[1] * prior_b
        else:
            mean = a[utt] ** share[0] * b[utt] ** share[1]
            mean /= mean.sum(1, keepdims=True)
            prior = prior_a ** share[0] * prior_b ** share[1]
        np.testing.assert_allclose(found[utt], np.log(mean / prior), rtol=0, atol=1e-5)
        np.testing.assert_allclose(shown[utt], mean, rtol=1e-4, atol=1e-7)


def test_load_gives_what_forward_writes(corpus: Path, tmp_path: Path) -> None:
    assert combine(corpus, tmp_path / "avg", "--average=posteriors") == 0
    found = forward(tmp_path / "avg", tmp_path / "out")
    network = bayes_asr.load(tmp_path / "avg")
    statistics = dict(iter_matrices(corpus / "data/test/cmvn.scp"))
    for utt, features in iter_matrices(corpus / "data/test/feats.scp"):
        computed = network(features, cmvn=statistics[utt.split("-")[0]])
        np.testing.assert_allclose(computed.numpy(), found[utt], rtol=0, atol=2e-6)


@pytest.mark.parametrize("average", AVERAGES)
def test_an_average_is_computed_where_its_networks_are(average: str) -> None:
    with FakeTensorMode():  # torch's model of a GPU, which refuses operands on two devices
        networks = [torch.nn.Module() for _ in "ab"]
        for network in networks:
            network.front_ends = {}
            network.register_buffer("log_priors", torch.zeros(4, device="cuda"))
        combination = Combination.of([Path("a"), Path("b")], average=average)
        averaged = AveragedNetwork(networks, combination)
        for device in ("cpu", "cuda"):
            output = averaged.combine([torch.zeros(7, 4, device=device)] * 2)
            assert (output.device.type, output.shape) == ("cuda", (7, 4))


@pytest.mark.gpu
@pytest.mark.parametrize("average", AVERAGES)
def test_a_gpu_computes_the_average_that_the_cpu_does(
    average: str, corpus: Path, tmp_path: Path
) -> None:
    assert combine(corpus, tmp_path / "avg", f"--average={average}") == 0
    expected = forward(tmp_path / "avg", tmp_path / "cpu")
    outputs = forward(tmp_path / "avg", tmp_path / "cuda", "--device=cuda")
    assert [*outputs] == [*expected]
    for utt, exact in expected.items():
        np.testing.assert_allclose(outputs[utt], exact, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_company_changes_nothing(corpus: Path, tmp_path: Path) -> None:
    """One utterance alone, with the statistics of its speaker."""
    assert combine(corpus, tmp_path / "avg") == 0
    together = forward(tmp_path / "avg", tmp_path / "out")
    data = tmp_path / "one"
    shutil.copytree(corpus / "data/test", data)
    lines = (data / "feats.scp").read_text().splitlines()
    utt = lines[1].split()[0]
    (data / "feats.scp").write_text(lines[1] + "\n")
    (data / "utt2spk").write_text(f"{utt} {utt.split('-')[0]}\n")
    given = [f"--data={data}", f"--out={tmp_path / 'alone'}"]
    assert main(["forward", str(tmp_path / "avg"), *given]) == 0
    ((_, alone),) = iter_matrices(tmp_path / "alone/loglikes.scp")
    np.testing.assert_allclose(alone, together[utt], rtol=0, atol=1e-5)


@pytest.mark.parametrize("average", ["posteriors", "log-posteriors"])
def test_a_pdf_without_a_count_stays_impossible(average: str, corpus: Path, tmp_path: Path) -> None:
    shutil.copytree(corpus / "b", tmp_path / "b")
    content = checkpoint.read(tmp_path / "b/best.pt")
    content["log_priors"][3] = DISABLED
    checkpoint.save(tmp_path / "b/best.pt", content)
    given = ["combine", str(corpus / "a"), str(tmp_path / "b"), f"--average={average}"]
    assert main([*given, f"--out={tmp_path / 'avg'}"]) == 0
    for matrix in forward(tmp_path / "avg", tmp_path / "out").values():
        assert np.isfinite(matrix).all()
        assert (matrix[:, 3] < -1e18).all()
        assert (np.delete(matrix, 3, 1) > -100).all()


@pytest.mark.slow
def test_an_average_is_decoded_scored_and_reported_as_a_run(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert combine(corpus, tmp_path / "avg", "--set", "decode.beam=15") == 0
    for verb in ("forward", "decode"):
        for name in ("dev", "test"):
            assert main([verb, str(tmp_path / "avg"), f"--on={name}"]) == 0
    assert main(["score", str(tmp_path / "avg")]) == 0
    capsys.readouterr()
    out = f"--out={tmp_path / 'report'}"
    assert main(["report", str(tmp_path / "avg"), "--json", out]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["system"] == "avg"
    scores = {
        n: json.loads((tmp_path / f"avg/score_{n}.json").read_text()) for n in ("dev", "test")
    }
    assert row["LM weight"] == f"{scores['dev'][0]['lm_weight']:g}"
    assert scores["test"][0]["lm_weight"] == scores["dev"][0]["lm_weight"]
    assert scores["test"][0]["tokens"] == 3 * COUNTS["test"]
    numbers = [sum(p.numel() for p in bayes_asr.load(corpus / run).parameters()) for run in "ab"]
    assert json.loads((tmp_path / "avg/env.json").read_text())["parameters"] == sum(numbers)


def test_networks_of_other_strides_are_named(corpus: Path, tmp_path: Path) -> None:
    assert combine(corpus, tmp_path / "avg") == 0
    averaged = bayes_asr.load(tmp_path / "avg")
    averaged.networks[1].model.output_stride = 3
    width = averaged.networks[0].front_ends["features"].stored_size
    with pytest.raises(InputError, match=r"a has 7 frames, but .*b has 3; average networks"):
        averaged(np.zeros((7, width), np.float32), np.ones((2, width + 1)))


def test_no_frames_are_refused(corpus: Path) -> None:
    network = bayes_asr.load(corpus / "a")
    width = network.front_ends["features"].stored_size
    with pytest.raises(InputError, match="an utterance has 0 frames; give at least one"):
        network(np.empty((0, width), np.float32))


@pytest.mark.slow
def test_runs_may_move_with_their_average(corpus: Path, tmp_path: Path) -> None:
    first = tmp_path / "first"
    for run in "ab":
        shutil.copytree(corpus / run, first / run)
    assert combine(first, first / "avg") == 0
    expected = forward(first / "avg", tmp_path / "before")
    first.rename(tmp_path / "second")
    found = forward(tmp_path / "second/avg", tmp_path / "after")
    assert all(np.array_equal(found[utt], matrix) for utt, matrix in expected.items())


@pytest.mark.slow
def test_another_head_is_decoded_with_its_own_graph(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert combine(corpus, tmp_path / "mono", "--head=monophones", runs=("a",)) == 0
    found = forward(tmp_path / "mono", tmp_path / "out")
    expected = forward(corpus / "a", tmp_path / "head", "--head=monophones")
    for utt, matrix in expected.items():
        np.testing.assert_allclose(found[utt], matrix, rtol=0, atol=2e-6)
    assert combine(corpus, tmp_path / "tri2", "--head=tri2.pdfs", runs=("a",)) == 1
    assert "has no head tri2.pdfs" in capsys.readouterr().err
    rename_head(corpus / "a", tmp_path / "a")
    given = ["combine", str(tmp_path / "a"), "--head=tri2.pdfs", f"--out={tmp_path / 'tri2'}"]
    assert main(given) == 1
    assert "name its graph: --set data.graph=[DIR]" in capsys.readouterr().err
    assert main([*given, "--set", "data.graph=[other]"]) == 0


def rename_head(run: Path, copy: Path) -> None:
    """Copy a run, calling its second head tri2.pdfs."""
    shutil.copytree(run, copy)
    content = checkpoint.read(copy / "best.pt")
    heads = content["architecture"]["heads"]
    content["architecture"]["heads"] = dict(zip(("pdfs", "tri2.pdfs"), heads.values(), strict=True))
    content["other_log_priors"] = {"tri2.pdfs": content["other_log_priors"]["monophones"]}
    checkpoint.save(copy / "best.pt", content)


# --- what is refused


def test_networks_of_other_pdfs_are_named_with_both_counts(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rename_head(corpus / "a", tmp_path / "a")
    content = checkpoint.read(tmp_path / "a/best.pt")
    heads = {"pdfs": content["architecture"]["heads"]["tri2.pdfs"]}
    content["architecture"]["heads"] = heads
    content["log_priors"] = content.pop("other_log_priors")["tri2.pdfs"]
    for kind in ("weight", "bias"):
        content["model"][f"heads.0.{kind}"] = content["model"].pop(f"heads.1.{kind}")
    checkpoint.save(tmp_path / "a/best.pt", content)
    given = ["combine", str(corpus / "b"), str(tmp_path / "a"), f"--out={tmp_path / 'avg'}"]
    assert main(given) == 1
    assert f"{corpus / 'b'} has 12 pdfs, but {tmp_path / 'a'} has 4" in capsys.readouterr().err
    assert not (tmp_path / "avg").exists()


def test_other_models_with_as_many_pdfs_are_refused(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(corpus / "exp/ali", tmp_path / "ali")
    write_transition_model(build_monophone_model((1, 2, 3, 9), 3), tmp_path / "ali/final.mdl")
    shutil.copytree(corpus / "b", tmp_path / "b")
    config = tmp_path / "b/config.yaml"
    moved = config.read_text().replace("- exp/ali\n", f"- {tmp_path / 'ali'}\n")
    assert moved != config.read_text()
    config.write_text(moved)
    given = ["combine", str(corpus / "a"), str(tmp_path / "b"), f"--out={tmp_path / 'avg'}"]
    assert main(given) == 1
    assert (
        f"{tmp_path / 'ali/final.mdl'} (12 pdfs) has other transitions" in capsys.readouterr().err
    )


def test_utterances_that_one_network_lacks_are_named(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No utterance vanishes, though each set is complete for its own run."""
    shutil.copytree(corpus / "data/test", tmp_path / "fewer")
    for name in ("feats.scp", "utt2spk"):
        lines = (corpus / "data/test" / name).read_text().splitlines()
        (tmp_path / "fewer" / name).write_text("\n".join(lines[1:]) + "\n")
    shutil.copytree(corpus / "b", tmp_path / "b")
    config = tmp_path / "b/config.yaml"
    config.write_text(config.read_text().replace("- data/test\n", f"- {tmp_path / 'fewer'}\n"))
    given = ["combine", str(corpus / "a"), str(tmp_path / "b"), f"--out={tmp_path / 'avg'}"]
    assert main(given) == 0
    capsys.readouterr()
    assert main(["forward", str(tmp_path / "avg"), "--on=test", f"--out={tmp_path / 'out'}"]) == 1
    said = capsys.readouterr().err
    assert "/a has features of 5 utterances" in said
    assert "/b of 4: test0-0 is one that only one of them has" in said


def test_frames_that_differ_are_named(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(corpus / "data/test", tmp_path / "shorter")
    features = dict(iter_matrices(corpus / "data/test/feats.scp"))
    first = next(iter(features))
    frames = len(features[first])
    features[first] = features[first][1:]
    write_matrices(features.items(), tmp_path / "shorter/f.ark", tmp_path / "shorter/feats.scp")
    shutil.copytree(corpus / "b", tmp_path / "b")
    config = tmp_path / "b/config.yaml"
    config.write_text(config.read_text().replace("- data/test\n", f"- {tmp_path / 'shorter'}\n"))
    given = ["combine", str(corpus / "a"), str(tmp_path / "b"), f"--out={tmp_path / 'avg'}"]
    assert main(given) == 0
    assert main(["forward", str(tmp_path / "avg"), "--on=test", f"--out={tmp_path / 'out'}"]) == 1
    said = capsys.readouterr().err
    assert f"has {frames} frames of {first}, but" in said
    assert f"has {frames - 1}" in said
    assert not (tmp_path / "out/loglikes.ark").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--weights", "1"], "1 weights for 2 runs; give one for each"),
        (["--set", "model.units=3"], "--set model.units: the network is trained"),
        (["--set", "decode.beem=3"], "decode.beam"),
    ],
)
def test_what_does_not_fit_is_refused(
    options: list[str],
    message: str,
    corpus: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert combine(corpus, tmp_path / "avg", *options) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "avg").exists()


def test_a_combination_has_no_network_of_its_own(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert combine(corpus, tmp_path / "avg") == 0
    for verb in (["export", "--onnx=x"], ["fold", f"--out={tmp_path / 'x'}"]):
        assert main([verb[0], str(tmp_path / "avg"), *verb[1:]]) == 1
        assert "combines the networks of other runs (networks.json)" in capsys.readouterr().err
    assert main(["combine", str(tmp_path / "avg"), f"--out={tmp_path / 'twice'}"]) == 1
    assert "combines the networks of other runs" in capsys.readouterr().err
    with pytest.raises(InputError, match="several networks have no common layers"):
        bayes_asr.load(tmp_path / "avg", layer="layer1")
    assert combine(corpus, tmp_path / "avg") == 1
    assert "is not empty; choose another folder" in capsys.readouterr().err


def test_a_combination_behind_a_link_finds_its_networks(corpus: Path, tmp_path: Path) -> None:
    """`..` leads up from where the folder is, and not from the link that leads to it."""
    (tmp_path / "disk/deep/er").mkdir(parents=True)
    (tmp_path / "exp").symlink_to("disk/deep/er")
    (tmp_path / "a").symlink_to(corpus / "a")
    runs = [str(tmp_path / "a"), str(corpus / "b")]
    out = tmp_path / "exp/avg"
    assert main(["combine", *runs, f"--out={out}"]) == 0
    found = read_combination(out)
    assert found is not None
    assert [run.samefile(corpus / run.name) for run in found.runs] == [True, True]
    assert found.runs[0].is_symlink()  # it may lead elsewhere one day


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": [1, "x"]}, "weights is 'x', not a number"),
        ({"weights": [1, -1]}, "each must be above 0"),
        ({"networks": []}, "2 weights for 0 runs"),
        ({"average": "median"}, "average is median"),
        ({"head": 3}, "head is 3, not a text or null"),
    ],
)
def test_a_damaged_file_is_named(
    change: dict[str, object], message: str, corpus: Path, tmp_path: Path
) -> None:
    assert combine(corpus, tmp_path / "avg") == 0
    path = tmp_path / "avg/networks.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(InputError, match=message) as caught:
        read_combination(tmp_path / "avg")
    assert str(caught.value).startswith(f"{path}: not as bayes-asr combine writes it")


@pytest.mark.parametrize("content", ["3", '{"frontend": 5}'])
def test_environments_that_train_did_not_write_are_refused(
    content: str, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = shutil.copytree(corpus / "a", tmp_path / "a")
    (run / "env.json").write_text(content)
    assert main(["combine", str(corpus / "b"), str(run), f"--out={tmp_path / 'avg'}"]) == 1
    assert f"{run / 'env.json'}: not as train writes it" in capsys.readouterr().err
