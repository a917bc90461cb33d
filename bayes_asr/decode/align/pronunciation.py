"""Goodness of pronunciation of a set: of its phones, words and utterances, by a run."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.log import LOGGER
from bayes_asr.base.processes.pool import map_utterances
from bayes_asr.base.safe_pickle import loadable
from bayes_asr.data.features.front_end import FEATURES
from bayes_asr.data.features.skipped import report_skipped
from bayes_asr.data.sound.spectrum import FRAME_SHIFT
from bayes_asr.decode.align.best_path import AlignOptions
from bayes_asr.decode.align.forced import align_utterance, word_spans
from bayes_asr.decode.align.goodness import PhoneScores, PronunciationScorer
from bayes_asr.decode.align.pronouncer import Pronouncer
from bayes_asr.decode.align.timing_aligner import PronouncerFiles
from bayes_asr.decode.align.transcripts import (
    LIMIT,
    TranscriptSource,
    read_pronouncer,
    read_transcripts,
)
from bayes_asr.decode.forward.directory import (
    StreamSource,
    choose_limit,
    find_streams,
    log_likelihoods,
)
from bayes_asr.decode.forward.log_likelihoods import load
from bayes_asr.decode.graph.lang import read_silence_phones
from bayes_asr.decode.search.utterance import ENGINES, choose_engine
from bayes_asr.tasks.task import task_of
from bayes_asr.train.runs.configuration import read_configuration

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


ScoredResult = tuple[str, ScoredUtterance | InputError]


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


def score_run(
    run: Path,
    source: StreamSource,
    transcripts: TranscriptSource,
    options: AlignOptions,
    nj: int = 1,
) -> Iterator[ScoredUtterance]:
    """Yield the utterances of a Kaldi directory, or of a set of the run, aligned and scored.

    Utterances that cannot be aligned are named, with the reason; InputError at the end if they are
    a larger share than `source.max_skipped`.
    """
    config = read_configuration(run)
    model = task_of(config).locate_model()
    network = load(run)
    limit = choose_limit(run, source.max_skipped)
    directories = find_streams(run, [network], source)
    directory = directories[FEATURES]
    files = (transcripts.lang, model, transcripts.unknown)
    words = read_transcripts(directory, transcripts.text, read_pronouncer(*files))
    priors = tuple(network.log_priors.tolist())
    shift = FRAME_SHIFT * network.model.output_stride
    score = partial(_score_item, files, options, choose_engine().name, priors, shift)
    loglikes = log_likelihoods(network, directories, limit, source.open_pipe, LIMIT)
    results = map_utterances(score, ((u, (words.get(u), x)) for u, x in loglikes), nj)
    yield from _sift(results, directory.path, len(directory.utt2spk), limit)


def _sift(
    results: Iterable[ScoredResult], data: Path, total: int, limit: float
) -> Iterator[ScoredUtterance]:
    failed = []
    for utt, result in results:
        if isinstance(result, InputError):
            LOGGER.warning("not scored: %s", result)
            failed.append(utt)
        else:
            yield result
    report_skipped(f"no scores of {data}", failed, total, limit, LIMIT)


@cache  # once in each process
def _open_scorer(
    files: PronouncerFiles,
    options: AlignOptions,
    engine: str,
    log_priors: tuple[float, ...],
    frame_shift: float,
) -> UtteranceScorer:
    pronouncer = read_pronouncer(*files)
    priors = np.array(log_priors)
    return UtteranceScorer.open(pronouncer, files[0], priors, options, engine, frame_shift)


def _score_item(
    files: PronouncerFiles,
    options: AlignOptions,
    engine: str,
    log_priors: tuple[float, ...],
    frame_shift: float,
    utt: str,
    inputs: tuple[list[str] | None, np.ndarray],
) -> ScoredResult:
    """Score one utterance, here or in a worker process."""
    words, loglikes = inputs
    try:
        if words is None:
            raise InputError(f"{utt}: there is no transcript")
        scorer = _open_scorer(files, options, engine, log_priors, frame_shift)
        return utt, scorer.score(utt, words, loglikes)
    except InputError as error:
        return utt, error
