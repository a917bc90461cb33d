"""Feature directories: the features of the sound that a Kaldi data directory names."""

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import Any

import numpy as np

from bayes_asr.base.errors import InputError, name_some
from bayes_asr.base.files import discard, replacing, settle, together
from bayes_asr.base.log import LOGGER
from bayes_asr.base.progress import follow
from bayes_asr.base.shards import Mapper
from bayes_asr.data.features import fmllr_record
from bayes_asr.data.features.front_end import cmvn_statistics, read_analysis
from bayes_asr.data.features.skipped import check_limit
from bayes_asr.data.sound.audio import Channel
from bayes_asr.data.sound.recordings import (
    MAX_SKIPPED,
    Recordings,
    list_recordings,
    read_utterances,
)
from bayes_asr.data.sound.spectrum import Analysis
from bayes_asr.data.sound.speed import find_source
from bayes_asr.kaldi_io.ark import write_matrices
from bayes_asr.kaldi_io.byte_reader import OpenPipe
from bayes_asr.kaldi_io.segments import Segment
from bayes_asr.kaldi_io.text import read_mapping

FILES = ("feats.scp", "feats.ark", "cmvn.scp", "cmvn.ark", "frontend.json", fmllr_record.FILE)
"""Files of features and how they were made, in a data directory."""

Remark = tuple[str, str]  # a sound, and what was done to it
ANNOUNCED_SILENCE = 0.1  # seconds of digital silence; of shorter ones GMMs can be trained
UNLIKE = (
    f"has {ANNOUNCED_SILENCE:g} s or more of digital silence, whose features are unlike those of"
    " other silence, so that GMMs may learn nothing: --dither 1 gives it noise"
)


def write_features(
    data_dir: Path,
    front_end: Analysis,
    max_skipped: float = MAX_SKIPPED,
    *,
    channel: Channel | None = None,
    open_pipe: OpenPipe | None = None,
    mapper: Mapper | None = None,
) -> None:
    """Write feats.{ark,scp}, cmvn.{ark,scp} by speaker and frontend.json in a Kaldi data directory.

    Reads wav.scp, segments where there is one, and utt2spk. Utterances of utt2spk that are not
    there, are too short, outside their recording or of digital silence, and those of recordings
    that wav.scp lacks get no features: they are counted and named, and why is said.
    Sound of another rate is resampled, and of several channels the first is taken unless `segments`
    or `channel` names another; both are announced. open_pipe: runs the commands of wav.scp, which
    are refused without it. Raises InputError if a larger share than `max_skipped`, or all, get no
    features, and for sound that cannot be read; what was there then stays, all of it. mapper: None
    to compute here.
    """
    data_dir = Path(data_dir)
    settle(data_dir)
    _compare_source(data_dir, asdict(front_end))
    utt2spk = read_mapping(data_dir / "utt2spk")
    stats: dict[str, np.ndarray] = {}
    sounds = Recordings(data_dir, front_end.sample_rate, channel, open_pipe)
    compute = partial(_compute, sounds, front_end)
    recordings = _list_inputs(data_dir, sounds, utt2spk, max_skipped)
    computed = mapper(compute, recordings) if mapper else starmap(compute, recordings)

    # Features, statistics and the analysis replace the old ones together, or not at all.
    with together(data_dir):
        sifted = _sift(computed, data_dir, utt2spk, stats, max_skipped)
        matrices = follow(sifted, "features", total=len(utt2spk))
        write_matrices(matrices, data_dir / "feats.ark", data_dir / "feats.scp")
        write_matrices(stats.items(), data_dir / "cmvn.ark", data_dir / "cmvn.scp")
        with replacing(data_dir / "frontend.json") as temporary:
            temporary.write_text(json.dumps(asdict(front_end)) + "\n", encoding="utf-8")
        discard(data_dir / fmllr_record.FILE)  # of adapted features that were there before


def _compare_source(data_dir: Path, analysis: Mapping[str, Any]) -> None:
    """Say it where speech at other speeds gets other features than its source has, of one kind."""
    source = find_source(data_dir)
    original = (read_analysis(source) if source else None) or {}
    if original.get("kind") != analysis["kind"]:
        return
    for key, value in analysis.items():
        if original.get(key, value) != value:
            LOGGER.warning(
                "%s: its features have the %s %s, but those of the source %s have %s; compute both"
                " alike, here with --%s %s",
                *(data_dir, key, value, source, original[key]),
                *(key.replace("_", "-"), original[key]),
            )


