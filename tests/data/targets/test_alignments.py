"""Alignments and pdf counts against Kaldi's own output."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.data.targets.alignments import Alignments, read_counts
from bayes_asr.data.targets.target import DISABLED, log_priors
from bayes_asr.kaldi_io.integers import write_int_vectors
from tests.support.golden_data import lay_out
from tests.support.small_corpus import MODEL, PHONES, write_alignments


def ids(*transition_ids: int) -> np.ndarray:
    return np.array(transition_ids, np.int32)


@pytest.mark.parametrize("corpus", ["timit_sample", "an4"])
def test_counts_are_those_of_analyze_counts(
    kaldi_corpus: Callable[[str], Path], corpus: str
) -> None:
    root = kaldi_corpus(corpus)
    found = Alignments(root / "exp" / "tri3_ali")
    everything = [utt for path in found.directory.glob("ali.*.gz") for utt in _names(path)]
    golden = read_counts(root / "golden" / "pdf_counts.txt", found.model.num_pdfs)
    np.testing.assert_array_equal(found.targets["pdfs"].count(everything), golden)
    assert len(found) == len(everything)


def _names(path: Path) -> list[str]:
    from bayes_asr.kaldi_io.ark import iter_int_vectors

    return [utt for utt, _ in iter_int_vectors(path)]


def test_labels_are_absolute(tmp_path: Path) -> None:
    """Even where the first pdfs and phones do not occur, as in pytorch-kaldi they would shift."""
    last = MODEL.num_transition_ids
    write_alignments(tmp_path, [("a-1", ids(last, last - 1)), ("b-1", ids(last - 2))])
    found = Alignments(tmp_path)
    assert found.pdfs("a-1").tolist() == [MODEL.num_pdfs - 1] * 2
    assert found.phones("a-1").tolist() == [PHONES[-1]] * 2
    assert found.monophones("a-1").tolist() == [len(PHONES) - 1] * 2
    assert found.num_monophones == len(PHONES)
    assert "c-1" not in found
    assert found.targets["pdfs"].count(["a-1", "b-1"]).tolist() == [0.5] * (MODEL.num_pdfs - 2) + [
        1.5,
        2.5,
    ]


def test_transition_id_out_of_range_is_refused(tmp_path: Path) -> None:
    last = MODEL.num_transition_ids
    for bad in (0, -3, last + 1):
        write_alignments(tmp_path, [("a-1", ids(1, bad))])
        with pytest.raises(
            InputError, match=rf"ali.1.gz: a-1, frame 1 has transition-id {bad}, .* has 1 to {last}"
        ):
            Alignments(tmp_path)


@pytest.mark.parametrize(("system", "other"), [("mono", "tri1"), ("tri1", "tri2")])
def test_alignments_by_another_model_of_as_many_pdfs_are_announced(
    system: str, other: str, tmp_path: Path, messages: Callable[[], str]
) -> None:
    folder = lay_out(f"{system}_ali", tmp_path)
    assert len(Alignments(folder)) == 74
    assert not messages()
    model = lay_out(f"{other}_ali", tmp_path) / "final.mdl"
    shutil.copyfile(model, folder / "final.mdl")
    Alignments(folder)
    assert "in 37 of 37 utterances" in messages()
    assert "take the model that made the alignments" in messages()


def test_utterance_aligned_twice_is_refused(tmp_path: Path) -> None:
    write_alignments(tmp_path, [("a-1", ids(1))])
    write_int_vectors([("a-1", ids(1))], tmp_path / "ali.2.gz")
    with pytest.raises(InputError, match=r"ali.2.gz: a-1 is aligned a second time"):
        Alignments(tmp_path)


def test_directory_without_archives_is_refused(tmp_path: Path) -> None:
    write_alignments(tmp_path, [("a-1", ids(1))])
    for path in tmp_path.glob("ali.*.gz"):
        path.unlink()
    with pytest.raises(InputError, match=r"there is no ali.\*.gz; align the data first"):
        Alignments(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (" [ 1 2 ]\n", r"2 counts, but the network has 3 pdfs"),
        (" [ 1 -2 3 ]\n", r"counts must be finite, not negative"),
        (" [ 1 nan 3 ]\n", r"counts must be finite, not negative"),
        (" [ 0 0 0 ]\n", r"not all 0"),
        (" [ 1 x 3 ]\n", r"'x' before offset .* is no number"),
    ],
)
def test_unusable_counts_are_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "counts"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_counts(path, 3)


def test_priors_are_those_of_nnet_pdf_prior() -> None:
    """Kaldi's nnet-pdf-prior.cc: the log of the share, sqrt(FLT_MAX) where it is below 1e-10."""
    found = log_priors(np.array([30.0, 10.0, 0.0, 1e-12]))
    np.testing.assert_allclose(found[:2], np.log([0.75, 0.25]), rtol=1e-9)
    np.testing.assert_allclose(found[2:], 1.8446743e19, rtol=1e-6)
    assert found[2] == DISABLED
