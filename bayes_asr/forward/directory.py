"""The log-likelihoods of all utterances of a data directory."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from tqdm import tqdm

from bayes_asr.config import load as load_config
from bayes_asr.corpus.sets import data_dir, report_skipped
from bayes_asr.errors import InputError
from bayes_asr.features.stored import Features
from bayes_asr.forward.log_likelihoods import LogLikelihoods, load
from bayes_asr.lock import alone_in
from bayes_asr.log import LOGGER
from bayes_asr.nn.network import States
from bayes_asr.tables.ark import write_matrices
from bayes_asr.tables.binary import OpenPipe
from bayes_asr.tables.text import DataDir, read_data_dir

BATCH_SEQUENCES, BATCH_FRAMES = 64, 10_000


def forward(
    run: Path,
    out: Path,
    *,
    data: Path | None = None,
    on: str | None = None,
    counts: Path | None = None,
    max_skipped: float = 0.0,
    open_pipe: OpenPipe | None = None,
    chunk: int | None = None,
) -> int:
    """Write `out`/loglikes.{ark,scp} for the Kaldi directory `data` or the run's own set `on`.

    Every utterance is computed, aligned or not. Of those of utt2spk a share of `max_skipped` may
    lack features; they are named. chunk: how many frames are computed at a time, in networks that
    do not look ahead. Returns how many are written.
    """
    network = load(run, counts)
    if data:
        directory = read_data_dir(data, open_pipe=open_pipe)
    else:
        directory = data_dir(load_config([run / "config.yaml"]), on or "dev", open_pipe)
    items = log_likelihoods(network, directory, max_skipped, open_pipe, chunk=chunk)
    with alone_in(out):
        written = write_matrices(items, out / "loglikes.ark", out / "loglikes.scp")
    LOGGER.info("wrote the log-likelihoods of %d utterances to %s", written, out / "loglikes.scp")
    return written


def log_likelihoods(
    network: LogLikelihoods,
    data: DataDir,
    max_skipped: float,
    open_pipe: OpenPipe | None = None,
    limited_by: str = "--max-skipped",
    chunk: int | None = None,
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield utterances and their log-likelihoods [T, P], computed a few utterances at a time, or
    one by one with `chunk` frames at a time.

    Those of utt2spk that lack features are named first; InputError if they are a larger share than
    `max_skipped`, the message calling that limit `limited_by`.
    """
    features = Features(data, network.front_end, open_pipe=open_pipe)
    why, total = f"no features in {data.path}", len(data.utt2spk)
    report_skipped(why, features.missing, total, max_skipped, limited_by)
    utterances = tqdm(features.utterances, desc="forward", unit="utt", leave=False, disable=None)
    matrices = ((utt, _read_input(features, utt, network.front_end.size)) for utt in utterances)
    yield from in_chunks(network, matrices, chunk) if chunk else in_batches(network, matrices)


def _read_input(features: Features, utt: str, expected: int) -> np.ndarray:
    matrix = features[utt]
    if matrix.shape[1] != expected:
        raise InputError(
            f"{features.where(utt)}: {utt} has {matrix.shape[1]} dimensions, but the"
            f" network was trained on {expected}; use the features it was trained on"
        )
    return matrix


def in_chunks(
    network: LogLikelihoods, utterances: Iterable[tuple[str, np.ndarray]], chunk: int
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield log-likelihoods [T, P] of prepared utterances [T, F'], `chunk` frames at a time.

    The state goes on from chunk to chunk: the numbers are those of the whole utterance. InputError
    for a network that looks ahead.
    """
    network.check_causal()
    for utt, matrix in utterances:
        loglikes = np.empty((len(matrix), len(network.log_priors)), np.float32)
        states: States = []
        for start in range(0, len(matrix), chunk):
            some = slice(start, start + chunk)
            computed, states = network.advance(matrix[some], states)
            loglikes[some] = computed.numpy()
        yield utt, loglikes


def in_batches(
    network: LogLikelihoods, utterances: Iterable[tuple[str, np.ndarray]]
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield log-likelihoods [T, P] of prepared utterances [T, F'], many computed together.

    Up to BATCH_SEQUENCES utterances and BATCH_FRAMES frames, or one that is longer.
    """
    for group in _groups(utterances):
        computed = network.of_prepared([matrix for _, matrix in group])
        for (utt, _), loglikes in zip(group, computed, strict=True):
            yield utt, loglikes.numpy()


def _groups(utterances: Iterable[tuple[str, np.ndarray]]) -> Iterator[list[tuple[str, np.ndarray]]]:
    group: list[tuple[str, np.ndarray]] = []
    frames = 0
    for item in utterances:
        if group and (len(group) == BATCH_SEQUENCES or frames + len(item[1]) > BATCH_FRAMES):
            yield group
            group, frames = [], 0
        group.append(item)
        frames += len(item[1])
    if group:
        yield group
