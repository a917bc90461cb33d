"""The promises of this project, each with what breaks it.

Others are in the rooms: 2 also in nn/test_recurrence.py and train/test_run.py, 6 in
score/test_sweeps.py, 7 in train/test_run.py, 8 in cli/test_bad_input.py, 9 in
score/test_compare.py, 10 in gmm/test_processors.py.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import bayes_asr
from bayes_asr.base.errors import InputError
from bayes_asr.base.programs import open_pipe
from bayes_asr.cli import main
from bayes_asr.config.merge import load
from bayes_asr.data.corpus.labelled import LabelledSet
from bayes_asr.data.corpus.sets import training_and_dev
from bayes_asr.data.features.front_end import FEATURES
from bayes_asr.decode.forward.log_likelihoods import LogLikelihoods
from bayes_asr.decode.forward.log_likelihoods import load as load_run
from bayes_asr.kaldi_io.ark import iter_matrices, write_matrices
from bayes_asr.nn.network import AcousticModel
from bayes_asr.train.batch import Batch
from bayes_asr.train.loader import Loader
from bayes_asr.train.runs import checkpoint
from bayes_asr.train.runs.trained_network import TrainedNetwork
from bayes_asr.train.runs.version_0_1 import upgrade_architecture
from tests.support.nn_units import acoustic_model, plain_front_end
from tests.support.places import CONF
from tests.support.small_corpus import (
    DIMENSIONS,
    MODEL,
    alignment,
    made_up,
    settings,
    write_alignments,
    write_corpus,
    write_data_dir,
)

BASE = [str(CONF / "base.yaml")]
ULP = 2e-6  # two steps of float32 between 8 and 16, where log-likelihoods lie


def loglikes(folder: Path) -> dict[str, np.ndarray]:
    return dict(iter_matrices(folder / "loglikes.scp"))


def forward(run: Path, out: Path, *options: object) -> dict[str, np.ndarray]:
    assert main(["forward", str(run), f"--out={out}", *map(str, options)]) == 0
    return loglikes(out)


def untrained_run(path: Path, inputs: int, pdfs: int, *options: str, **of_model: Any) -> Path:
    """A run directory of version 0.1 whose network was never trained."""
    torch.manual_seed(0)
    plan = {"inputs": inputs, "outputs": [pdfs], "units": [8], **of_model}
    content = {
        "architecture": plan,
        "model": AcousticModel(**upgrade_architecture(plan)).state_dict(),
        "mean": torch.zeros(inputs),
        "deviation": torch.ones(inputs),
        "log_priors": torch.full((pdfs,), -np.log(pdfs), dtype=torch.float64),
    }
    checkpoint.save(path / "best.pt", content)
    load([], options).save(path / "config.yaml")
    return path


# --- 1: the same log-likelihoods whatever the batch, the neighbours, the chunk


def network_of(run: Path, kind: str) -> LogLikelihoods:
    if kind == "trained":
        return load_run(run)
    torch.manual_seed(0)
    model = acoustic_model(DIMENSIONS, [30])
    model.load_state_dict({name: value * 1.3 for name, value in model.state_dict().items()})
    front_ends = {FEATURES: plain_front_end(DIMENSIONS)}
    priors = torch.zeros(30, dtype=torch.float64)
    return LogLikelihoods(TrainedNetwork(model, front_ends, priors))


@pytest.mark.parametrize("kind", ["trained", pytest.param("4 x 550", marks=pytest.mark.slow)])
def test_neighbours_change_nothing(kind: str, small_run: Path) -> None:
    """In single precision the network of 4 x 550 misses this: 4.8e-6 apart, measured."""
    network = network_of(small_run, kind)
    rng = np.random.default_rng(1)
    utterances = [
        (3 * rng.standard_normal((frames, DIMENSIONS))).astype(np.float32) for frames in (60, 1, 90)
    ]
    alone = [network.compute_prepared([x])[0] for x in utterances]
    for order in ([0, 1, 2], [2, 0], [1, 2, 0, 0]):
        together = network.compute_prepared([utterances[i] for i in order])
        for i, found in zip(order, together, strict=True):
            assert found.dtype == torch.float32
            torch.testing.assert_close(found, alone[i], rtol=0, atol=ULP)


def test_forward_of_one_utterance_is_that_of_the_set(small_run: Path, tmp_path: Path) -> None:
    """Also promise 5: no statistic comes from the other utterances that are read."""
    features, _ = made_up("test", 3)
    write_data_dir(tmp_path / "all", features)
    everything = forward(small_run, tmp_path / "together", "--data", tmp_path / "all")
    assert list(everything) == list(features)
    for utt, matrix in features.items():
        write_data_dir(tmp_path / utt, {utt: matrix})
        alone = forward(small_run, tmp_path / f"of-{utt}", "--data", tmp_path / utt)
        np.testing.assert_allclose(alone[utt], everything[utt], rtol=0, atol=ULP)


def test_python_gives_what_forward_writes(
    small_run: Path, small_corpus: Path, tmp_path: Path
) -> None:
    written = forward(small_run, tmp_path, "--on", "test")
    network = bayes_asr.load(small_run)
    for utt, matrix in iter_matrices(small_corpus / "data" / "test" / "feats.scp"):
        found = network(torch.from_numpy(matrix))
        assert not found.requires_grad
        np.testing.assert_allclose(found.numpy(), written[utt], rtol=0, atol=ULP)


def test_python_gives_what_forward_writes_with_everything_on(tmp_path: Path) -> None:
    """Speaker normalisation, deltas and context belong to the run, not to its caller."""
    root = write_corpus(tmp_path)
    options = ["features.cmvn=mean-variance", "features.deltas=1", "features.left_context=2"]
    run = untrained_run(tmp_path / "run", DIMENSIONS * 2 * 3, 6, f"data.dir={root}", *options)
    written = forward(run, tmp_path / "out", "--on", "dev")
    network = bayes_asr.load(run)
    stats = dict(iter_matrices(root / "data" / "dev" / "cmvn.scp"))
    for utt, matrix in iter_matrices(root / "data" / "dev" / "feats.scp"):
        found = network(matrix, cmvn=stats[utt.split("-")[0]])
        np.testing.assert_allclose(found.numpy(), written[utt], rtol=0, atol=1e-4)
    with pytest.raises(
        ValueError, match=r"features.cmvn = mean-variance\): pass the speaker's CMVN"
    ):
        network(matrix)


# --- 2: padding touches nothing


def every_target(data: LabelledSet) -> Callable[[list[str]], Batch]:
    """What loads batches of features as they are, with all labels."""
    front_ends = {FEATURES: plain_front_end(DIMENSIONS)}
    return Loader(data, front_ends, data.targets, seed=1, epoch=1)


def test_frames_of_a_batch_are_the_frames_of_its_utterances(small_corpus: Path) -> None:
    """Whatever would pad a short utterance would be seen in the sums of the batch."""
    train, _ = training_and_dev(load([], [f"data.dir={small_corpus}"]))
    utterances = list(train.lengths)
    batch = every_target(train)(utterances)
    frames = np.concatenate([train.prepare(utt)[FEATURES] for utt in utterances])
    assert batch.streams[FEATURES].shape == frames.shape
    np.testing.assert_allclose(
        batch.streams[FEATURES].double().sum(0), frames.astype(float).sum(0), rtol=1e-6
    )
    counts = train.targets["pdfs"].count(utterances) - 0.5
    assert (
        torch.bincount(batch.targets["pdfs"], minlength=MODEL.num_pdfs).tolist() == counts.tolist()
    )


def test_labels_stay_with_their_frames(small_corpus: Path) -> None:
    """Features whose first value tells the pdf and the utterance: packed, they still agree."""
    train, _ = training_and_dev(load([], [f"data.dir={small_corpus}"]))
    batch = every_target(train)(list(train.lengths))
    means = np.random.default_rng(0).standard_normal((MODEL.num_pdfs, DIMENSIONS))
    distance = np.abs(batch.streams[FEATURES].numpy() - means[batch.targets["pdfs"].numpy()])
    assert distance.mean() < 0.3  # made with a deviation of 0.3; with wrong labels about 1
    phones = np.array(
        [MODEL.phone[np.flatnonzero(MODEL.pdf == pdf)[-1]] for pdf in batch.targets["pdfs"]]
    )
    assert (np.unique(MODEL.phone[1:])[batch.targets["monophones"].numpy()] == phones).all()


# --- 3: no utterance vanishes


def corpus_without(root: Path, unaligned: int, without_features: int) -> Path:
    """A corpus of 12 training utterances, the first of which lack something."""
    write_corpus(root)
    features, alignments = made_up("train", 12)
    names = list(features)
    kept = {utt: alignments[utt] for utt in names[unaligned:]}
    shutil.rmtree(root / "exp" / "ali")
    write_alignments(root / "exp" / "ali", kept.items())
    gone = names[unaligned : unaligned + without_features]
    scp = root / "data" / "train" / "feats.scp"
    lines = [line for line in scp.read_text().splitlines() if line.split()[0] not in gone]
    scp.write_text("\n".join(lines) + "\n")
    return root


def test_skipped_utterances_are_named_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = corpus_without(tmp_path, unaligned=1, without_features=1)
    options = settings(root, "data.max_skipped=0.1", "train.epochs=1")
    assert main(["train", *BASE, *options, f"--out={tmp_path / 'run'}"]) == 0
    said = capsys.readouterr().err
    assert f"no alignment in {root / 'exp' / 'ali'} for 1 of 12 utterances: train0-0;" in said
    assert f"no features in {root / 'data' / 'train'} for 1 of 12 utterances: train0-1;" in said
    assert "they are skipped" in said


@pytest.mark.parametrize(("unaligned", "without_features"), [(2, 0), (0, 2), (12, 0)])
def test_more_than_the_limit_is_an_error(
    unaligned: int, without_features: int, tmp_path: Path
) -> None:
    root = corpus_without(tmp_path, unaligned, without_features)
    config = load([], [f"data.dir={root}", "data.max_skipped=0.1"])
    with pytest.raises(InputError, match=r"for \d+ of 12 utterances: train0-0, .* allows"):
        training_and_dev(config)


def test_a_set_without_any_aligned_utterance_is_an_error(tmp_path: Path) -> None:
    root = corpus_without(tmp_path, 12, 0)
    write_alignments(root / "exp" / "ali", [("other-1", np.array([1], np.int32))])
    with pytest.raises(
        InputError, match=r"train: none of the 12 utterances of .* has an alignment"
    ):
        training_and_dev(load([], [f"data.dir={root}", "data.max_skipped=1"]))


def test_test_utterances_without_alignment_are_computed(
    kaldi_corpus: Callable[[str], Path], tmp_path: Path
) -> None:
    """Kaldi's aligner gave up on four of the 32 of TIMIT's sample."""
    root = kaldi_corpus("timit_sample")
    run = untrained_run(tmp_path / "run", 40, 152, f"data.dir={root}")
    found = forward(run, tmp_path / "out", "--on", "test")
    assert len(found) == 32
    assert {"fblv0_si2318", "fblv0_sx248", "madd0_si1798", "mbcg0_si957"} <= found.keys()


def test_forward_counts_what_has_no_features(
    small_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    features, _ = made_up("test", 3)
    write_data_dir(tmp_path / "data", features)
    utt2spk = tmp_path / "data" / "utt2spk"
    utt2spk.write_text(utt2spk.read_text() + "x-1 x\n")
    arguments = ["forward", str(small_run), "--data", str(tmp_path / "data")]
    assert main([*arguments, "--out", str(tmp_path / "out")]) == 1
    said = f"no features in {tmp_path / 'data'} for 1 of 4 utterances: x-1; more than --max-skipped"
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out" / "loglikes.ark").exists()
    assert main([*arguments, "--out", str(tmp_path / "out"), "--max-skipped=0.25"]) == 0
    assert "1 of 4 utterances: x-1; they are skipped" in capsys.readouterr().err


# --- 4: labels are absolute, a pdf that never occurs is never likely


def test_pdf_with_zero_count_is_impossible_and_the_others_are_not(
    small_run: Path, tmp_path: Path
) -> None:
    """Log 0 in the prior would make its log-likelihood +inf: the likeliest of all."""
    counts = np.array([30.0, 0, 10, 20, 0, 40])
    path = tmp_path / "counts"
    path.write_text(f" [ {' '.join(map(str, counts))} ]\n")
    own = forward(small_run, tmp_path / "own", "--on", "test")
    users = forward(small_run, tmp_path / "users", "--on", "test", "--counts", path)
    priors = checkpoint.read(small_run / "best.pt")["log_priors"].numpy()
    there = counts > 0
    for utt, found in users.items():
        assert np.isfinite(found).all()
        assert (found[:, ~there] < -1e18).all()
        posteriors = own[utt] + priors
        expected = posteriors[:, there] - np.log(counts[there] / counts.sum())
        np.testing.assert_allclose(found[:, there], expected, atol=1e-5)


def test_posteriors_are_divided_by_the_shares_that_analyze_counts_gives(
    small_run: Path, small_corpus: Path
) -> None:
    train, _ = training_and_dev(load([small_run / "config.yaml"]))
    labels = np.concatenate([train.first_labels.pdfs(utt) for utt in train.lengths])
    counts = np.array([(labels == pdf).sum() + 0.5 for pdf in range(MODEL.num_pdfs)])
    network = bayes_asr.load(small_run)
    np.testing.assert_allclose(network.log_priors, np.log(counts / counts.sum()), rtol=1e-12)
    found = network(np.zeros((4, DIMENSIONS), np.float32)) + network.log_priors
    np.testing.assert_allclose(found.exp().sum(1), 1, rtol=1e-5)


@pytest.mark.slow
def test_a_trained_network_tells_absolute_pdfs(tmp_path: Path) -> None:
    """Alignments that begin with pdf 2: where labels count from the first seen, 0 would win."""
    rng = np.random.default_rng(0)
    for name, folder in (("train", "ali"), ("dev", "ali_dev")):
        ids = {f"{name}{n}-{n}": alignment(rng, 40) for n in range(6)}
        ids = {utt: np.maximum(ids[utt], 5).astype(np.int32) for utt in ids}  # pdfs 2 to 5
        features = {
            utt: np.eye(6, dtype=np.float32)[MODEL.pdf[x]] + 0.01 * len(utt)
            for utt, x in ids.items()
        }
        write_data_dir(tmp_path / "data" / name, features)
        write_alignments(tmp_path / "exp" / folder, ids.items())
    run = tmp_path / "run"
    options = settings(tmp_path, "train.epochs=8", "train.learning_rate=0.05")
    assert main(["train", *BASE, *options, f"--out={run}"]) == 0
    found = forward(run, tmp_path / "out", "--on", "dev")
    priors = checkpoint.read(run / "best.pt")["log_priors"].numpy()
    right = [(found[utt] + priors).argmax(1) == MODEL.pdf[x] for utt, x in ids.items()]
    assert np.concatenate(right).mean() > 0.8


# --- 5: statistics come from the training data or the speaker and travel in the checkpoint


def test_forward_needs_nothing_of_the_training_data(tmp_path: Path) -> None:
    root = write_corpus(tmp_path)
    run = tmp_path / "run"
    assert main(["train", *BASE, *settings(root, "train.epochs=1"), f"--out={run}"]) == 0
    before = forward(run, tmp_path / "before", "--on", "dev")
    shutil.rmtree(root / "data" / "train")
    shutil.rmtree(root / "exp")
    after = forward(run, tmp_path / "after", "--on", "dev")
    for utt, matrix in before.items():
        np.testing.assert_array_equal(after[utt], matrix)


def test_a_louder_speaker_does_not_change_the_others(tmp_path: Path) -> None:
    """Statistics of the set instead of the speaker would change them."""
    features, _ = made_up("dev", 6)
    louder = {u: x * 5 + 1 if u.startswith("dev1") else x for u, x in features.items()}
    run = untrained_run(tmp_path / "run", DIMENSIONS, 6, "features.cmvn=mean-variance")
    results = []
    for name, group in (("plain", features), ("louder", louder)):
        write_data_dir(tmp_path / name, group, cmvn=False)
        results.append(forward(run, tmp_path / f"of-{name}", "--data", tmp_path / name))
    for utt in features:  # and his own statistics make the louder speaker as he was
        np.testing.assert_allclose(results[0][utt], results[1][utt], atol=1e-4)


# --- 8: nothing is executed unless the user says so


def test_pipes_in_scp_files_run_only_on_request(
    small_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    features, _ = made_up("test", 3)
    data, mark = tmp_path / "data", tmp_path / "mark"
    write_data_dir(data, features)
    plain = forward(small_run, tmp_path / "plain", "--data", data)
    arks = {utt: data / f"{utt}.ark" for utt in features}
    for utt, matrix in features.items():
        write_matrices([(utt, matrix)], arks[utt])
    # An ark of one utterance without its name is what a pipe should print.
    commands = {utt: f"touch {mark}; tail -c +{len(utt) + 2} {arks[utt]} |" for utt in features}
    (data / "feats.scp").write_text("".join(f"{u} {c}\n" for u, c in commands.items()))
    arguments = ["forward", str(small_run), "--data", str(data), "--out", str(tmp_path / "piped")]
    assert main(arguments) == 1
    assert f"test0-0: refusing to run the command 'touch {mark}" in capsys.readouterr().err
    assert not mark.exists()
    assert main([*arguments, "--allow-pipes"]) == 0
    assert mark.exists()
    for utt, matrix in loglikes(tmp_path / "piped").items():
        np.testing.assert_array_equal(matrix, plain[utt])


def test_failing_pipe_is_an_error(
    small_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_data_dir(tmp_path, made_up("test", 1)[0])
    ark = tmp_path / "one.ark"
    write_matrices(made_up("test", 1)[0].items(), ark)
    (tmp_path / "feats.scp").write_text(f"test0-0 tail -c +9 {ark}; exit 3 |\n")
    arguments = ["forward", str(small_run), "--data", str(tmp_path), "--out", str(tmp_path / "o")]
    assert main([*arguments, "--allow-pipes"]) == 1
    assert "exit 3' failed with status 3" in capsys.readouterr().err


def test_what_is_not_read_of_a_pipe_is_no_failure() -> None:
    with open_pipe("yes") as pipe:
        assert pipe.read(4) == b"y\ny\n"


def test_a_checkpoint_is_never_executed(
    small_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Code:
        def __reduce__(self) -> tuple[object, ...]:
            return Path.mkdir, (tmp_path / "executed",)

    run = shutil.copytree(small_run, tmp_path / "run")
    torch.save({"format": 1, "model": Code()}, run / "best.pt")
    assert main(["forward", str(run), "--on", "dev"]) == 1
    assert f"{run / 'best.pt'}: cannot be read as a checkpoint" in capsys.readouterr().err
    assert not (tmp_path / "executed").exists()
