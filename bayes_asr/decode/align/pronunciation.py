"""Goodness of pronunciation of a set: of its phones, words and utterances, by a run."""

from collections.abc import Callable, Container, Iterable, Iterator
from functools import cache, partial
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.log import LOGGER
from bayes_asr.base.processes.pool import map_utterances
from bayes_asr.data.features.front_end import FEATURES
from bayes_asr.data.features.skipped import report_skipped
from bayes_asr.data.sound.spectrum import FRAME_SHIFT
from bayes_asr.decode.align.best_path import AlignOptions
from bayes_asr.decode.align.spelling import open_transcripts
from bayes_asr.decode.align.transcripts import (
    LIMIT,
    PronouncerFiles,
    TranscriptSource,
    read_pronouncer,
)
from bayes_asr.decode.align.utterance_scorer import ScoredUtterance, UtteranceScorer
from bayes_asr.decode.forward.directory import (
    StreamSource,
    choose_limit,
    find_streams,
    log_likelihoods,
)
from bayes_asr.decode.forward.log_likelihoods import load
from bayes_asr.decode.search.utterance import choose_engine
from bayes_asr.train.runs.configuration import read_configuration
from bayes_asr.train.runs.run_model import locate_model

ScoredResult = tuple[str, ScoredUtterance | InputError]
CheckPlace = Callable[[Container[str], Path], None]
"""Refuses, before the work, a place that may not hold scores of these utterances of a folder."""


def score_run(
    run: Path,
    source: StreamSource,
    transcripts: TranscriptSource,
    options: AlignOptions,
    check_place: CheckPlace,
    nj: int = 1,
) -> Iterator[ScoredUtterance]:
    """Yield the utterances of a Kaldi directory, or of a set of the run, aligned and scored.

    Utterances that cannot be aligned are named, with the reason; InputError at the end if they are
    a larger share than `source.max_skipped`.
    """
    config = read_configuration(run)
    model = locate_model(run, config)
    network = load(run)
    limit = choose_limit(run, source.max_skipped)
    directories = find_streams(run, [network], source)
    directory = directories[FEATURES]
    check_place(directory.utt2spk, directory.path)
    words, files = open_transcripts(directory, transcripts, model)
    priors = tuple(network.log_priors.tolist())
    shift = FRAME_SHIFT * network.model.output_stride
    score = partial(_score_item, files, options, choose_engine().name, priors, shift)
    loglikes = log_likelihoods(run, network, directories, limit, source.open_pipe, LIMIT)
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
            raise InputError(f"{utt}: there is no transcript; write what is said into text")
        scorer = _open_scorer(files, options, engine, log_priors, frame_shift)
        return utt, scorer.score(utt, words, loglikes)
    except InputError as error:
        return utt, error
