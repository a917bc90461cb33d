"""Tree, alignments and graph of LF-MMI: as Kaldi's programs say, and read by what reads them."""

import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bayes_asr.base.errors import InputError
from bayes_asr.base.processes.pool import map_serially
from bayes_asr.cli import main
from bayes_asr.data.targets.alignments import Alignments
from bayes_asr.data.targets.contexts import locate_transitions, split_phones
from bayes_asr.decode.graph.topology import build_chain_topology, write_topology
from bayes_asr.gmm import chain_tree as chain_tree_steps
from bayes_asr.gmm.chain_tree import ChainOptions, ChainTree
from bayes_asr.gmm.resumable import StepFolders
from bayes_asr.gmm.subsampling import Subsampler, subsample_durations
from bayes_asr.kaldi_io.ark import write_matrix
from bayes_asr.kaldi_io.fst import read_fst
from bayes_asr.kaldi_io.initial_mdl import build_monophone_model
from bayes_asr.kaldi_io.mdl import read_topology
from bayes_asr.kaldi_io.tree import read_tree
from bayes_asr.tasks.chain.denominator_graph import DenominatorGraph
from bayes_asr.tasks.chain.leaky_hmm import LeakyHmm
from bayes_asr.tasks.chain.numerator import NumeratorBuilder, Tolerance
from bayes_asr.tasks.chain.phone_lm import PhoneLmOptions
from tests.support.chain_models import chain_model, chain_tree
from tests.support.golden_data import find_lang, lay_out, write_few

DURATIONS = st.lists(st.integers(1, 9), min_size=1, max_size=12)
OPTIONS = ChainOptions(leaves=120, phone_lm=PhoneLmOptions(4, 100, 3))


