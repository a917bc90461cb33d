"""Numbers of frames as labels."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bayes_asr.data.targets.target import Labels, Target
from bayes_asr.kaldi_io.ark import read_matrix, read_scp, read_shape
from bayes_asr.kaldi_io.byte_reader import OpenPipe
from bayes_asr.kaldi_io.text import DataDir


class Numbers(Labels):
    """The numbers of the utterances of a data directory."""

    def __init__(self, file: Path) -> None:
        self.directory, self._places = file.parent, read_scp(file)
        self.lengths = {utt: read_shape(at, utt)[0] for utt, at in self._places.items()}
        self.digest = hashlib.blake2b(file.read_bytes(), digest_size=16).hexdigest()

    @property
    def targets(self) -> dict[str, Target]:
        """One output."""
        return {"number": Target(self._read, 1, is_real=True)}

    def _read(self, utt: str) -> np.ndarray:
        return read_matrix(self._places[utt], utt)[:, 0]


def open_numbers(
    file: str, directories: Sequence[DataDir], names: Sequence[str], open_pipe: OpenPipe | None
) -> Numbers:
    """The numbers of one data directory."""
    (directory,) = directories
    return Numbers(directory.path / file)
