"""Copying some utterances of a data directory: which ones, and what goes with them."""

import shutil
from pathlib import Path

import pytest

from bayes_asr.kaldi_io.ark import iter_matrices
from bayes_asr.kaldi_io.data_dir import read_data_dir
from tests.support.places import ROOT
from tests.support.recipe_modules import loaded

KALDIS = {5: [9, 18, 27, 32, 37], 12: [4, 6, 9, 13, 15, 18, 22, 24, 27, 32, 34, 37]}
"""What utils/subset_scp.pl takes of the numbers 1 to 37."""


@pytest.mark.parametrize("number", [0, 1, 5, 12, 36, 37])
def test_as_many_are_taken_from_each_half(number: int) -> None:
    items = [f"{item:02}" for item in range(1, 38)]
    with loaded(ROOT / "local", "subset_data") as module:
        chosen = module("subset_data").choose_evenly(items, number)
    assert len(chosen) == number
    assert chosen == sorted(set(chosen) & set(items))
    if number in KALDIS:
        assert [int(item) for item in chosen] == KALDIS[number]


def test_subset_is_a_data_directory_with_the_statistics_of_all(
    small_corpus: Path, tmp_path: Path
) -> None:
    data, copy = small_corpus / "data/train", tmp_path / "copy"
    with loaded(ROOT / "local", "subset_data") as module:
        assert module("subset_data").main(data, 5, copy) == 0
    features, whole = (dict(iter_matrices(d / "feats.scp")) for d in (copy, data))
    assert len(features) == 5
    assert all((matrix == whole[utt]).all() for utt, matrix in features.items())
    assert read_data_dir(copy).utt2spk.keys() == features.keys()
    statistics, all_of_them = (dict(iter_matrices(d / "cmvn.scp")) for d in (copy, data))
    assert statistics.keys() == all_of_them.keys()


def test_more_utterances_than_there_are_is_refused_in_one_line(
    small_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = shutil.copytree(small_corpus / "data/dev", tmp_path / "data")
    with loaded(ROOT / "local", "subset_data") as module:
        assert module("subset_data").main(data, 99, tmp_path / "copy") == 1
    said = capsys.readouterr().err
    assert said.endswith("has 4 utterances with features, not 99\n")
    assert said.count("\n") == 1
    assert not (tmp_path / "copy").exists()
