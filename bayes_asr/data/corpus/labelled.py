"""Utterances with what a network reads of them, the features, and what it learns."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there
from bayes_asr.data.features.fmllr_record import check_analysis, describe_analysis
from bayes_asr.data.features.front_end import (
    FrontEnd,
    cmvn_statistics,
    describe_stream,
    read_analysis,
)
from bayes_asr.data.targets.target import Labels, Target, advise_lengths
from bayes_asr.kaldi_io.ark import missing_file_error, read_matrix, read_shape
from bayes_asr.kaldi_io.byte_reader import OpenPipe
from bayes_asr.kaldi_io.rxfilename import is_pipe, list_archives
from bayes_asr.kaldi_io.sorted_table import split_table
from bayes_asr.kaldi_io.text import DataDir

LARGEST = float(np.sqrt(np.finfo(np.float32).max))  # of a feature: the square of more overflows


class Features:
    """The features of a data directory, utterance by utterance; nothing is held but the tables.

    data: the directory; front_end: what is done to them, by speaker with the statistics of cmvn.scp
    or, where there is none, of the speaker's own utterances; open_pipe: runs the commands in scp
    files, which are refused without it.
    """

    def __init__(
        self, data: DataDir, front_end: FrontEnd, *, open_pipe: OpenPipe | None = None
    ) -> None:
        if not data.feats:
            raise InputError(
                f"{data.path / 'feats.scp'}: there are no features; extract them first"
            )
        self._data, self._feats, self._open_pipe = data, data.feats, open_pipe
        self.front_end = front_end
        self._speakers: dict[str, np.ndarray] = {}
        self._check_files()

    def __contains__(self, utt: str) -> bool:
        return utt in self._feats

    @property
    def directories(self) -> list[Path]:
        """The data directory, or those that are joined."""
        return [part.path for part in self._data.parts]

    def directory(self, utt: str) -> Path:
        """The data directory that has the features of an utterance, for messages."""
        parts = self._data.parts
        return next((part.path for part in parts if utt in (part.feats or {})), self._data.path)

    @cached_property
    def sound(self) -> dict[str, Any] | None:
        """The analysis that made the features of sound; None where a directory records none."""
        analyses = [read_analysis(directory) for directory in self.directories]
        # One directory without a record leaves open what made the features of all.
        if None in analyses:
            return None
        for directory, analysis in zip(self.directories, analyses, strict=True):
            if analysis != analyses[0]:
                raise InputError(
                    f"{directory / 'frontend.json'}: is not that of {self.directories[0]}; extract"
                    " all features alike"
                )
        return analyses[0]

    @property
    def speakers(self) -> dict[str, str]:
        """The speaker of each utterance."""
        return self._data.utt2spk

    @property
    def utterances(self) -> list[str]:
        """All utterances of feats.scp in its order."""
        return list(self._feats)

    @cached_property
    def archives(self) -> list[Path]:
        """The files that feats.scp names, each once."""
        return list_archives(self._feats.values())

    @property
    def statistics_archives(self) -> list[Path]:
        """The files that cmvn.scp names, each once; empty where they are not used."""
        normalises = self.front_end.cmvn != "none"
        return list_archives((self._data.cmvn or {}).values()) if normalises else []

    @cached_property
    def dimensions(self) -> int:
        """Size of the stored feature vectors, by the first utterance with frames."""
        return self._load(self.first).shape[1]

    @cached_property
    def first(self) -> str:
        """The first utterance with frames; Kaldi's features of too little sound have none."""
        return next(filter(self.has_frames, self._feats), self.utterances[0])

    def has_frames(self, utt: str) -> bool:
        """Whether an utterance has any, by its header; what commands print counts as frames."""
        return (self.read_shape(utt) or (1, 0))[0] > 0

    def read_shape(self, utt: str) -> tuple[int, int] | None:
        """Frames and values of an utterance by the header on disk alone; None if it is piped."""
        where = self._feats[utt]
        return None if is_pipe(where) else read_shape(where, utt)

    def where(self, utt: str) -> str:
        """The file and offset of an utterance, for messages."""
        return self._feats[utt]

    def __getitem__(self, utt: str) -> np.ndarray:
        """Features of one utterance, float32 [T, F']."""
        return self.prepare(utt, self.read(utt))

    @property
    def piped(self) -> bool:
        """Whether commands print some of the features or statistics."""
        tables = (self._feats, self._data.cmvn or {})
        return any(is_pipe(where) for table in tables for where in table.values())

    def prepare(self, utt: str, matrix: np.ndarray) -> np.ndarray:
        """Stored features [T, F] of an utterance after the front end [T, F']."""
        stats = None if self.front_end.cmvn == "none" else self._statistics(utt)
        return self.front_end.prepare(matrix, stats)

    def read(self, utt: str) -> np.ndarray:
        """Features of one utterance as they are on disk, float32 [T, F]."""
        matrix = self._load(utt)
        if not len(matrix) or matrix.shape[1] != self.dimensions:
            self.refuse_shape(utt, *matrix.shape)
        if max(matrix.max(), -matrix.min()) > LARGEST:
            row, column = np.argwhere(np.abs(matrix) > LARGEST)[0]
            raise InputError(
                f"{self.where(utt)}: {utt} holds {matrix[row, column]:g} at frame {row}, column"
                f" {column}, and the square of that is no number; extract its features again"
            )
        return matrix

    def _load(self, utt: str) -> np.ndarray:
        return read_matrix(self._feats[utt], utt, open_pipe=self._open_pipe)

    def refuse_shape(self, utt: str, frames: int, columns: int) -> NoReturn:
        """Raise InputError for an utterance that is empty or of another width than the others."""
        raise InputError(
            f"{self.where(utt)}: {utt} has {frames or 'no'} frames of {columns} values, but"
            f" {self.first} of the same feats.scp has {self.dimensions} values; extract all"
            " features alike"
        )

    def refuse_frames(
        self, stream: str, utt: str, length: int, reference: "Features", frames: int
    ) -> NoReturn:
        """Raise InputError for an utterance of another length than in the first stream."""
        rate = self.front_end.subsampling
        stated = "" if rate == 1 else f" at subsampling {rate}"
        raise InputError(
            f"{self.where(utt)}: {utt} has {length} frames in the stream {stream}{stated}"
            f" ({self.directory(utt)}), but {frames} in {reference.directory(utt)}; make both of"
            f" the same sound, or correct streams.{stream}.subsampling"
        )

    def _check_files(self) -> None:
        """InputError for the first file that a table names and that does not exist."""
        paths = [*self.archives, *self.statistics_archives]
        if not (absent := {path for path in paths if _is_absent(path)}):
            return
        for part in self._data.parts:
            for name, table in (("feats.scp", part.feats), ("cmvn.scp", part.cmvn)):
                for key, where in (table or {}).items():
                    # The tables are searched line by line only to name the key of the missing file.
                    if absent.intersection(archives := list_archives([where])):
                        raise missing_file_error(part.path / name, key, str(archives[0]))

    def _statistics(self, utt: str) -> np.ndarray:
        speaker = self._data.utt2spk[utt]
        if speaker not in self._speakers:
            self._speakers[speaker] = self._speaker_statistics(speaker, utt)
        return self._speakers[speaker]

    def _speaker_statistics(self, speaker: str, utt: str) -> np.ndarray:
        """The statistics of a speaker; utt: of him, for messages."""
        if self._data.cmvn is None:
            # Without cmvn.scp the statistics are those of all utterances of the speaker.
            spoken = filter(self.has_frames, self._utterances_of[speaker])
            return cmvn_statistics(map(self.read, spoken))
        if speaker not in self._data.cmvn:
            scp = self.directory(utt) / "cmvn.scp"
            raise InputError(f"{scp}: speaker {speaker} is missing; compute its statistics")
        where = self._data.cmvn[speaker]
        stats = read_matrix(where, speaker, open_pipe=self._open_pipe, dtype=np.float64)
        # The last entry of the first row is the count of frames.
        if stats.shape != (2, self.dimensions + 1) or stats[0, -1] <= 0:
            raise InputError(
                f"{where}: statistics of speaker {speaker} are {list(stats.shape)} of"
                f" {stats[0, -1] if stats.size else 0:g} frames, but features of {self.dimensions}"
                f" dimensions need [2, {self.dimensions + 1}]; compute them from these features"
            )
        return stats

    @cached_property
    def _utterances_of(self) -> dict[str, list[str]]:
        by_speaker: dict[str, list[str]] = {}
        for utt in self._feats:
            by_speaker.setdefault(self._data.utt2spk[utt], []).append(utt)
        return by_speaker


