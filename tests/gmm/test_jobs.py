"""Jobs on the shares of a pass: each process reads tables and models once, not for every share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayes_asr.base.processes.pool import map_serially
from bayes_asr.gmm import jobs, resumable
from bayes_asr.gmm.features import JobInputs
from bayes_asr.gmm.resumable import StepFolders
from bayes_asr.gmm.schedule import LDA_MLLT
from bayes_asr.gmm.trainers import GmmTrainer
from bayes_asr.kaldi_io.ark import iter_int_vectors
from bayes_asr.kaldi_io.text import read_mapping
from tests.support.golden_data import SILENCE, find_lang, lay_out, write_few


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Four utterances, each of another speaker."""
    return write_few(tmp_path / "data", every=20)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The tables and models that jobs have read."""
    paths: list[Path] = []

    def note(function: Callable[..., Any]) -> Callable[..., Any]:
        def noting(path: Path, **options: Any) -> Any:
            paths.append(path)
            return function(path, **options)

        return noting

    for name in ("read_data_dir", "read_gmm"):
        monkeypatch.setattr(jobs, name, note(getattr(jobs, name)))
    return paths


@pytest.mark.slow
def test_lda_reads_the_tables_once(
    data: Path, tmp_path: Path, read: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resumable, "SHARE_FRAMES", 1)  # each utterance is a share
    source = lay_out("tri1_ali", tmp_path)
    folders = StepFolders(data, find_lang(), source, tmp_path / "out")
    GmmTrainer(LDA_MLLT, folders, map_serially).estimate_lda(0)
    assert (tmp_path / "out" / "final.mat").exists()
    assert read == [data]


@pytest.mark.parametrize("name", ["final.alimdl", "final.mdl"])
def test_fmllr_reads_the_model_that_aligns_once(
    name: str, data: Path, tmp_path: Path, read: list[Path]
) -> None:
    """As the model itself it gives what no further model gives."""
    source = lay_out("tri2_ali", tmp_path)
    model, aligner = source / "final.mdl", source / name
    aligner.write_bytes(model.read_bytes())
    inputs = JobInputs(data, source, model, silence=frozenset(SILENCE))
    speakers = read_mapping(data / "utt2spk")
    aligned = [(u, tids) for u, tids in iter_int_vectors(source / "ali.1.gz") if u in speakers][:2]
    found = [jobs.estimate_fmllr(aligner, inputs, speakers[u], [(u, t)])[1] for u, t in aligned]
    assert sorted(read) == sorted({data, model, aligner})
    utt, tids = aligned[1]
    due = jobs.estimate_fmllr(None, inputs, speakers[utt], [(utt, tids)])[1]
    np.testing.assert_array_equal(found[1], due)
