"""Goodness of pronunciation: against Kaldi's formula in NumPy, and every path of small loops."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_asr.base.errors import InputError
from bayes_asr.decode.align.goodness import PronunciationScorer
from bayes_asr.decode.align.phone_loop import PhoneLoop
from bayes_asr.decode.graph.topology import build_topology
from bayes_asr.kaldi_io.initial_mdl import build_monophone_model, build_transition_model
from bayes_asr.kaldi_io.transition_model import TopologyState, TransitionModel, phone_spans

CHAIN = (TopologyState(0, 1, ((0, 0.5), (1, 0.5))), TopologyState(-1, -1, ()))
SEEDS = st.integers(0, 10**6)


def contexts() -> TransitionModel:
    """Two phones of two states, the first state of each in two contexts, which share a pdf."""
    topology = build_topology([1, 2], [], nonsilence_states=2)
    rows = [(1, 0, 0, 0), (1, 0, 1, 1), (1, 1, 2, 2), (2, 0, 1, 1), (2, 0, 3, 3), (2, 1, 4, 4)]
    return build_transition_model(topology, rows)


def chain() -> TransitionModel:
    """Three phones of one state, whose self-loop has a pdf of its own."""
    rows = [(phone, 0, 2 * phone - 2, 2 * phone - 1) for phone in (1, 2, 3)]
    return build_transition_model(dict.fromkeys((1, 2, 3), CHAIN), rows)


def with_cycles() -> TransitionModel:
    """Silence of four states that form cycles, beside a phone."""
    topology = build_topology([2], [1], nonsilence_states=1, silence_states=4)
    rows = [(1, state, state, state) for state in range(4)] + [(2, 0, 4, 4)]
    return build_transition_model(topology, rows)


MODELS = {"contexts": contexts(), "chain": chain(), "cycles": with_cycles()}


def every_path(model: TransitionModel, frames: int) -> list[tuple[float, list[list[int]]]]:
    """The log-probability and the pdfs that each frame may have, of all beginnings of paths."""
    phones = sorted({*model.tuples[:, 0].tolist()})
    share = -math.log(len(phones))
    paths = [(share, [], (phone, 0)) for phone in phones]
    for _ in range(frames):
        longer = []
        for log_prob, pdfs, (phone, state) in paths:
            for target, _ in model.topology[phone][state].transitions:
                loop = target == state
                tids = [
                    tid
                    for tid in range(1, len(model.pdf))
                    if (model.phone[tid], model.hmm_state[tid]) == (phone, state)
                    and goes_to(model, tid) == target
                ]
                prob = np.mean([math.exp(model.log_prob[tid]) for tid in tids])
                emitted = sorted({int(model.pdf[tid]) for tid in tids})
                passed = (log_prob + math.log(prob), [*pdfs, emitted])
                if target == len(model.topology[phone]) - 1:
                    longer += [(passed[0] + share, passed[1], (other, 0)) for other in phones]
                else:
                    longer.append((*passed, (phone, target)))
                assert loop == bool(model.self_loop[tids[0]])
        paths = longer
    return [(log_prob, pdfs) for log_prob, pdfs, _ in paths]


def goes_to(model: TransitionModel, tid: int) -> int:
    """The HMM state that a transition-id leads to."""
    tids = [
        (row, target)
        for row, (phone, state, *_) in enumerate(model.tuples.tolist())
        for target, _ in model.topology[phone][state].transitions
    ]
    return tids[tid - 1][1]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("frames", [1, 2, 4])
def test_the_evidence_is_the_sum_over_all_paths_of_the_loop(name: str, frames: int) -> None:
    model, scale = MODELS[name], 0.3
    loglikes = np.random.default_rng(frames).normal(0, 5, (frames, model.num_pdfs))
    evidence = PhoneLoop(model).evidence(loglikes, scale)
    for end in range(1, frames + 1):
        total = -math.inf
        for log_prob, pdfs in every_path(model, end):
            for t, emitted in enumerate(pdfs):
                log_prob += scale * math.log(np.exp(loglikes[t, emitted]).mean())
            total = np.logaddexp(total, log_prob)
        assert evidence[:end].sum() == pytest.approx(total, abs=1e-9)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("frames", [1, 2, 4])
def test_the_best_path_of_the_loop_is_the_best_of_all(name: str, frames: int) -> None:
    model = MODELS[name]
    loglikes = np.random.default_rng(frames).normal(0, 5, (frames, model.num_pdfs))
    best = max(
        (log_prob + sum(loglikes[t, e].max() for t, e in enumerate(pdfs)), pdfs)
        for log_prob, pdfs in every_path(model, frames)
    )
    expected = [loglikes[t, emitted].max() for t, emitted in enumerate(best[1])]
    np.testing.assert_allclose(PhoneLoop(model).best_scores(loglikes), expected)


def kaldis_gop(
    model: TransitionModel, log_posteriors: np.ndarray, tids: np.ndarray, skipped: int
) -> tuple[list[int], np.ndarray, np.ndarray]:
    """compute-gop.cc line by line: phones, GOP, and its features of phone, LPPs and LPRs."""
    probs = np.exp(log_posteriors)
    lpps = np.zeros((len(probs), 1 + max(model.topology)))
    pdf2phones: dict[int, set[int]] = {}
    for phone, _, forward, loop in model.tuples.tolist():
        pdf2phones.setdefault(forward, set()).add(phone)
        pdf2phones.setdefault(loop, set()).add(phone)
    for pdf, phones in pdf2phones.items():
        for phone in phones:
            lpps[:, phone] += probs[:, pdf]
    with np.errstate(divide="ignore"):
        lpps = np.log(lpps)
    lpps[:, [0, skipped]] = -10
    alignment = model.phone[tids]
    begins = (model.hmm_state[tids] == 0) & ~model.self_loop[tids]
    place = np.cumsum(begins) - 1
    scored, gops, features = [], [], []
    for segment in range(place[-1] + 1):
        frames = np.flatnonzero(place == segment)
        phone, mean = int(alignment[frames[0]]), lpps[frames].mean(axis=0)
        if phone != skipped:
            scored.append(phone)
            gops.append(mean[phone] - mean.max())
            features.append(np.concatenate([[phone], mean, mean[phone] - mean]))
    return scored, np.array(gops), np.array(features)


def walk(model: TransitionModel, phones: list[int], seed: int) -> np.ndarray:
    """Transition-ids of phones one after the other, self-loops after the forward transitions."""
    rng, tids = np.random.default_rng(seed), []
    for phone in phones:
        for state in range(len(model.topology[phone]) - 1):
            of_state = (model.phone == phone) & (model.hmm_state == state)
            onward = np.flatnonzero(of_state & ~model.self_loop)
            loops = np.flatnonzero(of_state & model.self_loop)
            choice = rng.integers(len(onward))
            tids += [onward[choice], *([loops[choice]] * rng.integers(3))]
    return np.array(tids)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=6), SEEDS)
def test_it_is_what_kaldi_computes(phones: list[int], seed: int) -> None:
    """Monophones, phone 1 the silence; Kaldi's -10 for it is above none of these posteriors."""
    model = build_monophone_model([1, 2, 3], 3)
    tids = walk(model, phones, seed)
    logits = np.random.default_rng(seed).normal(0, 1, (len(tids), model.num_pdfs))
    posteriors = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    priors = np.log(np.random.default_rng(1).dirichlet(np.ones(model.num_pdfs)))
    table = {"<eps>": 0, "sil": 1, "a": 2, "b": 3}
    scores = PronunciationScorer(model, table, {"sil"}, priors).score(posteriors - priors, tids)
    expected, gops, features = kaldis_gop(model, posteriors, tids, skipped=1)
    assert [table[scores.names[i]] for i in scores.phone] == expected
    if expected:
        np.testing.assert_allclose(scores.gop, gops, atol=1e-9)
        np.testing.assert_allclose(scores.features, features[:, [3, 4, 7, 8]], atol=1e-9)


