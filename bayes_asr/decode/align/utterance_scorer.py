"""Goodness of pronunciation of an utterance: of its phones and words, aligned."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.safe_pickle import loadable
from bayes_asr.decode.align.best_path import AlignOptions
from bayes_asr.decode.align.forced import align_utterance, word_spans
from bayes_asr.decode.align.goodness import PhoneScores, PronunciationScorer
from bayes_asr.decode.align.pronouncer import Pronouncer
from bayes_asr.decode.graph.lang import read_silence_phones
from bayes_asr.decode.search.utterance import ENGINES

MEASURES = ("gop", "log_posterior", "loop_ratio")


@loadable
@dataclass(frozen=True)
class ScoredUtterance:
    """The scores of the phones of an utterance, and its words: each with its frames.

    frame_shift: seconds.
    """

    utt: str
    scores: PhoneScores
    words: list[tuple[str, int, int]]
    frame_shift: float

    def describe(self) -> dict[str, Any]:
        """All of it as plain values, times in seconds; a word has the mean of its phones."""
        scores = self.scores
        phones = [
            {
                "phone": scores.names[scores.phone[i]],
                **self._describe_span(int(scores.start[i]), int(scores.end[i])),
                **self._average(slice(i, i + 1)),
                "likeliest": scores.names[int(scores.lpp[i].argmax())],
            }
            for i in range(len(scores.phone))
        ]
        words = []
        for word, start, end in self.words:
            # Silences have no scores: the phones of a word are those that begin in its frames.
            span = slice(*np.searchsorted(scores.start, [start, end]).tolist())
            if span.start < span.stop:
                described = {"word": word, **self._describe_span(start, end)}
                words.append({**described, **self._average(span), "phones": phones[span]})
        return {"utterance": self.utt, **self._average(slice(None)), "words": words}

    def _describe_span(self, start: int, end: int) -> dict[str, float]:
        return {
            "start": round(start * self.frame_shift, 3),
            "end": round(end * self.frame_shift, 3),
        }

    def _average(self, phones: slice) -> dict[str, float]:
        return {
            name: round(float(getattr(self.scores, name)[phones].mean()), 4) for name in MEASURES
        }


@dataclass(frozen=True)
class UtteranceScorer:
    """Aligner of utterances that scores the pronunciation of their phones."""

    pronouncer: Pronouncer
    scorer: PronunciationScorer
    options: AlignOptions
    engine: str
    frame_shift: float

    @classmethod
    def open(
        cls,
        pronouncer: Pronouncer,
        lang: Path,
        log_priors: np.ndarray,
        options: AlignOptions,
        engine: str,
        frame_shift: float,
    ) -> "UtteranceScorer":
        """The scorer by log priors [P]; what is silence, the folder `lang` says."""
        silence = {pronouncer.lang.silence or "", *read_silence_phones(lang)}
        scorer = PronunciationScorer(pronouncer.model, pronouncer.phones, silence, log_priors)
        return cls(pronouncer, scorer, options, engine, frame_shift)

    def score(self, utt: str, words: Sequence[str], loglikes: np.ndarray) -> ScoredUtterance:
        """Score the phones of `words` in log-likelihoods [T, P]; InputError naming the utterance
        where it cannot be aligned, or has no phone but silence.
        """
        engine = ENGINES[self.engine]
        aligned = align_utterance(utt, words, loglikes, self.pronouncer, self.options, engine)
        tids = aligned.transition_ids
        scores = self.scorer.score(loglikes, tids)
        if not len(scores.phone):
            raise InputError(f"{utt}: its words have no phones but silence")
        spans = word_spans(words, tids, self.pronouncer)
        timed = [(word, *span) for word, span in zip(words, spans, strict=True)]
        return ScoredUtterance(utt, scores, timed, self.frame_shift)
