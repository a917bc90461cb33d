"""Models of Gaussian mixtures: Kaldi's bytes, texts, damage and contradictions."""

import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_asr.base.errors import InputError
from bayes_asr.kaldi_io.gmm import read_gmm, write_gmm
from bayes_asr.kaldi_io.initial_mdl import build_monophone_model
from bayes_asr.kaldi_io.mixtures import Mixtures
from tests.support.mixtures import golden_gmms, random_mixtures

MODELS = ["mono/0.mdl", "mono/final.mdl", "tri1/final.mdl", "tri2/final.mdl", "tri3/final.mdl"]
TEXT = """<TransitionModel>
<Topology>
<TopologyEntry>
<ForPhones>
1
</ForPhones>
<State> 0 <PdfClass> 0 <Transition> 0 0.75 <Transition> 1 0.25 </State>
<State> 1 <PdfClass> 1 <Transition> 1 0.75 <Transition> 2 0.25 </State>
<State> 2 </State>
</TopologyEntry>
</Topology>
<Triples> 2
1 0 0
1 1 1
</Triples>
<LogProbs>
 [ 0 -0.2876821 -1.386294 -0.2876821 -1.386294 ]
</LogProbs>
</TransitionModel>
<DIMENSION> 2 <NUMPDFS> 2 <DiagGMM>
<GCONSTS>  [ -9 -9 ]
<WEIGHTS>  [ 0.25 0.75 ]
<MEANS_INVVARS>  [
  1 2
  3 4 ]
<INV_VARS>  [
  0.5 1
  2 4 ]
</DiagGMM>
<DiagGMM>
<WEIGHTS>  [ 1 ]
<MEANS_INVVARS>  [
  0 0 ]
<INV_VARS>  [
  1 1 ]
</DiagGMM>
"""


def same(a: Mixtures, b: Mixtures) -> None:
    for name in ("offsets", "weights", "inverse_variances", "means_inverse_variances", "gconsts"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


@pytest.mark.parametrize("name", MODELS)
def test_writing_gives_kaldis_bytes(name: str, tmp_path: Path) -> None:
    golden = golden_gmms()
    transitions, mixtures = golden.model(name)
    write_gmm(transitions, mixtures, tmp_path / "final.mdl")
    theirs, ours = (golden.root / name).read_bytes(), (tmp_path / "final.mdl").read_bytes()
    assert len(ours) == len(theirs)
    # Constants are computed, so one in a thousand differs in the last bit of its logarithms.
    assert sum(a != b for a, b in zip(theirs, ours, strict=True)) <= 2
    same(read_gmm(tmp_path / "final.mdl")[1], mixtures)


def test_text_is_read_and_constants_are_computed(tmp_path: Path) -> None:
    (tmp_path / "final.mdl").write_text(TEXT)
    transitions, mixtures = read_gmm(tmp_path / "final.mdl")
    assert transitions.num_pdfs == mixtures.num_pdfs == 2
    assert (mixtures.dim, mixtures.num_gaussians) == (2, 3)
    assert mixtures.offsets.tolist() == [0, 2, 3]
    assert mixtures.sizes.tolist() == [2, 1]
    assert mixtures.pdfs.tolist() == [0, 0, 1]
    np.testing.assert_array_equal(mixtures.means, [[2, 2], [1.5, 1], [0, 0]])
    np.testing.assert_array_equal(mixtures.variances, [[2, 1], [0.5, 0.25], [1, 1]])
    at_zero = -0.5 * np.sum(
        mixtures.means**2 / mixtures.variances + np.log(2 * np.pi * mixtures.variances), axis=1
    )
    np.testing.assert_allclose(mixtures.gconsts, at_zero + np.log([0.25, 0.75, 1]), rtol=1e-6)
    write_gmm(transitions, mixtures, tmp_path / "binary.mdl")
    same(read_gmm(tmp_path / "binary.mdl")[1], mixtures)


@given(sizes=st.lists(st.integers(1, 5), min_size=3, max_size=6), dim=st.integers(1, 9))
@settings(max_examples=20)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], dim: int
) -> None:
    path = tmp_path_factory.mktemp("gmm") / "final.mdl"
    mixtures = random_mixtures(sizes, dim)
    write_gmm(build_monophone_model([1]), mixtures, path)
    same(read_gmm(path)[1], mixtures)


