"""The preparation of AN4: CMU's two layouts, what Kaldi made of the corpus, and damaged files."""

import runpy
import struct
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.cli import main
from bayes_asr.decode.graph.ngram import read_arpa
from bayes_asr.kaldi_io.ark import iter_int_vectors, iter_matrices
from bayes_asr.kaldi_io.mdl import read_transition_model
from bayes_asr.kaldi_io.text import read_mapping, read_text
from tests.support.places import RECIPES

RECIPE = RECIPES / "an4"
DEV = (RECIPE / "dev_speakers.txt").read_text().split()


def prepare(corpus: Path, out: Path) -> int:
    """Run the recipe's script in this process; its status."""
    recipe = runpy.run_path(str(RECIPE / "prepare.py"))
    return recipe["main"](["--corpus", str(corpus), "--out", str(out)])


def sphinx(frames: int) -> bytes:
    """A file of Sphinx cepstra whose values count up."""
    return struct.pack(f">i{frames * 13}f", frames * 13, *range(frames * 13))


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A corpus in CMU's layout with one utterance of each speaker, without audio and cepstra."""
    folder = tmp_path / "an4"
    (folder / "etc").mkdir(parents=True)
    for name, directory, speakers in (
        ("train", "an4_clstk", [*DEV, "zoe", "abe"]),
        ("test", "an4test_clstk", ["tim"]),
    ):
        files = [f"{directory}/{speaker}/an1-{speaker}-b" for speaker in speakers]
        (folder / f"etc/an4_{name}.fileids").write_text("\n".join(files) + "\n")
        (folder / f"etc/an4_{name}.transcription").write_text(
            "".join(f"<s> GO YES </s> (an1-{speaker}-b)\n" for speaker in speakers)
        )
    (folder / "etc/an4.dic").write_text("GO   G OW\nYES  Y EH S\nYES(2)  Y AE S\nNO N OW\n")
    return folder


def with_files(corpus: Path, folder: str, suffix: str, content: bytes) -> Path:
    for listing in (corpus / "etc").glob("*.fileids"):
        for file in listing.read_text().split():
            path = corpus / folder / f"{file}{suffix}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    return corpus


def test_cepstra_become_the_features(corpus: Path, tmp_path: Path) -> None:
    assert prepare(with_files(corpus, "feat", ".mfc", sphinx(2)), tmp_path / "out") == 0
    train = tmp_path / "out/data/train"
    assert read_text(train / "text") == {
        "abe-an1-abe-b": ["GO", "YES"],
        "zoe-an1-zoe-b": ["GO", "YES"],
    }
    assert (train / "spk2utt").read_text() == "abe abe-an1-abe-b\nzoe zoe-an1-zoe-b\n"
    features = dict(iter_matrices(train / "feats.scp"))
    np.testing.assert_array_equal(features["zoe-an1-zoe-b"], np.arange(26).reshape(2, 13))
    statistics = dict(iter_matrices(train / "cmvn.scp"))
    np.testing.assert_array_equal(statistics["zoe"][0], [*range(13, 39, 2), 2])
    assert not (train / "wav.scp").exists()
    assert set(read_mapping(tmp_path / "out/data/dev/utt2spk").values()) == {*DEV}
    dictionary = tmp_path / "out/data/local/dict"
    assert (dictionary / "lexicon.txt").read_text() == (
        "<UNK> SIL\nGO G OW\nNO N OW\nYES Y AE S\nYES Y EH S\n"
    )
    model = read_arpa(tmp_path / "out/data/local/lm.arpa")
    assert model.order == 2
    assert model.log_prob["YES",] > model.log_prob["NO",]


def test_cepstra_are_enough_to_align_without_kaldi(corpus: Path, tmp_path: Path) -> None:
    """The states of SIL G OW Y EH S SIL last equally; those of silence are there twice."""
    out = tmp_path / "out"
    assert prepare(with_files(corpus, "feat", ".mfc", sphinx(42)), out) == 0
    folders = ["--data", str(out / "data/train"), "--lang", str(out / "data/local/dict")]
    assert main(["align", "--flat", *folders, "--oov", "<UNK>", "--out", str(out / "ali")]) == 0
    aligned = dict(iter_int_vectors(out / "ali/ali.1.gz"))
    assert aligned.keys() == {"abe-an1-abe-b", "zoe-an1-zoe-b"}
    model = read_transition_model(out / "ali/final.mdl")
    for tids in aligned.values():
        states, frames = np.unique(model.pdf[tids], return_counts=True)
        assert len(states) == 3 * 6
        assert sorted(frames) == [2] * 15 + [4] * 3


def test_audio_is_named_and_not_copied(corpus: Path, tmp_path: Path) -> None:
    with_files(corpus, "feat", ".mfc", sphinx(2))
    assert prepare(with_files(corpus, "wav", ".sph", b"NIST_1A\n"), tmp_path / "out") == 0
    test = tmp_path / "out/data/test"
    file = corpus / "wav/an4test_clstk/tim/an1-tim-b.sph"
    assert read_mapping(test / "wav.scp") == {"tim-an1-tim-b": str(file)}
    assert not (test / "feats.scp").exists()


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("etc/an4_train.transcription", b"GO YES an1-zoe-b\n", "line 1: no (file) at its end"),
        ("etc/an4_train.transcription", b"GO (an1-zoe-b)\n", "an1-fjam-b has no transcript"),
        ("etc/an4_train.fileids", b"an4_clstk/zoe/an1-zoe-b\n", "fjam"),
        ("etc/an4.dic", b"GO\n", "line 1: GO has no phones"),
        ("feat/an4_clstk/zoe/an1-zoe-b.mfc", sphinx(2)[:-1], "107 bytes for 26 values"),
        ("feat/an4_clstk/zoe/an1-zoe-b.mfc", b"", "0 bytes for 0 values"),
        ("feat/an4test_clstk/tim/an1-tim-b.mfc", None, "an1-tim-b.mfc"),
        ("wav/an4_clstk/zoe/an1-zoe-b.sph", b"NIST_1A\n", "an1-abe-b.sph is missing"),
    ],
)
def test_what_is_wrong_is_named(
    corpus: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    file: str,
    content: bytes | None,
    message: str,
) -> None:
    with_files(corpus, "feat", ".mfc", sphinx(2))
    if content is None:
        (corpus / file).unlink()
    else:
        (corpus / file).parent.mkdir(parents=True, exist_ok=True)
        (corpus / file).write_bytes(content)
    assert prepare(corpus, tmp_path / "out") == 1
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_equals_what_kaldi_was_run_on(shared_data: Path, tmp_path: Path) -> None:
    if not (shared_data / "an4").exists():
        pytest.skip("AN4 itself is absent")
    assert prepare(shared_data / "an4", tmp_path) == 0
    known = shared_data / "kaldi" / "an4" / "data"
    for part in ("train", "dev", "test"):
        for name in ("text", "utt2spk", "spk2utt"):
            ours = tmp_path / "data" / part / name
            assert ours.read_text() == (known / part / name).read_text()
    for path in (tmp_path / "data/local/dict").iterdir():
        assert path.read_text() == (known / "dict" / path.name).read_text()
    ours, kaldis = (
        read_arpa(path) for path in (tmp_path / "data/local/lm.arpa", known / "lm.arpa")
    )
    assert ours.log_prob.keys() == kaldis.log_prob.keys()
    frames = {utt: len(matrix) for utt, matrix in iter_matrices(tmp_path / "data/dev/feats.scp")}
    fmllr = {utt: len(matrix) for utt, matrix in iter_matrices(known.parent / "fmllr/dev.ark")}
    assert frames == fmllr