def _is_absent(path: Path) -> bool:
    """Whether nothing is there; any other trouble is told when the file is read."""
    with suppress(OSError):
        return not is_there(path)
    return False


def check_stream(name: str, features: Features, trained: Features) -> None:
    """InputError for a stream of another width, or another analysis of sound, than in training."""
    if features.dimensions != trained.dimensions:
        raise InputError(
            f"{features.where(features.first)}: {features.first} has {features.dimensions}"
            f" dimensions, but the training {describe_stream(name)} have {trained.dimensions};"
            " extract all features alike"
        )
    analysis = next(filter(None, map(describe_analysis, trained.directories)), {})
    for directory in features.directories:
        check_analysis(name, directory, analysis)


def check_speakers(
    reference: Features, stream: Features, utterances: Features | Mapping[str, int]
) -> None:
    """InputError where one of some utterances has another speaker in another stream."""
    expected = reference.speakers
    if expected == stream.speakers:  # as usual
        return
    for utt, speaker in stream.speakers.items():
        if utt in utterances and expected[utt] != speaker:
            raise InputError(
                f"{stream.directory(utt) / 'utt2spk'}: {utt} is spoken by {speaker}, but by"
                f" {expected[utt]} in {reference.directory(utt) / 'utt2spk'}; correct one of them"
            )


