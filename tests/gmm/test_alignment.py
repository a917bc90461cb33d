"""Alignments of each step of Kaldi's training, from its models and features; equal starts."""

import gzip
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.data.features.front_end import add_deltas, splice
from bayes_asr.decode.align.best_path import Alignment
from bayes_asr.decode.graph.transducers import build_fst
from bayes_asr.decode.search.utterance import choose_engine
from bayes_asr.gmm.alignment import (
    ALIGN_SI,
    Aligner,
    align_all,
    align_equal_compiled,
    boost_silence,
)
from bayes_asr.gmm.graphs import GraphCompiler, read_compiler
from bayes_asr.gmm.likelihood import log_likelihoods
from bayes_asr.kaldi_io.ark import iter_int_vectors, iter_matrices
from bayes_asr.kaldi_io.fst import iter_fsts, read_fst, write_fsts
from bayes_asr.kaldi_io.gmm import read_gmm
from bayes_asr.kaldi_io.mixtures import Mixtures
from bayes_asr.kaldi_io.openfst import Fst
from bayes_asr.kaldi_io.text import read_mapping, read_text
from bayes_asr.kaldi_io.transition_model import TransitionModel
from bayes_asr.kaldi_io.tree import read_tree
from tests.conftest import existing
from tests.support.places import DATA

CORPUS = DATA / "kaldi" / "timit_sample"
GOLDEN = CORPUS / "golden" / "gmm"


@cache
def features(stage: str) -> dict[str, np.ndarray]:
    """What the models of a step read, computed as its README says."""
    speaker = read_mapping(GOLDEN / "data" / "utt2spk")
    cmvn = dict(iter_matrices(GOLDEN / "data" / "cmvn_train.ark"))
    means = {name: sums[0, :-1] / sums[0, -1] for name, sums in cmvn.items()}
    found = {
        utt: (x - means[speaker[utt]]).astype(np.float32)
        for utt, x in iter_matrices(GOLDEN / "data" / "mfcc_train.ark")
    }
    if stage in ("mono", "tri1"):
        return {utt: add_deltas(x, 2) for utt, x in found.items()}
    matrix = read_numbers((GOLDEN / "tri2" / "final.mat.txt").read_text())
    found = {utt: splice(x, 3, 3) @ matrix.T for utt, x in found.items()}
    if stage == "tri2":
        return found
    packed = gzip.decompress((GOLDEN / "tri3" / "trans.txt.gz").read_bytes()).decode()
    transforms = {
        name: read_numbers(body) for name, body in re.findall(r"(\S+)\s+\[(.*?)\]", packed, re.S)
    }
    moved = {utt: transforms[speaker[utt]] for utt in found}
    return {utt: x @ moved[utt][:, :-1].T + moved[utt][:, -1] for utt, x in found.items()}


def read_numbers(text: str) -> np.ndarray:
    rows = (line.strip("[] \n") for line in text.splitlines())
    return np.array([[*map(float, row.split())] for row in rows if row], np.float32)


@cache
def model_of(stage: str) -> tuple[TransitionModel, Mixtures, dict[str, Fst]]:
    """Model and graphs of a step of the training."""
    existing(GOLDEN)
    model, mixtures = read_gmm(GOLDEN / stage / "final.mdl")
    compiler = read_compiler(CORPUS / "data" / "lang", model, read_tree(GOLDEN / stage / "tree"))
    text = read_text(GOLDEN / "data" / "text")
    return model, mixtures, {utt: compiler.compile(utt, words) for utt, words in text.items()}


def read_alignments(folder: Path) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    for path in sorted(folder.glob("ali.*.gz")):
        found.update(iter_int_vectors(path))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["mono", "tri1", "tri2"])
def test_alignments_and_failures_are_kaldis(stage: str) -> None:
    model, mixtures, graphs = model_of(stage)
    kaldis = read_alignments(GOLDEN / f"{stage}_ali")
    results = dict(
        align_all(Aligner(model, mixtures, choose_engine()), graphs.items(), features(stage))
    )
    assert [*results] == [*graphs]
    for utt, found in results.items():
        if isinstance(found, InputError):
            assert utt not in kaldis
            assert f"{utt}: no path of its transcript" in str(found)
        else:
            assert found.transition_ids.tolist() == kaldis[utt].tolist(), utt


