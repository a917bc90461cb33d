"""bayes-asr lattice-posteriors against what Kaldi's programs print."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.cli import main
from bayes_asr.kaldi_io.lattice_files import write_lattices
from bayes_asr.kaldi_io.text import read_mapping
from tests.decode.lattices.test_posteriors import read_kaldis
from tests.support.small_corpus import made_up, write_alignments
from tests.support.small_lattices import make_lattice

OPTIONS = ["--acoustic-scale=0.2", "--silence-phones=1"]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mmi_den", ["--criterion=mmi"]),
        ("smbr_one_silence", ["--criterion=smbr", "--one-silence-class"]),
    ],
)
def test_it_prints_what_kaldi_prints(
    name: str, options: list[str], golden: Path, shared_data: Path, tmp_path: Path
) -> None:
    folder = golden / "sequence" / "timit_dev"
    ali = shared_data / "kaldi" / "timit_sample" / "exp" / "tri3_ali_dev"
    out, likelihoods = tmp_path / "post", tmp_path / "loglikes"
    words = ["lattice-posteriors", f"--lattices={folder / 'lat.gz'}", f"--alignments={ali}"]
    words += [f"--model={ali / 'final.mdl'}", f"--out={out}", f"--loglikes={likelihoods}"]
    assert main([*words, *OPTIONS, *options]) == 0
    theirs = dict(read_kaldis(folder / f"{name}.post.gz"))
    ours = dict(read_kaldis(out))
    assert ours.keys() == theirs.keys()
    for utt, frames in theirs.items():
        assert len(frames) == len(ours[utt])
        for frame, mine in zip(frames, ours[utt], strict=True):
            none = dict.fromkeys(frame | mine, 0.0)
            assert none | mine == pytest.approx(none | frame, abs=1e-4)
    wanted = read_mapping(folder / "mmi_den.loglikes")
    found = read_mapping(likelihoods)
    assert {u: float(x) for u, x in found.items()} == pytest.approx(
        {u: float(x) for u, x in wanted.items()}, rel=1e-5
    )


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """A command line for lattices of two utterances, one of which is aligned."""
    aligned = list(made_up("train", 2)[1].items())
    write_alignments(tmp_path / "ali", aligned[:1])
    rng = np.random.default_rng(0)
    lattices = ((utt, make_lattice(ids, rng)) for utt, ids in aligned)
    write_lattices(lattices, tmp_path / "lat.1.gz")
    model = tmp_path / "ali" / "final.mdl"
    return ["lattice-posteriors", f"--lattices={tmp_path / 'lat.1.gz'}", f"--model={model}"]


def test_utterances_without_alignment_are_named(
    words: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--criterion=mpe", f"--alignments={tmp_path / 'ali'}"]) == 0
    said = capfd.readouterr()
    assert said.out.startswith("train0-0 [ ")
    assert len(said.out.splitlines()) == 1
    assert "train0-1: no alignment in" in said.err
    assert "overall average frame-accuracy is 0." in said.err


def test_what_is_missing_is_said(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--criterion=smbr"]) == 1
    assert "train0-0: smbr compares with an alignment; name one" in capfd.readouterr().err
    for wrong in ("sil", "1,2", "0"):
        with pytest.raises(SystemExit):
            main([*words, f"--silence-phones={wrong}"])
        said = capfd.readouterr().err
        assert f"argument --silence-phones: '{wrong}' is not phones as 1:2:3" in said


def test_alignments_of_another_model_are_refused(
    words: list[str], shared_data: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    other = shared_data / "kaldi" / "timit_sample" / "exp" / "tri3_ali_dev"
    assert main([*words, f"--alignments={other}"]) == 1
    assert f"{other / 'final.mdl'} (" in capfd.readouterr().err


def test_what_is_there_stays_where_nothing_is_found(
    words: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out, likelihoods = tmp_path / "post", tmp_path / "loglikes"
    out.write_text("old")
    write_alignments(tmp_path / "others", list(made_up("dev", 1)[1].items()))
    more = [f"--alignments={tmp_path / 'others'}", f"--out={out}", f"--loglikes={likelihoods}"]
    assert main([*words, *more]) == 1
    assert "there is no lattice with an alignment" in capfd.readouterr().err
    assert out.read_text() == "old"
    assert not likelihoods.exists()
    assert main([*words, f"--out={out}", f"--loglikes={out}"]) == 1
    assert "named by --loglikes and by --out; give each a file" in capfd.readouterr().err


def test_lattices_are_each_utterance_once_and_of_all_jobs(
    words: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lattices = [tmp_path / "lat.1.gz", tmp_path / "lat.2.gz"]
    shutil.copy(*lattices)
    both = ["lattice-posteriors", "--lattices", *map(str, lattices), words[-1]]
    assert main([*both, f"--out={tmp_path / 'post'}"]) == 1
    assert f"{lattices[1]}: train0-0 is there a second time" in capfd.readouterr().err
    assert not (tmp_path / "post").exists()
    (tmp_path / "num_jobs").write_text("3\n")
    assert main(both) == 1
    assert "num_jobs says 3" in capfd.readouterr().err


def test_shares_of_a_frame_add_up_to_one(
    words: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 0
    for line in capfd.readouterr().out.splitlines():
        for frame in line.split(" [ ")[1:]:
            shares = [float(share) for share in frame.removesuffix("]").split()[1::2]]
            assert sum(shares) == pytest.approx(1, abs=1e-5)
