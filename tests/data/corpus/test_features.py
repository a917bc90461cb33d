"""Features against Kaldi's own output and against closed forms."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.data.corpus.labelled import Features
from bayes_asr.data.features.front_end import (
    FrontEnd,
    Normalisation,
    add_deltas,
    append_context,
    apply_cmvn,
    cmvn_statistics,
    mean_and_deviation,
    splice,
)
from bayes_asr.kaldi_io.ark import iter_matrices, read_matrix, write_matrices
from bayes_asr.kaldi_io.data_dir import combine_data_dirs, read_data_dir
from tests.support.archives import put_empty_first
from tests.support.small_corpus import write_data_dir


def random_set(*shapes: tuple[int, int], seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        f"s{n % 2}-{n}": (3 + 2 * rng.standard_normal(shape)).astype(np.float32)
        for n, shape in enumerate(shapes)
    }


def test_deltas_are_those_of_add_deltas(kaldi_corpus: Callable[[str], Path]) -> None:
    golden = kaldi_corpus("timit_sample") / "golden"
    expected = dict(iter_matrices(golden / "mfcc_deltas.ark"))
    static = dict(iter_matrices(golden / "mfcc_dither0.ark"))
    assert static.keys() == expected.keys()
    for utt, matrix in static.items():
        np.testing.assert_allclose(add_deltas(matrix, 2), expected[utt], rtol=1e-5, atol=1e-4)


def test_deltas_of_a_straight_line_are_its_slope() -> None:
    line = np.outer(np.arange(20), [1.0, -2.0]).astype(np.float32)
    found = add_deltas(line, 2)
    np.testing.assert_allclose(found[2:-2, 2:4], np.tile([1, -2], (16, 1)), atol=1e-5)
    np.testing.assert_allclose(found[4:-4, 4:], 0, atol=1e-5)
    assert found.dtype == np.float32


def test_context_repeats_the_ends_and_never_leaves_the_utterance() -> None:
    frames = np.arange(4, dtype=np.float32)[:, None]
    expected = [[0, 0, 0, 1], [0, 0, 1, 2], [0, 1, 2, 3], [1, 2, 3, 3]]
    np.testing.assert_array_equal(splice(frames, 2, 1), expected)
    single = append_context(frames[:1], order=2, left=3, right=3)
    np.testing.assert_array_equal(single, np.tile([0, 0, 0], 7)[None])


def test_speaker_statistics_are_those_of_compute_cmvn_stats(
    kaldi_corpus: Callable[[str], Path],
) -> None:
    data = read_data_dir(kaldi_corpus("timit_sample") / "data" / "dev")
    assert data.feats
    assert data.cmvn
    speaker, rxfilename = next(iter(data.cmvn.items()))
    own = [utt for utt in data.feats if data.utt2spk[utt] == speaker]
    expected = read_matrix(rxfilename, speaker, dtype=np.float64)
    computed = cmvn_statistics(read_matrix(data.feats[utt], utt) for utt in own)
    np.testing.assert_allclose(computed, expected, rtol=1e-6, atol=1e-3)


@pytest.mark.parametrize("stored", [True, False], ids=["cmvn.scp", "own utterances"])
def test_a_speaker_has_mean_0_and_deviation_1_after_apply_cmvn(
    stored: bool, tmp_path: Path
) -> None:
    write_data_dir(tmp_path, random_set((11, 3), (7, 3), (9, 3), (8, 3)), cmvn=stored)
    features = Features(read_data_dir(tmp_path), FrontEnd(cmvn="mean-variance"))
    centred = Features(read_data_dir(tmp_path), FrontEnd(cmvn="mean"))
    for speaker in ("s0", "s1"):
        own = [utt for utt in features.utterances if utt.startswith(speaker)]
        together = np.concatenate([features[utt] for utt in own])
        np.testing.assert_allclose(together.mean(0), 0, atol=1e-5)
        np.testing.assert_allclose(together.std(0), 1, atol=1e-5)
        only_mean = np.concatenate([centred[utt] for utt in own])
        np.testing.assert_allclose(only_mean.mean(0), 0, atol=1e-5)
        assert only_mean.std() > 1.5


def test_a_constant_column_becomes_0_and_not_noise() -> None:
    matrix = np.full((1000, 1), 0.1, np.float32)
    found = apply_cmvn(matrix, "mean-variance", cmvn_statistics([matrix]))
    np.testing.assert_allclose(found, 0, atol=1e-3)
    np.testing.assert_allclose(Normalisation.of([matrix])(matrix + 1), 1, atol=1e-5)


def test_statistics_in_double_precision_survive_many_frames() -> None:
    """In single precision the mean of 10^7 frames near 1000 would be far off its deviation."""
    frames, mean, deviation = 1e7, 1000.0, 0.1
    stats = np.array([[frames * mean, frames], [frames * (mean**2 + deviation**2), 0]])
    np.testing.assert_allclose(mean_and_deviation(stats), [[mean], [deviation]], rtol=1e-4)


def test_normalisation_is_that_of_all_frames_together() -> None:
    matrices = list(random_set((50, 2), (3, 2)).values())
    together = np.concatenate(matrices)
    found = Normalisation.of(matrices)
    np.testing.assert_allclose(found.mean, together.mean(0), rtol=1e-5)
    np.testing.assert_allclose(found.deviation, together.std(0), rtol=1e-5)


def test_utterances_are_streamed_and_speakers_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_data_dir(tmp_path, random_set((11, 3), (7, 3), (9, 3), (8, 3)))
    read: list[str] = []

    def counted(rxfilename: str, utt: str, **options: object) -> np.ndarray:
        read.append(utt)
        return read_matrix(rxfilename, utt, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("bayes_asr.data.corpus.labelled.read_matrix", counted)
    features = Features(read_data_dir(tmp_path), FrontEnd(cmvn="mean"))
    assert not read
    for utt in ("s0-0", "s0-2", "s0-0"):
        features[utt]
    assert (read.count("s0"), read.count("s0-2"), read.count("s1-1")) == (1, 1, 0)


def test_features_of_another_size_are_refused(tmp_path: Path) -> None:
    write_data_dir(tmp_path, random_set((11, 3), (7, 4)), cmvn=False)
    features = Features(read_data_dir(tmp_path), FrontEnd())
    with pytest.raises(InputError, match=r"feats.ark:\d+: s1-1 has 7 frames of 4 values, but s0-0"):
        features["s1-1"]


@pytest.mark.parametrize("stored", [True, False], ids=["cmvn.scp", "own utterances"])
def test_an_utterance_without_frames_says_nothing_of_the_others(
    stored: bool, tmp_path: Path
) -> None:
    for name in ("whole", "torn"):
        write_data_dir(tmp_path / name, random_set((11, 3), (7, 3)), cmvn=stored)
    put_empty_first(tmp_path / "torn", "s0-", "s0")
    features, due = (
        Features(read_data_dir(tmp_path / name), FrontEnd(cmvn="mean-variance"))
        for name in ("torn", "whole")
    )
    assert (features.dimensions, features.first) == (3, "s0-0")
    assert [features.has_frames(utt) for utt in ("s0-", "s0-0")] == [False, True]
    for utt in due.utterances:
        np.testing.assert_array_equal(features[utt], due[utt])
    with pytest.raises(InputError, match=r"empty.ark: s0- has no frames .* s0-0 .* has 3 values"):
        features["s0-"]


@pytest.mark.parametrize(
    ("statistics_of", "message"),
    [
        ({"s0": np.ones((2, 4))}, r"cmvn.scp: speaker s1 is missing"),
        ({"s1": np.ones((2, 9))}, r"speaker s1 are \[2, 9\] of 1 frames, but .* need \[2, 4\]"),
        ({"s1": np.zeros((2, 4))}, r"speaker s1 are \[2, 4\] of 0 frames"),
    ],
)
def test_unusable_speaker_statistics_are_refused(
    statistics_of: dict[str, np.ndarray], message: str, tmp_path: Path
) -> None:
    write_data_dir(tmp_path, random_set((11, 3), (7, 3)), cmvn=False)
    write_matrices(statistics_of.items(), tmp_path / "cmvn.ark", tmp_path / "cmvn.scp")
    with pytest.raises(InputError, match=message):
        Features(read_data_dir(tmp_path), FrontEnd(cmvn="mean"))["s1-1"]


def test_the_file_that_lacks_a_speaker_is_named(tmp_path: Path) -> None:
    first, second = random_set((11, 3)), random_set((11, 3), (7, 3))
    write_data_dir(tmp_path / "a", first)
    write_data_dir(tmp_path / "b", {"s1-1": second["s1-1"]})
    (tmp_path / "b/cmvn.scp").write_text("")
    data = combine_data_dirs([read_data_dir(tmp_path / name) for name in "ab"])
    with pytest.raises(InputError, match=r"b/cmvn.scp: speaker s1 is missing"):
        Features(data, FrontEnd(cmvn="mean"))["s1-1"]


def test_a_directory_without_features_is_refused(tmp_path: Path) -> None:
    (tmp_path / "utt2spk").write_text("a a\n")
    with pytest.raises(InputError, match=r"feats.scp: there are no features; extract them first"):
        Features(read_data_dir(tmp_path), FrontEnd())
