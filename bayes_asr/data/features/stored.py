"""The features of a data directory, utterance by utterance."""

from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.data.features.front_end import FrontEnd, cmvn_statistics, read_analysis
from bayes_asr.kaldi_io.ark import read_matrix, read_shape
from bayes_asr.kaldi_io.byte_reader import OpenPipe
from bayes_asr.kaldi_io.rxfilename import is_pipe, list_archives
from bayes_asr.kaldi_io.text import DataDir, missing_file_error


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
        return list_archives((self._data.cmvn or {}).values()) if self._normalises_speakers else []

    @cached_property
    def dimensions(self) -> int:
        """Size of the stored feature vectors, by the first utterance."""
        utt = next(iter(self._feats))
        return read_matrix(self._feats[utt], utt, open_pipe=self._open_pipe).shape[1]

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

    @property
    def _normalises_speakers(self) -> bool:
        return self.front_end.cmvn != "none"

    def prepare(self, utt: str, matrix: np.ndarray) -> np.ndarray:
        """Stored features [T, F] of an utterance after the front end [T, F']."""
        stats = self._statistics(utt) if self._normalises_speakers else None
        return self.front_end.prepare(matrix, stats)

    def read(self, utt: str) -> np.ndarray:
        """Features of one utterance as they are on disk, float32 [T, F]."""
        matrix = read_matrix(self._feats[utt], utt, open_pipe=self._open_pipe)
        if not len(matrix) or matrix.shape[1] != self.dimensions:
            self.refuse_shape(utt, *matrix.shape)
        return matrix

    def refuse_shape(self, utt: str, frames: int, columns: int) -> NoReturn:
        """Raise InputError for an utterance that is empty or of another width than the others."""
        raise InputError(
            f"{self.where(utt)}: {utt} has {frames} frames of {columns} values, but"
            f" {self.utterances[0]} of the same feats.scp has {self.dimensions} values;"
            " extract all features alike"
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
            self._speakers[speaker] = self._speaker_statistics(speaker)
        return self._speakers[speaker]

    def _speaker_statistics(self, speaker: str) -> np.ndarray:
        if self._data.cmvn is None:
            # Without cmvn.scp the statistics are those of all utterances of the speaker.
            return cmvn_statistics(self.read(utt) for utt in self._utterances_of[speaker])
        if speaker not in self._data.cmvn:
            scp = self._data.path / "cmvn.scp"
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
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        pass
    return False
