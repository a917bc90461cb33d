"""What a GMM reads: pipelines in Kaldi's files, transforms by speaker, adapted data directories."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.data.features.front_end import add_deltas, apply_cmvn, cmvn_statistics, splice
from bayes_asr.gmm.features import (
    Pipeline,
    SpeakerFeatures,
    read_pipeline,
    read_transforms,
    write_fmllr,
    write_pipeline,
    write_transforms,
)
from bayes_asr.gmm.gaussian_sums import accumulate
from bayes_asr.kaldi_io.ark import iter_matrices, read_matrix, read_scp, write_matrices
from bayes_asr.kaldi_io.data_dir import read_data_dir
from tests.attacks.laboratory import contents
from tests.support.golden_data import write_golden_data
from tests.support.mixtures import golden_gmms
from tests.support.small_corpus import write_data_dir

RNG = np.random.default_rng(5)
SIZE, DIM = 3, 4  # of stored features, and after LDA
UTTERANCES = {f"{speaker}-{n}": RNG.normal(size=(6 + n, SIZE)) for speaker in "ab" for n in (1, 2)}
FULL = RNG.normal(size=(5 * SIZE, 5 * SIZE)).astype(np.float32)
LDA = Pipeline("mean", 0, 2, 2, FULL[:DIM], FULL)
TRANSFORMS = {s: RNG.normal(size=(DIM, DIM + 1)).astype(np.float32) for s in "ab"}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_data_dir(tmp_path / "data", UTTERANCES)
    return tmp_path / "data"


def centred(utt: str) -> np.ndarray:
    """The features of an utterance less the mean of its speaker."""
    said = [x for other, x in UTTERANCES.items() if other[0] == utt[0]]
    return (UTTERANCES[utt] - np.concatenate(said).mean(0)).astype(np.float32)


@pytest.mark.parametrize("cmvn", [True, False], ids=["cmvn.scp", "own utterances"])
def test_monophones_read_deltas(tmp_path: Path, cmvn: bool) -> None:
    write_data_dir(tmp_path, UTTERANCES, cmvn=cmvn)
    features = SpeakerFeatures(read_data_dir(tmp_path), Pipeline())
    assert features.utterances == [*UTTERANCES]
    assert features.dim == 3 * SIZE
    for utt in UTTERANCES:
        np.testing.assert_allclose(features[utt], add_deltas(centred(utt), 2), atol=1e-5)


def test_adapted_features_are_spliced_and_transformed_twice(data: Path) -> None:
    features = SpeakerFeatures(read_data_dir(data), replace(LDA, transforms=TRANSFORMS))
    for utt in UTTERANCES:
        x = splice(centred(utt), 2, 2) @ FULL[:DIM].T
        transform = TRANSFORMS[utt[0]]
        expected = x @ transform[:, :DIM].T + transform[:, DIM]
        np.testing.assert_allclose(features[utt], expected, atol=1e-3)
        assert features[utt].dtype == np.float32
    plain = SpeakerFeatures(read_data_dir(data), replace(features.pipeline, transforms=None))
    np.testing.assert_allclose(plain["a-1"], splice(centred("a-1"), 2, 2) @ FULL[:DIM].T, atol=1e-3)


def test_features_and_transforms_are_those_of_kaldis_last_pass(tmp_path: Path) -> None:
    golden = golden_gmms()
    matrix = read_matrix(f"{golden.root}/tri2/final.mat.txt", "the matrix")
    transforms = dict(iter_matrices(golden.root / "tri3" / "trans.txt.gz"))
    data = read_data_dir(write_golden_data(golden, tmp_path / "data"))
    features = SpeakerFeatures(data, Pipeline("mean", 0, 3, 3, matrix, None, transforms))
    model, mixtures = golden.model("tri3/final.mdl")
    alignments = golden.alignments("tri3").items()
    found = accumulate(mixtures, ((features[utt], model.pdf[tids]) for utt, tids in alignments))
    lines = (golden.root / "tri3" / "loglike_per_frame").read_text().splitlines()
    last = float(lines[-1].split()[1])  # of the model before the last update
    assert last < found.log_likelihood_per_frame < last + 0.05


@pytest.mark.parametrize(
    ("pipeline", "files"),
    [
        (Pipeline(), {"cmvn_opts": ""}),
        (Pipeline("none"), {"cmvn_opts": "--norm-means=false"}),
        (
            Pipeline("mean-variance", 1),
            {"cmvn_opts": "--norm-means=true --norm-vars=true", "delta_opts": "--delta-order=1"},
        ),
        (LDA, {"cmvn_opts": "", "splice_opts": "--left-context=2 --right-context=2"}),
    ],
    ids=["deltas", "no means", "one order", "LDA"],
)
def test_pipelines_come_back_from_kaldis_files(
    tmp_path: Path, pipeline: Pipeline, files: dict[str, str]
) -> None:
    for other in (LDA, Pipeline("none", 1), pipeline):  # what was there before leaves nothing
        write_pipeline(other, tmp_path)
    found = read_pipeline(tmp_path)
    for name in ("matrix", "full"):
        np.testing.assert_array_equal(getattr(found, name), getattr(pipeline, name))
    without = {"matrix": None, "full": None}
    assert replace(found, **without) == replace(pipeline, **without)
    written = {path.name: path.read_text().strip() for path in tmp_path.glob("*_opts")}
    assert written == files


def test_defaults_are_those_of_kaldis_programs(tmp_path: Path) -> None:
    assert read_pipeline(tmp_path) == Pipeline()
    write_pipeline(LDA, tmp_path)
    (tmp_path / "splice_opts").write_text("\n")
    found = read_pipeline(tmp_path)
    assert (found.left_context, found.right_context) == (4, 4)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("cmvn_opts", "--norm-means=false --norm-vars=true", "only with means"),
        ("cmvn_opts", "--skip-dims=1", "skip-dims=1 is not supported"),
        ("delta_opts", "--delta-window=3", "derivatives over 3 frames are not supported"),
    ],
)
def test_options_that_are_not_known_are_refused(
    tmp_path: Path, name: str, options: str, said: str
) -> None:
    (tmp_path / name).write_text(f"{options}\n")
    with pytest.raises(InputError, match=f"{name}: .*{said}"):
        read_pipeline(tmp_path)


def without_one() -> Pipeline:
    return replace(LDA, transforms={"a": TRANSFORMS["a"]})


@pytest.mark.parametrize(
    ("pipeline", "said"),
    [
        (replace(LDA, left_context=3), r"3 values, 18 with their context, .* \[4, 15\]"),
        (replace(LDA, transforms={"a": FULL}), r"transform of a is \[15, 15\], not \[4, 5\]"),
        (without_one(), "speaker b of b-1 has no transform, but 1 others have"),
    ],
    ids=["LDA", "fMLLR", "missing"],
)
def test_matrices_that_do_not_fit_are_refused(data: Path, pipeline: Pipeline, said: str) -> None:
    with pytest.raises(InputError, match=said):
        SpeakerFeatures(read_data_dir(data), pipeline)["b-1"]


def test_transforms_come_back(tmp_path: Path) -> None:
    (tmp_path / "trans.2").touch()
    assert write_transforms(TRANSFORMS.items(), tmp_path) == 2
    found = read_transforms(tmp_path)
    assert [*found] == ["a", "b"]
    for speaker, transform in found.items():
        np.testing.assert_array_equal(transform, TRANSFORMS[speaker])


def write_jobs(folder: Path, *speakers: str) -> None:
    for number, speaker in enumerate(speakers, 1):
        write_matrices([(speaker, TRANSFORMS[speaker])], folder / f"trans.{number}")


def test_transforms_of_all_jobs_are_read(tmp_path: Path) -> None:
    write_jobs(tmp_path, "b", "a")
    (tmp_path / "trans.1.log").write_text("no transform\n")
    assert [*read_transforms(tmp_path)] == ["b", "a"]


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        (lambda folder: write_jobs(folder, "a", "a"), r"trans\.2: a has a transform .* too"),
        (
            lambda folder: (folder / "num_jobs").write_text("3\n"),
            r"trans\.1 and 2 more are missing",
        ),
        (lambda folder: None, r"there is no trans\.1"),
    ],
    ids=["twice", "job", "none"],
)
def test_transforms_that_are_not_whole_are_refused(
    tmp_path: Path, break_it: Callable[[Path], object], said: str
) -> None:
    break_it(tmp_path)
    with pytest.raises(InputError, match=said):
        read_transforms(tmp_path)


@pytest.fixture
def model_dir(tmp_path: Path) -> Path:
    """A folder of LDA's files, and of transforms."""
    write_pipeline(LDA, tmp_path / "tri3")
    write_transforms(TRANSFORMS.items(), tmp_path / "tri3")
    (tmp_path / "tri3" / "final.mdl").touch()
    return tmp_path / "tri3"