@dataclass(frozen=True)
class LabelledSet:
    """Utterances that have features and labels, with their lengths in frames.

    streams: features by the name of the stream; targets: what they are labelled with, by name;
    first_labels: those of the first head, as alignments or classes, which say the lengths;
    further_labels: other label sets, by name; parts: the lengths of several sets that this one is
    of, by name, or nothing; cache: what networks read of utterances, as far as it is in memory.
    """

    streams: Mapping[str, Features]
    targets: Mapping[str, Target]
    first_labels: Labels
    lengths: Mapping[str, int]
    further_labels: Mapping[str, Labels] = field(default_factory=dict)
    parts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    cache: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)

    @property
    def features(self) -> Features:
        """The first stream, whose tables say who speaks."""
        return next(iter(self.streams.values()))

    def prepare(self, utt: str) -> dict[str, np.ndarray]:
        """An utterance after the front ends, before normalisation: float32 [T, F'] by stream.

        InputError unless each T is the number of labels, at the rate of the stream.
        """
        return {
            name: features.prepare(utt, self.read(utt, name))
            for name, features in self.streams.items()
        }

    def read(self, utt: str, stream: str) -> np.ndarray:
        """Features of one utterance as they are on disk, float32 [T, F]; InputError likewise."""
        matrix = self.streams[stream].read(utt)
        self._check_length(stream, utt, len(matrix))
        return matrix

    def select(self, available: Mapping[str, Any]) -> tuple["LabelledSet", list[str]]:
        """The set without the utterances that are not available, and the names of these."""
        lengths, missing = split_table(self.lengths, available)
        parts = {name: split_table(part, available)[0] for name, part in self.parts.items()}
        parts = {name: part for name, part in parts.items() if part}
        return replace(self, lengths=lengths, parts=parts), missing

    def check(self) -> None:
        """Compare shapes by headers; InputError for one not as its labels, or as its set."""
        for name, features in self.streams.items():
            for utt in self.lengths:
                if utt not in features:
                    raise InputError(
                        f"{features.directories[0] / 'feats.scp'}: {utt} is missing, which has"
                        f" labels in {self.first_labels.where(utt)}; extract its features"
                    )
                # What a pipe prints is checked when it is read.
                if shape := features.read_shape(utt):
                    self._check_length(name, utt, shape[0])
                    if shape[1] != features.dimensions:
                        features.refuse_shape(utt, *shape)

    def _check_length(self, stream: str, utt: str, frames: int) -> None:
        features = self.streams[stream]
        if features.front_end.fits(frames, self.lengths[utt]):
            return
        # The first stream is held against the labels, and any other against the first.
        if features is self.features:
            raise InputError(
                f"{features.where(utt)}: {utt} has {frames} frames of features, but"
                f" {self.lengths[utt]} labels in {self.first_labels.where(utt)};"
                f" {advise_lengths(frames=frames, labels=self.lengths[utt])}"
            )
        features.refuse_frames(stream, utt, frames, self.features, self.lengths[utt])