def _list_inputs(
    data_dir: Path, sounds: Recordings, utt2spk: Mapping[str, str], max_skipped: float
) -> list[tuple[str, list[Segment]]]:
    """The recordings as `list_recordings`; InputError for a name or file that is missing, before
    the first sound is read: the last may be reached hours later.
    """
    speakers = data_dir / "utt2spk"
    if not utt2spk:
        raise InputError(f"{speakers}: names no utterance; write each with its speaker")
    recordings = list_recordings(data_dir, sounds, len(utt2spk), max_skipped)
    absent = dict.fromkeys(utt2spk)
    for recording, segments in recordings:
        sounds.check_is_there(recording)
        for utt in [segment[0] for segment in segments] or [recording]:
            if utt not in utt2spk:
                raise InputError(f"{speakers}: lacks the utterance {utt}; add it")
            absent.pop(utt, None)
    if absent:
        lacking = f"{len(absent)} of {len(utt2spk)} utterances: {name_some([*absent])}"
        LOGGER.warning("%s: wav.scp and segments name no sound of %s", data_dir, lacking)
    return recordings


def _compute(
    sounds: Recordings, front_end: Analysis, recording: str, segments: Sequence[Segment]
) -> tuple[list[tuple[str, np.ndarray]], list[Remark]]:
    """The features of a recording's utterances, and the remarks: nobody reads the log of another
    process.
    """
    remarks: list[Remark] = []
    matrices = []
    for utt, samples in read_utterances(
        sounds, recording, segments, lambda sound, remark: remarks.append((sound, remark))
    ):
        if _needs_dither(front_end, samples):
            remarks.append((utt, UNLIKE))
        # With one noise for all utterances, GMMs would learn that noise.
        matrices.append((utt, front_end(samples, zlib.crc32(utt.encode()))))
    return matrices, remarks


def _needs_dither(front_end: Analysis, samples: np.ndarray) -> bool:
    """Whether samples [N] have digital silence, a stretch of equal ones, and no noise is added."""
    if front_end.dither or front_end.spectrum not in {"mfcc", "fbank", "plp"} or not len(samples):
        return False
    changes = np.flatnonzero(np.diff(samples))
    lengths = np.diff(changes, prepend=-1, append=len(samples) - 1)
    return bool(lengths.max() >= ANNOUNCED_SILENCE * front_end.sample_rate)


def _sift(
    computed: Iterable[tuple[Iterable[tuple[str, np.ndarray]], list[Remark]]],
    data_dir: Path,
    utt2spk: Mapping[str, str],
    stats: dict[str, np.ndarray],
    max_skipped: float,
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the utterances that have frames, add their statistics to `stats` by speaker, and report
    what was done to sounds and which utterances have none.
    """
    missing = dict.fromkeys(utt2spk)
    remarks: list[Remark] = []
    for matrices, new_remarks in computed:
        remarks += new_remarks
        for utt, matrix in matrices:
            if len(matrix):
                missing.pop(utt, None)  # a second one is refused where it is written
                speaker = utt2spk[utt]
                # The statistics are sums, so those of a speaker add up by utterance.
                stats[speaker] = stats.get(speaker, 0.0) + cmvn_statistics([matrix])
                yield utt, matrix
    report_remarks(remarks)
    _report_left(data_dir, [*missing], len(utt2spk), max_skipped)


def _report_left(data_dir: Path, missing: list[str], total: int, limit: float) -> None:
    """Name the utterances that get no features; InputError if they are too many, or all."""
    if not missing:
        return
    message = (
        f"{data_dir}: {len(missing)} of {total} utterances have too little sound, or none, and get"
        f" no features: {name_some(missing)}"
    )
    if len(missing) == total:
        raise InputError(f"{message}; nothing is left to write")
    check_limit(message, len(missing), total, limit, "--max-skipped")
    LOGGER.warning("%s", message)


def report_remarks(remarks: Iterable[Remark]) -> None:
    """Say what was done, and to how many recordings."""
    sounds: dict[str, list[str]] = {}
    for sound, remark in remarks:
        sounds.setdefault(remark, []).append(sound)
    for remark, names in sounds.items():
        further = f" (and {len(names) - 1} more)" * (len(names) > 1)
        LOGGER.warning("%s%s: %s", names[0], further, remark)