def test_adapted_data_directory_has_all_that_a_network_reads(
    data: Path, model_dir: Path, tmp_path: Path
) -> None:
    (data / "stm").write_text("a line\n")
    (data / "frontend.json").write_text("{}")
    out = tmp_path / "fmllr"
    out.mkdir()
    (out / "frontend.json").write_text("{}")  # of features that were there before
    assert write_fmllr(data, model_dir, model_dir, out) == len(UTTERANCES)
    features = SpeakerFeatures(read_data_dir(data), replace(LDA, transforms=TRANSFORMS))
    written = dict(iter_matrices(out / "feats.scp"))
    assert [*written] == features.utterances
    for utt, x in written.items():
        np.testing.assert_array_equal(x, features[utt])
    for speaker, where in read_scp(out / "cmvn.scp").items():
        expected = cmvn_statistics(x for utt, x in written.items() if utt[0] == speaker)
        np.testing.assert_allclose(read_matrix(where, speaker), expected, rtol=1e-5)
    for name in ("text", "utt2spk", "stm"):
        assert (out / name).read_bytes() == (data / name).read_bytes()
    assert not (out / "frontend.json").exists()


def test_nothing_is_written_where_a_speaker_has_no_transform(
    data: Path, model_dir: Path, tmp_path: Path
) -> None:
    write_transforms([("a", TRANSFORMS["a"])], model_dir)
    with pytest.raises(InputError, match="speaker b of b-1 has no transform"):
        write_fmllr(data, model_dir, model_dir, tmp_path / "fmllr")
    assert not any((tmp_path / "fmllr").iterdir())


