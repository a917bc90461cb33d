"""Alignment with a transcript of which words may be unsaid, and between which others may be said.

The graph of the words, in which each run of them may be skipped, and a filler may stand between any
two. The filler's score of a frame is the mean of the best pdfs there: the on-line garbage model of
H. Bourlard, B. D'hoore & J.-M. Boite, "Optimizing recognition and rejection performance in
wordspotting systems", ICASSP 1994.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bayes_asr.base.elementary import log_scalar
from bayes_asr.base.errors import InputError
from bayes_asr.decode.align.best_path import AlignOptions, find_best_path
from bayes_asr.decode.align.phone_loop import HmmsWithFiller
from bayes_asr.decode.align.pronouncer import Pronouncer
from bayes_asr.decode.graph.assembly import assemble, expand_context
from bayes_asr.decode.graph.transducers import NO_PHONE, PhoneAcceptor, PhoneArc
from bayes_asr.decode.graph.transition_index import transition_costs
from bayes_asr.decode.search.engine import Engine
from bayes_asr.decode.search.inputs import build_decoding_graph, check_loglikes
from bayes_asr.kaldi_io.openfst import Fst
from bayes_asr.kaldi_io.transition_model import phone_spans

BEST_PDFS = 0.025  # share of the pdfs whose mean is the filler's score
LEAST_PDFS = 2  # of which it is at least: no word is better than the best pdf of each frame
# Costs, scaled as the search has them: of a run of skipped words, each word of it, and a filler.
OF_SKIPPING, OF_SKIPPED, OF_FILLER = 6.0, 0.05, 4.0
OF_ANCHOR = 4.0  # and of a skipped word that has been recognised there
LEAST_BEAM = 20.0  # within which a path may skip and fill a few times


@dataclass(frozen=True)
class SpokenWord:
    """A word of a transcript, by its index, and its frames; it ends before the frame `end`."""

    index: int
    start: int
    end: int


@dataclass(frozen=True)
class PartialAligner:
    """Aligner of transcripts with words that are not spoken, or without some that are."""

    pronouncer: Pronouncer
    options: AlignOptions
    engine: Engine

    def align(
        self,
        name: str,
        words: Sequence[str],
        loglikes: np.ndarray,
        anchors: Collection[int] = (),
    ) -> list[SpokenWord]:
        """The words that are spoken in log-likelihoods [T, P]; InputError where no path is.

        anchors: the words, by index, that have been recognised there.
        """
        count = max(LEAST_PDFS, round(BEST_PDFS * loglikes.shape[1]))
        best = np.partition(loglikes, -count, axis=1)[:, -count:]
        extended = np.column_stack([loglikes, best.mean(1, dtype=np.float64).astype(np.float32)])
        graph = build_decoding_graph(self.build_graph(words, anchors), self._hmms.model, name)
        checked, text = check_loglikes(graph, name, extended), f"parts of its {len(words)} words"
        options = replace(self.options, beam=max(self.options.beam, LEAST_BEAM))
        aligned = find_best_path(name, graph, checked, options, self.engine, text)
        phones, start, end = (
            x.tolist() for x in phone_spans(self._hmms.model, aligned.transition_ids)
        )
        return [
            SpokenWord(index, start[first], end[last - 1])
            for index, first, last in self._parse(name, words, phones)
        ]

    def build_graph(self, words: Sequence[str], anchors: Collection[int] = ()) -> Fst:
        """The graph of `words`: transition-ids on input labels, no output labels."""
        acceptor = self._build_acceptor(words, anchors)
        arcs, final = expand_context(acceptor, self.pronouncer.tree)
        fitted = [
            (source, self._fit(window), cost, target) for source, window, cost, target in arcs
        ]
        graph = assemble(fitted, final, self._hmms)
        scales = self.options.transition_scale, self.options.self_loop_scale
        costs = transition_costs(self._hmms.model, self._hmms.transitions, *scales)
        return replace(graph, weight=graph.weight + costs[graph.ilabel])

    def _build_acceptor(self, words: Sequence[str], anchors: Collection[int]) -> PhoneAcceptor:
        """Phones of the words, pauses, fillers, and arcs without a phone that skip words.

        Three states a boundary: words come in (3i), words go out (3i + 1), words are being skipped
        (3i + 2); fillers and inner phones are numbered behind them.
        """
        pronouncer, arcs = self.pronouncer, list[PhoneArc]()
        pause = pronouncer.lang.silence_probability if pronouncer.silence else 0.0
        states = 3 * (len(words) + 1)
        for i in range(len(words) + 1):
            come, go, skip = 3 * i, 3 * i + 1, 3 * i + 2
            filled, states = states, states + 1
            # Between two words is nothing, a pause, or a filler and perhaps a pause behind it.
            arcs.append((come, NO_PHONE, -log_scalar(1.0 - pause), go))
            if pause:
                arcs.append((come, pronouncer.silence, -log_scalar(pause), go))
                arcs.append((filled, pronouncer.silence, 0.0, come))
            arcs += [
                (come, self._filler, OF_FILLER, filled),
                (filled, NO_PHONE, 0.0, go),
                (skip, NO_PHONE, 0.0, come),
            ]
            if i == len(words):
                return PhoneAcceptor(arcs, {go: 0.0})
            # A run of skipped words begins, goes on, and ends by the arc from `skip` to `come`.
            begin, go_on = (x + OF_ANCHOR * (i in anchors) for x in (OF_SKIPPING, OF_SKIPPED))
            arcs += [(go, NO_PHONE, begin, skip + 3), (skip, NO_PHONE, go_on, skip + 3)]
            # A spoken word leads from `go` to `come` of the next boundary.
            for cost, phones in pronouncer.pronounce(words[i]):
                inner = [go, *range(states, states + len(phones) - 1), come + 3]
                states += len(phones) - 1
                costs = [cost, *[0.0] * (len(phones) - 1)]
                arcs += zip(inner, phones, costs, inner[1:], strict=False)
        raise AssertionError("the last boundary returns")

    def _fit(self, window: tuple[int, ...]) -> tuple[int, ...]:
        """A window of the model: beside a filler a phone is as beside a pause."""
        if window and window[self.pronouncer.tree.center] == self._filler:
            return self._hmms.filler
        beside = self.pronouncer.silence
        return tuple(beside if phone == self._filler else phone for phone in window)

    def _parse(
        self, name: str, words: Sequence[str], phones: Sequence[int]
    ) -> list[tuple[int, int, int]]:
        """The words that the phones of a path say: index, first phone, and the one behind them.

        As few as can be are skipped.
        """
        between = {self.pronouncer.silence, self._filler}
        # For each word, by the phones passed behind it: those passed before it and what stands
        # before it, those passed before it alone, and whether it is said.
        steps: list[dict[int, tuple[int, int, bool]]] = []
        skips = {0: 0}  # words that are skipped, by the phones that are passed
        for word in [*words, None]:
            # Pauses and fillers first: they lead on at the same boundary.
            origin = {place: place for place in skips}
            for place in sorted(skips):
                at = place
                while at < len(phones) and phones[at] in between:
                    at += 1
                    if skips[place] < skips.get(at, len(words) + 1):
                        skips[at], origin[at] = skips[place], origin[place]
            if word is None:
                break
            onward = {place: (count + 1, place, False) for place, count in skips.items()}
            for place, count in skips.items():
                for _, spoken in self.pronouncer.pronounce(word):
                    end = place + len(spoken)
                    if [*phones[place:end]] == spoken and count < onward.get(end, (count + 1,))[0]:
                        onward[end] = (count, place, True)
            steps.append({end: (origin[p], p, is_said) for end, (_, p, is_said) in onward.items()})
            skips = {end: count for end, (count, *_) in onward.items()}
        if len(phones) not in skips:
            raise InputError(f"{name}: the alignment is not of its {len(words)} words")
        place, said_words = origin[len(phones)], []
        for index in range(len(words) - 1, -1, -1):
            before, first, is_said = steps[index][place]
            if is_said:
                said_words.append((index, first, place))
            place = before
        return said_words[::-1]

    @cached_property
    def _hmms(self) -> HmmsWithFiller:
        return HmmsWithFiller(self.pronouncer.model, self.pronouncer.tree)

    @property
    def _filler(self) -> int:
        return self._hmms.filler[-1]
