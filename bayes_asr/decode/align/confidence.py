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
from bayes_asr.decode.align.phone_loop import HmmsWithFiller, PhoneLoop
from bayes_asr.decode.align.pronouncer import Pronouncer
from bayes_asr.decode.graph.assembly import WindowArc, assemble, expand_context
from bayes_asr.decode.graph.transition_index import transition_costs
from bayes_asr.decode.lattices.posteriors import compute_posteriors
from bayes_asr.decode.search.engine import Engine
from bayes_asr.decode.search.inputs import build_decoding_graph
from bayes_asr.kaldi_io.openfst import Fst

MISMATCH = 0.05  # the probability that a phone of the text is not what one hears
SCALE = 0.1  # of log-likelihoods, for each 10 ms: neighbouring frames are no independent witnesses
BEAMS = (15.0, 60.0, 1000.0)  # natural logarithms; the next where no path to the end remains


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
        pronouncer = self.pronouncer
        acceptor = pronouncer.accept(words)
        arcs, final = expand_context(acceptor, pronouncer.tree)
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
    def _hmms(self) -> "HmmsWithFiller":
        return HmmsWithFiller(self.pronouncer.model, self.pronouncer.tree)