def test_a_folder_without_a_model_is_refused(data: Path, model_dir: Path, tmp_path: Path) -> None:
    """It would be one of cepstra and their derivatives."""
    with pytest.raises(InputError, match=r"tri4/final.mdl: is not there"):
        write_fmllr(data, tmp_path / "tri4", model_dir, tmp_path / "fmllr")


@pytest.mark.parametrize("out", ["data", "tri3", "ali"])
def test_what_adapted_features_are_made_of_stays(
    out: str, data: Path, model_dir: Path, tmp_path: Path
) -> None:
    ali = tmp_path / "ali"
    write_transforms(TRANSFORMS.items(), ali)
    before = contents(tmp_path)
    with pytest.raises(InputError, match=f"{out}: holds what is read"):
        write_fmllr(data, model_dir, ali, tmp_path / out)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("sound", [True, False])
def test_a_data_directory_of_others_stays(
    sound: bool, data: Path, model_dir: Path, tmp_path: Path
) -> None:
    """Kaldi's archives lie elsewhere; those of `bayes-asr features` beside frontend.json."""
    other = tmp_path / "other"
    shutil.copytree(data, other)
    for name in ("stm", "frontend.json") if sound else ("glm",):
        (other / name).write_text("{}")
    if sound:
        for name in ("feats.ark", "cmvn.ark"):
            (other / name).touch()
    else:
        (other / "feats.ark").unlink(missing_ok=True)
    before = contents(other)
    with pytest.raises(InputError, match=r"other: holds .*, which bayes-asr gmm features did not"):
        write_fmllr(data, model_dir, model_dir, other)
    assert contents(other) == before


def test_transforms_of_another_lda_are_refused(data: Path, model_dir: Path, tmp_path: Path) -> None:
    """As after a model was trained anew, and its alignment was not."""
    ali = shutil.copytree(model_dir, tmp_path / "tri3_ali")
    assert write_fmllr(data, model_dir, ali, tmp_path / "fmllr") == len(UTTERANCES)
    write_pipeline(replace(LDA, matrix=2 * LDA.matrix), ali)
    with pytest.raises(InputError, match=r"tri3_ali/final.mat: is not .*tri3/final.mat, .* anew"):
        write_fmllr(data, model_dir, ali, tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("kept", ["fmllr.json", "cmvn.ark"])
def test_adapted_features_are_made_anew(
    kept: str, data: Path, model_dir: Path, tmp_path: Path
) -> None:
    """Also where their archives were removed, and of versions that left no record."""
    out = tmp_path / "fmllr"
    (data / "frontend.json").write_text('{"kind": "mfcc"}')
    write_fmllr(data, model_dir, model_dir, out)
    before = contents(out)
    for name in {"fmllr.json", "cmvn.ark"} - {kept}:
        (out / name).unlink()
    assert write_fmllr(data, model_dir, model_dir, out) == len(UTTERANCES)
    assert contents(out) == before


def test_statistics_of_the_speaker_are_subtracted_as_apply_cmvn_does(data: Path) -> None:
    features = SpeakerFeatures(read_data_dir(data), Pipeline("mean-variance", 0))
    stats = cmvn_statistics(x for utt, x in UTTERANCES.items() if utt[0] == "a")
    expected = apply_cmvn(UTTERANCES["a-1"], "mean-variance", stats)
    np.testing.assert_allclose(features["a-1"], expected, atol=1e-5)