@pytest.mark.slow
def test_adapted_features_are_aligned_as_in_the_last_pass() -> None:
    """Kaldi's last alignment is of an earlier pass: it differs in few frames, and costs more."""
    model, mixtures, graphs = model_of("tri3")
    kaldis, x = read_alignments(GOLDEN / "tri3"), features("tri3")
    aligner = Aligner(model, mixtures, choose_engine())
    differ = frames = 0
    for utt, ali in kaldis.items():
        found = aligner.align(utt, graphs[utt], x[utt]).transition_ids
        differ, frames = differ + int((found != ali).sum()), frames + len(ali)
        loglikes = log_likelihoods(mixtures, x[utt]).astype(float)

        def cost(tids: np.ndarray, loglikes: np.ndarray = loglikes) -> float:
            heard = loglikes[np.arange(len(tids)), model.pdf[tids]].sum()
            return float(aligner.costs[tids].sum(dtype=float) - 0.1 * heard)

        assert cost(found) <= cost(ali) + 1e-3
    assert 0 < differ < 0.01 * frames


@pytest.mark.slow
def test_pauses_are_aligned_no_worse_than_by_kaldi(kaldi_corpus: Callable[[str], Path]) -> None:
    """AN4 has optional silence. Its features are stored with losses, so near ties may go apart."""
    root = kaldi_corpus("an4")
    exp = root / "exp" / "tri3_ali"
    model, mixtures = read_gmm(exp / "final.mdl")
    compiler = read_compiler(root / "data" / "lang", model, read_tree(exp / "tree"))
    text, kaldis = read_text(root / "data" / "train" / "text"), read_alignments(exp)
    x = {u: m for u, m in iter_features(root) if u in [*kaldis][:150]}
    graphs = {utt: compiler.compile(utt, text[utt]) for utt in x}
    differ = frames = 0
    for utt, found in align_all(Aligner(model, mixtures, choose_engine()), graphs.items(), x):
        assert not isinstance(found, InputError)
        differ += int((found.transition_ids != kaldis[utt]).sum())
        frames += len(kaldis[utt])
    assert differ < 0.003 * frames


def iter_features(root: Path) -> Iterator[tuple[str, np.ndarray]]:
    for ark in sorted((root / "fmllr").glob("*train*.ark")):
        if "cmvn" not in ark.name:
            yield from iter_matrices(ark)


def test_graphs_are_read_as_written(tmp_path: Path) -> None:
    _, _, graphs = model_of("tri1")
    some = dict([*graphs.items()][:3])
    assert write_fsts(some.items(), tmp_path / "fsts.1.gz") == 3
    for (utt, found), (name, graph) in zip(
        iter_fsts(tmp_path / "fsts.1.gz"), some.items(), strict=True
    ):
        assert utt == name
        for column in vars(graph):
            assert np.array_equal(getattr(found, column), getattr(graph, column)), column


def test_archives_of_kaldi_do_not_tell_their_sizes(tmp_path: Path) -> None:
    existing(CORPUS)
    packed = (CORPUS / "data" / "lang" / "L.fst").read_bytes()
    (tmp_path / "fsts").write_bytes(b"one " + packed + b"two " + packed)
    found = dict(iter_fsts(tmp_path / "fsts"))
    lexicon = read_fst(CORPUS / "data" / "lang" / "L.fst")
    assert [*found] == ["one", "two"]
    assert all(fst.olabel.tolist() == lexicon.olabel.tolist() for fst in found.values())


@pytest.mark.parametrize("kept", [0.4, 0.99])
def test_a_damaged_archive_is_refused(kept: float, tmp_path: Path) -> None:
    graph = two_ways()
    write_fsts([("one", graph), ("two", graph)], tmp_path / "whole")
    packed = (tmp_path / "whole").read_bytes()
    (tmp_path / "part").write_bytes(packed[: int(kept * len(packed))])
    with pytest.raises(InputError, match="truncated or damaged"):
        [*iter_fsts(tmp_path / "part")]


def compiler_of(stage: str) -> GraphCompiler:
    existing(GOLDEN)
    model, _ = read_gmm(GOLDEN / stage / "final.mdl")
    return read_compiler(CORPUS / "data" / "lang", model, read_tree(GOLDEN / stage / "tree"))


def test_what_has_no_graph_is_named() -> None:
    compiler = compiler_of("mono")
    with pytest.raises(InputError, match="empty: the transcript is empty"):
        compiler.compile("empty", [])
    with pytest.raises(InputError, match="strange: the word <s> has no pronunciation"):
        compiler.compile("strange", ["aa", "<s>"])
    unknown = compiler.compile("good", ["sil", "sil"])  # oov.txt says sil
    assert compiler.compile("good", ["sil", "zebra"]).ilabel.tolist() == unknown.ilabel.tolist()