def test_a_weight_of_zero_has_no_likelihood() -> None:
    one = np.ones((2, 1), np.float32)
    mixtures = Mixtures(np.array([0, 2]), np.array([0, 1], np.float32), one, one)
    assert mixtures.gconsts[0] == -np.inf
    assert np.isfinite(mixtures.gconsts[1])


@pytest.mark.slow
def test_every_truncation_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "final.mdl").write_text(TEXT)
    write_gmm(*read_gmm(tmp_path / "final.mdl"), tmp_path / "final.mdl")
    for content in ((tmp_path / "final.mdl").read_bytes()[:-1], TEXT.strip()[:-1].encode()):
        for end in range(len(content)):
            (tmp_path / "cut.mdl").write_bytes(content[:end])
            with pytest.raises(InputError, match=r"cut\.mdl"):
                read_gmm(tmp_path / "cut.mdl")


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("<DIMENSION> 2", "<DIMENSION> 0", "2 mixtures of dimension 0 for 2 pdfs"),
        ("<DIMENSION> 2", "<DIMENSION> 4", "in rows of 4 where 4 are due|1 means and 1 var"),
        ("<DIMENSION> 2", "<DIMENSION> 3", "4 values in rows of 3"),
        ("<NUMPDFS> 2", "<NUMPDFS> 1", "1 mixtures of dimension 2 for 2 pdfs"),
        ("<NUMPDFS> 2", "<NUMPDFS> 3", "the file ends"),
        ("<DIMENSION>", "<Nnet3>", "found '<Nnet3>'"),
        ("[ 0.25 0.75 ]", "[ 0.25 ]", "pdf 0 has 1 weights, 2 means and 2 variances"),
        ("[ 0.25 0.75 ]", "[ ]", "pdf 0 has 0 weights"),
        ("[ 0.25 0.75 ]", "[ -1 2 ]", "pdf 0 is no density"),
        ("[ 0.25 0.75 ]", "[ 0 0 ]", "pdf 0 is no density"),
        ("[ 1 ]", "[ nan ]", "pdf 1 is no density"),
        ("0 0 ]", "0 inf ]", "pdf 1 is no density"),
        ("1 1 ]", "1 0 ]", "pdf 1 is no density"),
        ("1 1 ]", "1 1 1 ]", "3 values in rows of 2"),
    ],
)
def test_contradictions_are_named(tmp_path: Path, old: str, new: str, part: str) -> None:
    assert old in TEXT
    path = tmp_path / "final.mdl"
    path.write_text(TEXT.replace(old, new))
    with pytest.raises(InputError, match=part) as error:
        read_gmm(path)
    assert str(error.value).startswith(str(path))


def test_forged_sizes_do_not_allocate(tmp_path: Path) -> None:
    (tmp_path / "final.mdl").write_text(TEXT)
    write_gmm(*read_gmm(tmp_path / "final.mdl"), tmp_path / "final.mdl")
    whole = (tmp_path / "final.mdl").read_bytes()
    two, huge = struct.pack("<bi", 4, 2), struct.pack("<bi", 4, 2**31 - 1)
    for name in (b"<NUMPDFS> ", b"<WEIGHTS> FV ", b"<INV_VARS> FM ", b"<INV_VARS> FM " + two):
        (tmp_path / "forged.mdl").write_bytes(whole.replace(name + two, name + huge))
        tracemalloc.start()
        with pytest.raises(InputError, match=r"forged\.mdl"):
            read_gmm(tmp_path / "forged.mdl")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1 << 20