def test_shared_pdfs_count_for_each_phone() -> None:
    model, tids = contexts(), walk(contexts(), [2, 1], 3)
    logits = np.random.default_rng(0).normal(0, 2, (len(tids), 5))
    posteriors = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    scorer = PronunciationScorer(model, {"<eps>": 0, "a": 1, "b": 2}, (), np.zeros(5))
    _, gops, features = kaldis_gop(model, posteriors, tids, skipped=0)
    np.testing.assert_allclose(scorer.score(posteriors, tids).gop, gops, atol=1e-9)
    np.testing.assert_allclose(
        scorer.score(posteriors, tids).features, features[:, [2, 3, 5, 6]], atol=1e-9
    )


def test_places_in_the_word_are_one_phone() -> None:
    model = build_monophone_model([1, 2, 3, 4], 1)
    table = {"<eps>": 0, "SIL": 1, "a_B": 2, "a_E": 3, "b_S": 4}
    scorer = PronunciationScorer(model, table, {"SIL"}, np.zeros(4))
    assert scorer.names == ("a", "b")
    posteriors = np.log(np.array([[0.1, 0.2, 0.3, 0.4]]))
    np.testing.assert_allclose(np.exp(scorer.phone_posteriors(posteriors)), [[0.5, 0.4]])


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from([1, 2]), min_size=1, max_size=5), SEEDS)
def test_the_ratio_is_against_the_best_path_of_the_loop(phones: list[int], seed: int) -> None:
    model = MODELS["contexts"]
    tids = walk(model, phones, seed)
    loglikes = np.random.default_rng(seed).normal(0, 5, (len(tids), model.num_pdfs))
    scorer = PronunciationScorer(model, {"<eps>": 0, "a": 1, "b": 2}, (), np.zeros(5))
    scores = scorer.score(loglikes, tids)
    best = PhoneLoop(model).best_scores(loglikes)
    for ratio, start, end in zip(scores.loop_ratio, scores.start, scores.end, strict=True):
        frames = range(start, end)
        forced = np.mean([loglikes[t, model.pdf[tids[t]]] for t in frames])
        assert ratio == pytest.approx(forced - best[start:end].mean())


def test_spans_are_those_of_the_phones() -> None:
    model = build_monophone_model([1, 2], 2)
    tids = walk(model, [2, 2, 1], 5)
    phone, start, end = phone_spans(model, tids)
    assert phone.tolist() == [2, 2, 1]
    assert start[0] == 0
    assert end[-1] == len(tids)
    assert (start[1:] == end[:-1]).all()


def test_other_lengths_are_refused() -> None:
    scorer = PronunciationScorer(contexts(), {"<eps>": 0, "a": 1, "b": 2}, (), np.zeros(5))
    with pytest.raises(InputError, match="alignment of 3 frames and log-likelihoods of 4"):
        scorer.score(np.zeros((4, 5)), np.array([1, 2, 3]))


def test_a_phone_that_the_table_lacks_is_named() -> None:
    with pytest.raises(InputError, match="phone 2 of the model is not in its phone table"):
        PronunciationScorer(contexts(), {"<eps>": 0, "a": 1}, (), np.zeros(5))
