"""Fillers, which stand for any sound: the phone loop, and a phone more with a pdf of its own.

The loop, any phones one after the other, is that against which what the text says is measured: the
filler of keyword spotting and of S. Witt & S. Young, "Phone-level pronunciation scoring and
assessment for interactive language learning", Speech Communication 30, 2000. Its HMMs know no
context: a state has the pdfs of all its contexts.
"""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.decode.graph.assembly import Hmm, Hmms
from bayes_asr.kaldi_io.context_dependency import Tree
from bayes_asr.kaldi_io.transition_model import TopologyState, TransitionModel

STAYING = 0.75  # the probability of the filler's self-loop, as of a phone's states

HUB = 0  # the state between two phones
PassedArc = tuple[int, int, int, float]  # source, target, emission, log probability


class PhoneLoop:
    """The HMMs of all phones of a transition model in parallel, each as likely as the others.

    Arcs [A] are sorted by target. An emission is the set of pdfs of an HMM state of a phone, those
    of its self-loop apart.
    """

    def __init__(self, model: TransitionModel) -> None:
        """Take a model; InputError for a topology with a silent state before its last one."""
        pdfs_of: dict[tuple[int, int, bool], list[int]] = {}
        arcs, self._entries = _list_arcs(model, pdfs_of)
        states = 1 + max(source for source, *_ in arcs)
        # A state without an arc into it would have no part of its own in reduceat.
        arcs += [(HUB, state, 0, -np.inf) for state in range(states)]
        columns = zip(*sorted(arcs, key=lambda arc: arc[1]), strict=True)
        self._source, self._target, self._emission, self._weight = map(np.array, columns)
        self._first_arc = np.searchsorted(self._target, np.arange(states))
        counts = np.array([len(pdfs) for pdfs in pdfs_of.values()])
        self._pdfs = np.concatenate([*pdfs_of.values()])
        self._first_pdf, self._log_counts = np.cumsum(counts) - counts, np.log(counts)
        self._log_share = -np.log(len(self._entries))

    def evidence(self, loglikes: np.ndarray, acoustic_scale: float) -> np.ndarray:
        """The log-likelihood of each frame after those before it, over all paths, float64 [T].

        loglikes: [T, P], unscaled. All pdfs of a state are equally likely.
        """
        emissions = self._pool(np.logaddexp, loglikes) - self._log_counts
        totals = [0.0]
        for alpha in self._iter_forward(np.logaddexp, acoustic_scale * emissions):
            totals.append(float(np.logaddexp.reduce(alpha)))
        return np.diff(totals)

    def best_scores(self, loglikes: np.ndarray) -> np.ndarray:
        """The log-likelihoods [T] of the pdfs of the best path through loglikes [T, P]."""
        emissions = self._pool(np.maximum, loglikes)
        alphas = [self._begin(), *self._iter_forward(np.maximum, emissions)]
        scores, state = np.empty(len(emissions)), int(alphas[-1].argmax())
        for t in range(len(emissions) - 1, -1, -1):
            through = alphas[t][self._source] + self._weight + emissions[t, self._emission]
            reaches = self._target == state
            if state in self._entries:
                through = through + np.where(reaches, 0.0, self._log_share)
                reaches |= self._target == HUB
            arc = int(np.where(reaches, through, -np.inf).argmax())
            scores[t], state = emissions[t, self._emission[arc]], int(self._source[arc])
        return scores

    def _pool(self, add: np.ufunc, loglikes: np.ndarray) -> np.ndarray:
        """The sum, or maximum, over the pdfs of each emission, float64 [T, E]."""
        columns = loglikes[:, self._pdfs].astype(np.float64)
        return np.asarray(add.reduceat(columns, self._first_pdf, axis=1))

    def _begin(self) -> np.ndarray:
        alpha = np.full(len(self._first_arc), -np.inf)
        alpha[self._entries] = self._log_share
        return alpha

    def _iter_forward(self, add: np.ufunc, emissions: np.ndarray) -> Iterator[np.ndarray]:
        """The forward variables [S] after each frame, where paths to a state are added by `add`."""
        alpha = self._begin()
        for scores in emissions:
            through = alpha[self._source] + self._weight + scores[self._emission]
            alpha = add.reduceat(through, self._first_arc)
            # The hub emits nothing: what comes there goes on to all phones.
            onward = alpha[HUB] + self._log_share
            alpha[self._entries] = add(alpha[self._entries], onward)
            alpha[HUB] = -np.inf
            yield alpha


def _list_arcs(
    model: TransitionModel, pdfs_of: dict[tuple[int, int, bool], list[int]]
) -> tuple[list[PassedArc], list[int]]:
    """The arcs of all phones, and their first states. Fills `pdfs_of`: by phone, state, loop."""
    counts = [len(model.topology[phone][state].transitions) for phone, state, *_ in model.tuples]
    firsts = 1 + np.cumsum([0, *counts[:-1]])
    rows: dict[tuple[int, int], list[int]] = defaultdict(list)
    for row, (phone, state, *_) in enumerate(model.tuples.tolist()):
        rows[phone, state].append(row)
    numbers = {key: number for number, key in enumerate(rows, HUB + 1)}
    numbers |= {(phone, len(model.topology[phone]) - 1): HUB for phone, _ in rows}
    arcs: list[PassedArc] = []
    for (phone, state), members in rows.items():
        for index, (target, _) in enumerate(model.topology[phone][state].transitions):
            if (phone, target) not in numbers:
                raise InputError(f"state {target} of phone {phone} emits nothing before the last")
            tids = firsts[members] + index
            key = (phone, state, target == state)
            pdfs_of.setdefault(key, sorted({*model.pdf[tids].tolist()}))
            # The mean over contexts of the probability of the transition.
            log_prob = float(np.log(np.exp(model.log_prob[tids].astype(np.float64)).mean()))
            emission = [*pdfs_of].index(key)
            arcs.append((numbers[phone, state], numbers[phone, target], emission, log_prob))
    return arcs, [numbers[phone, 0] for phone in sorted({phone for phone, _ in rows})]


class HmmsWithFiller(Hmms):
    """The HMMs of a model, and one of a phone more, whose only state has a pdf of its own."""

    def __init__(self, model: TransitionModel, tree: Tree) -> None:
        super().__init__(_add_filler_phone(model), tree)
        self.filler = (0,) * tree.center + (max(self.model.topology),)

    def __getitem__(self, window: tuple[int, ...]) -> Hmm:
        if window == self.filler and window not in self._of_window:
            self._of_window[window] = self._build(window[-1], [self.model.num_pdfs - 1])
        return super().__getitem__(window)


def _add_filler_phone(model: TransitionModel) -> TransitionModel:
    """The model with one phone, one pdf and two transition-ids more: a self-loop and the end."""
    phone, pdf = max(model.topology) + 1, model.num_pdfs
    states = (
        TopologyState(0, 0, ((0, STAYING), (1, 1 - STAYING))),
        TopologyState(-1, -1, ()),
    )
    return TransitionModel(
        pdf=np.append(model.pdf, [pdf, pdf]),
        phone=np.append(model.phone, [phone, phone]),
        hmm_state=np.append(model.hmm_state, [0, 0]),
        self_loop=np.append(model.self_loop, [True, False]),
        log_prob=np.append(model.log_prob, np.log([STAYING, 1 - STAYING])),
        topology={**model.topology, phone: states},
        tuples=np.append(model.tuples, [[phone, 0, pdf, pdf]], axis=0),
    )