@given(durations=DURATIONS, factor=st.integers(1, 4))
def test_phones_keep_their_frames_and_at_least_one(durations: list[int], factor: int) -> None:
    found, frames = subsample_durations(durations, factor), -(-sum(durations) // factor)
    kept = np.bincount(np.repeat(np.arange(len(durations)), durations)[::factor])
    kept = np.pad(kept, (0, len(durations) - len(kept)))
    if frames < len(durations):
        assert found is None
    else:
        assert found is not None
        assert sum(found) == frames
        assert min(found) >= 1
        assert kept.min() == 0 or found == kept.tolist()


@pytest.mark.parametrize(
    ("durations", "wanted"),
    [
        ([3, 1, 1, 9], [1, 1, 1, 2]),  # the third phone has no frame: it takes one from the right
        ([9, 1, 1, 3], [2, 1, 1, 1]),  # the third again: two frames to the left is nearest
        ([1, 1, 6], [1, 1, 1]),  # the second; the first has none to spare
        ([7, 1, 7], [2, 1, 2]),  # both neighbours have: the left one gives
    ],
)
def test_lenders_are_kaldis(durations: list[int], wanted: list[int]) -> None:
    """By hand, after ComputeNewPhoneLengths."""
    assert subsample_durations(durations, 3) == wanted


def test_converted_alignments_begin_each_phone_with_its_first_pdf() -> None:
    old, new, tree = build_monophone_model((1, 2, 3)), chain_model(), chain_tree()
    forwards = {phone: np.flatnonzero((old.phone == phone) & ~old.self_loop) for phone in (1, 2, 3)}
    tids = np.concatenate([forwards[1], forwards[2], np.repeat(forwards[3], [1, 1, 1])])
    found = Subsampler(old, new, tree, 1).convert_alignment("utt", tids)
    assert new.pdf[found].tolist() == [0, 1, 1, 2, 3, 3, 5, 1, 1]
    assert new.self_loop[found].tolist() == [False, True, True] * 3
    fewer = Subsampler(old, new, tree, 2).convert_alignment("utt", tids)
    assert new.phone[fewer].tolist() == [1, 1, 2, 3, 3]
    with pytest.raises(InputError, match="utt: its 3 phones have 9 frames, too few"):
        Subsampler(old, new, tree, 5).convert_alignment("utt", tids)


def test_topology_is_kaldis(tmp_path: Path) -> None:
    """What steps/nnet3/chain/gen_topo.py prints, as `topo` is read and written."""
    topology = build_chain_topology([1, 2])
    write_topology(topology, tmp_path / "topo")
    text = (tmp_path / "topo").read_text()
    state = "<ForwardPdfClass> 0 <SelfLoopPdfClass> 1 <Transition> 0 0.5 <Transition> 1 0.5"
    assert f"<State> 0 {state} </State>\n<State> 1 </State>\n" in text
    assert read_topology(tmp_path / "topo") == topology


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a dozen golden utterances; questions ask for sets of phones, which is quick."""
    folder = tmp_path_factory.mktemp("chain")
    source = lay_out("mono_ali", folder)
    folders = StepFolders(write_few(folder / "data"), find_lang(), source, folder / "out")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chain_tree_steps, "cluster_phones", lambda statistics, sets, random: [*sets])
        ChainTree(OPTIONS, folders, map_serially, max_skipped=0.5).run()
        yield folder


def test_alignments_are_of_the_same_phones_at_a_third_of_the_rate(made: Path) -> None:
    before, after = Alignments(made / "mono_ali"), Alignments(made / "out")
    old, new = (locate_transitions(x.model) for x in (before, after))
    assert len(after) >= 10
    assert (made / "out/frame_subsampling_factor").read_text() == "3\n"
    for utt, tids in after.items():
        theirs = before.transition_ids(utt)
        assert len(tids) == -(-len(theirs) // 3)
        spoken = split_phones(utt, tids, after.model, new).phones
        assert spoken.tolist() == split_phones(utt, theirs, before.model, old).phones.tolist()


def test_pdfs_are_those_of_the_tree_for_each_phone_before(made: Path) -> None:
    model, tree = Alignments(made / "out").model, read_tree(made / "out/tree")
    assert (tree.width, tree.center) == (2, 1)
    phones = [*model.topology]
    pairs = {
        (p, tree.pdf((q, p), 0), tree.pdf((q, p), 1)) for q, p in product([0, *phones], phones)
    }
    assert {(p, *pdfs) for p, _, *pdfs in model.tuples.tolist()} == pairs


def test_every_utterance_has_a_numerator_in_the_graph(made: Path) -> None:
    aligned = Alignments(made / "out")
    fst = read_fst(made / "out/den.fst")
    graph = DenominatorGraph.of_fst(fst, aligned.model.num_pdfs)
    numerators = NumeratorBuilder(aligned.model, read_tree(made / "out/tree"), graph, Tolerance())
    before = Alignments(made / "mono_ali")
    places = locate_transitions(before.model)
    for utt, tids in aligned.items():
        split = split_phones(utt, before.transition_ids(utt), before.model, places)
        lattice = numerators.build(split.phones.tolist(), np.bincount(split.of_frame).tolist())
        assert lattice.num_frames == len(tids)
        own = set(zip(lattice.frame.tolist(), (lattice.tid - 1).tolist(), strict=True))
        assert own >= set(enumerate(aligned.pdfs(utt).tolist()))


def test_denominator_of_a_real_graph_is_the_product_of_its_matrices(made: Path) -> None:
    """In double precision; derivatives are those that torch finds through the products."""
    num_pdfs = Alignments(made / "out").model.num_pdfs
    graph = DenominatorGraph.of_fst(read_fst(made / "out/den.fst"), num_pdfs)
    scores = torch.from_numpy(np.random.default_rng(0).normal(0, 2, (12, num_pdfs)))
    initial = torch.from_numpy(graph.initial)
    leaking = torch.eye(graph.num_states).double() + 0.1 * initial.expand(graph.num_states, -1)
    places = tuple(torch.from_numpy(x).long() for x in (graph.source, graph.target))
    leaf, here = scores.clone().requires_grad_(), initial @ leaking
    for row in leaf.exp():
        arcs = torch.from_numpy(graph.prob) * row[torch.from_numpy(graph.pdf).long()]
        step = torch.zeros_like(leaking).index_put(places, arcs, accumulate=True)
        here = here @ step @ leaking
    log_total = here.sum().log()
    log_total.backward()
    found, share = LeakyHmm(graph, 0.1).sum_paths(scores.numpy())
    assert found == pytest.approx(log_total.item(), rel=1e-12)
    np.testing.assert_allclose(share, leaf.grad, atol=1e-12)


def test_features_that_are_transformed_already_are_read_as_they_are(
    made: Path, tmp_path: Path
) -> None:
    """A matrix beside the alignments that would not fit is passed over; every frame may be kept."""
    shutil.copytree(made / "mono_ali", tmp_path / "ali")
    write_matrix(np.eye(3, dtype=np.float32), tmp_path / "ali/final.mat")
    places = [str(x) for x in (made / "data", find_lang(), tmp_path / "ali", tmp_path / "out")]
    words = ["gmm", "chain-tree", *places, "--leaves=60", "--max-skipped=0.5"]
    words += ["--num-extra-lm-states=50", "--frame-subsampling-factor=1"]
    assert main(words) == 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chain_tree_steps, "cluster_phones", lambda statistics, sets, random: [*sets])
        assert main([*words, "--no-transforms"]) == 0
    before, after = (Alignments(tmp_path / name) for name in ("ali", "out"))
    assert {utt: len(tids) for utt, tids in after.items()} == {
        utt: before.lengths[utt] for utt in after.lengths
    }


@contextmanager
def interrupted_calls(seconds: float) -> Iterator[Counter[str]]:
    """Let a signal interrupt calls of the system (EINTR) that often; yields how often it came."""
    came = Counter[str]()
    before = signal.signal(signal.SIGALRM, lambda *_: came.update(["signals"]))
    signal.siginterrupt(signal.SIGALRM, True)
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        yield came
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_command_goes_on_where_it_was_ended(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A graph that is lost is made anew to the same bytes, whatever signals come."""
    out = made / "out"
    was = {path.name: path.read_bytes() for path in out.iterdir()}
    (out / "den.fst").unlink()
    words = ["gmm", "chain-tree", str(made / "data"), str(find_lang()), str(made / "mono_ali")]
    words += [str(out), "--leaves", "120", "--num-extra-lm-states", "100", "--max-skipped", "0.5"]
    with interrupted_calls(0.002) as came:
        assert main(words) == 0
    assert came["signals"] > 5
    assert {path.name: path.read_bytes() for path in out.iterdir()} == was
    assert "a denominator graph of" in capsys.readouterr().out


def test_utterances_with_more_phones_than_frames_are_named_and_left_out(
    made: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Where one of 30 frames is kept, no utterance has enough."""
    folders = StepFolders(made / "data", find_lang(), made / "mono_ali", tmp_path / "out")
    rare = replace(OPTIONS, frame_subsampling_factor=30)
    with pytest.raises(InputError, match="at this rate for any of 12 utterances"):
        ChainTree(rare, folders, map_serially, max_skipped=1.0).run()
    assert "phones have" in caplog.text
    assert not (tmp_path / "out/final.mdl").exists()