def test_the_folder_of_another_model_is_refused(kaldi_corpus: Callable[[str], Path]) -> None:
    other = kaldi_corpus("an4") / "exp" / "tri3_ali"
    model, _ = read_gmm(other / "final.mdl")
    with pytest.raises(InputError, match="take the lang folder of the model"):
        read_compiler(CORPUS / "data" / "lang", model, read_tree(other / "tree"))


def test_the_graph_of_another_model_is_refused() -> None:
    model, mixtures, _ = model_of("mono")
    _, _, others = model_of("tri3")
    utt = next(iter(others))
    with pytest.raises(InputError, match=f"{utt}: its graph is of another model"):
        Aligner(model, mixtures, choose_engine()).align(utt, others[utt], features("mono")[utt])


def test_equal_lengths_are_those_of_kaldis_program() -> None:
    """The transcripts have one way only: states last equally, the first ones a frame longer."""
    model, _, graphs = model_of("mono")
    text = read_text(GOLDEN / "data" / "text")
    for utt, x in [*features("mono").items()][:10]:
        found = align_equal_compiled(utt, graphs[utt], len(x))
        assert len(found) == len(x)
        begins = np.flatnonzero(~model.self_loop[found])
        assert len(begins) == 3 * len(text[utt])
        lasting = np.diff([*begins.tolist(), len(x)])
        least, more = divmod(len(x) - len(begins), len(begins))
        assert lasting.tolist() == [least + 1 + (i < more) for i in range(len(begins))]


def two_ways() -> Fst:
    """From state 0 by transition-id 1 or 3 to the end, where both have self-loops."""
    arcs = [(0, 1, 0, 0.0, 1), (0, 3, 0, 0.0, 2), (1, 2, 0, 0.0, 1), (2, 4, 0, 0.0, 2)]
    return build_fst([*arcs, (1, 5, 0, 0.0, 3), (2, 5, 0, 0.0, 3)], {3: 0.0})


def test_ways_are_drawn_by_name_and_seed() -> None:
    graph = two_ways()
    drawn = [align_equal_compiled(f"utt{i}", graph, 5)[0] for i in range(40)]
    assert {*drawn} == {1, 3}
    again = [align_equal_compiled(f"utt{i}", graph, 5)[0] for i in range(40)]
    assert drawn == again
    others = [align_equal_compiled(f"utt{i}", graph, 5, seed=1)[0] for i in range(40)]
    assert drawn != others
    assert align_equal_compiled("utt", graph, 5).tolist() in ([1, 2, 2, 2, 5], [3, 4, 4, 4, 5])


def test_too_few_frames_are_refused() -> None:
    with pytest.raises(InputError, match="u: 1 frames, but its transcript has 2 states"):
        align_equal_compiled("u", two_ways(), 1)
    stiff = build_fst([(0, 1, 0, 0.0, 1)], {1: 0.0})
    with pytest.raises(InputError, match="u: 3 frames, but none of its 1 states can last"):
        align_equal_compiled("u", stiff, 3)
    assert align_equal_compiled("u", stiff, 1).tolist() == [1]


def test_silence_is_boosted_in_all_its_pdfs() -> None:
    model, mixtures, _ = model_of("mono")
    boosted = boost_silence(mixtures, model, [1], 1.5)
    x = next(iter(features("mono").values()))[:20]
    gain = log_likelihoods(boosted, x) - log_likelihoods(mixtures, x)
    silent = np.unique(model.pdf[1:][model.phone[1:] == 1])
    expected = np.zeros(mixtures.num_pdfs)
    expected[silent] = np.log(1.5)
    assert gain == pytest.approx(np.broadcast_to(expected, gain.shape), abs=1e-3)


@pytest.mark.slow
def test_what_kaldi_gives_up_can_be_rescued() -> None:
    model, mixtures, graphs = model_of("mono")
    kaldis = read_alignments(GOLDEN / "mono_ali")
    lost = {utt: graph for utt, graph in graphs.items() if utt not in kaldis}
    assert lost
    options = replace(ALIGN_SI, rescue=True)
    aligner = Aligner(model, mixtures, choose_engine(), options)
    for utt, found in align_all(aligner, lost.items(), features("mono")):
        assert isinstance(found, Alignment), utt
        assert found.retried
