"""Posteriors of the phones of an alignment: do text and sound agree?

Forward-backward over the graph of the transcript, in which each phone may be replaced by sound of
any phones: by a filler, whose frames have the evidence of a phone loop. A transcript of other words
than those of the sound is worse than the filler, and its phones have low posteriors.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.config.decoding_keys import UNLIMITED, SearchOptions
from bayes_asr.decode.align.phone_loop import PhoneLoop
from bayes_asr.decode.align.transcript import Pronouncer
from bayes_asr.decode.graph.assembly import Hmm, Hmms, WindowArc, assemble, expand_context
from bayes_asr.decode.graph.transition_index import transition_costs
from bayes_asr.decode.lattices.posteriors import compute_posteriors
from bayes_asr.decode.search.engine import Engine
from bayes_asr.decode.search.inputs import build_decoding_graph
from bayes_asr.kaldi_io.openfst import Fst
from bayes_asr.kaldi_io.transition_model import TopologyState, TransitionModel

MISMATCH = 0.05  # the probability that a phone of the text is not what one hears
SCALE = 0.1  # of log-likelihoods, for each 10 ms: neighbouring frames are no independent witnesses
BEAMS = (15.0, 60.0, 1000.0)  # natural logarithms; the next where no path to the end remains
STAYING = 0.75  # the probability of the filler's self-loop, as of a phone's states


@dataclass(frozen=True)
class ConfidenceModel:
    """The models of a transcript and of its filler, by one acoustic model.

    output_stride: frames of 10 ms of each log-likelihood.
    """

    pronouncer: Pronouncer
    engine: Engine
    output_stride: int = 1

    def frame_posteriors(
        self, utt: str, words: Sequence[str], loglikes: np.ndarray, transition_ids: np.ndarray
    ) -> np.ndarray:
        """The posterior that each frame is of the phone that an alignment [T] of `words` has there.

        loglikes: [T, P], unscaled. Returns float64 [T]. InputError where no path remains.
        """
        scale = SCALE * self.output_stride
        evidence = self._loop.evidence(loglikes, scale)
        frames = np.column_stack([np.float32(scale) * loglikes, evidence]).astype(np.float32)
        graph = build_decoding_graph(self.build_graph(words), self._hmms.model, utt)
        for beam in BEAMS:
            search = SearchOptions(scale, beam, UNLIMITED, lattice_beam=beam)
            lattice, complete = self.engine.search(graph, frames, search)
            if lattice is not None and complete:
                break
        else:
            raise InputError(f"{utt}: no path of its {len(words)} words for confidences")
        # The search took scaled log-likelihoods, so that the lattice has scaled costs.
        paths = compute_posteriors(lattice, 1.0)
        phone = self._hmms.model.phone
        agrees = phone[paths.tid] == phone[transition_ids][paths.frame]
        return np.bincount(paths.frame[agrees], paths.share[agrees], len(loglikes))

    def build_graph(self, words: Sequence[str]) -> Fst:
        """The graph of `words`, transition-ids on input labels, with a filler beside each phone."""
        speech = self.pronouncer
        word_ids = [speech.word_ids[speech.find_word(word)] for word in words]
        arcs, final = expand_context(speech.lexicon.transcript_acceptor(word_ids), speech.tree)
        with_fillers = [arc for phone in arcs for arc in self._add_filler(phone)]
        graph = assemble(with_fillers, final, self._hmms)
        costs = transition_costs(self._hmms.model, self._hmms.transitions)
        return replace(graph, weight=graph.weight + costs[graph.ilabel])

    def _add_filler(self, arc: WindowArc) -> list[WindowArc]:
        source, window, cost, target = arc
        if not window:
            return [arc]
        agreement, mismatch = -np.log([1 - MISMATCH, MISMATCH])
        return [
            (source, window, cost + agreement, target),
            (source, self._hmms.filler, cost + mismatch, target),
        ]

    @cached_property
    def _loop(self) -> PhoneLoop:
        return PhoneLoop(self.pronouncer.model)

    @cached_property
    def _hmms(self) -> "_HmmsWithFiller":
        return _HmmsWithFiller(self.pronouncer)


class _HmmsWithFiller(Hmms):
    """The HMMs of a model, and one of a phone more, whose only state has a pdf of its own."""

    def __init__(self, pronouncer: Pronouncer) -> None:
        super().__init__(_add_filler_phone(pronouncer.model), pronouncer.tree)
        self.filler = (0,) * pronouncer.tree.center + (max(self.model.topology),)

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
