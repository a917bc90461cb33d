"""Archives written without the code under test, and what a refusal must be."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.base.errors import InputError

MATRIX = np.arange(12, dtype=np.float32).reshape(6, 2) / 7


def binary(matrix: np.ndarray, kind: bytes = b"FM") -> bytes:
    """A matrix as the format describes it, written without the code under test."""
    rows, columns = matrix.shape
    data = matrix.astype("<f4" if kind == b"FM" else "<f8").tobytes()
    return b"\0B" + kind + b" " + struct.pack("<bibi", 4, rows, 4, columns) + data


def ark_file(folder: Path, content: bytes, name: str = "x.ark") -> Path:
    """Write an archive, gzipped where the name says so."""
    path = folder / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


def put_empty_first(data: Path, utt: str, speaker: str) -> None:
    """Put an utterance without frames first, as Kaldi's programs write of too little sound."""
    archive = ark_file(data, binary(np.zeros((0, 0))), "empty.ark")
    for table, value in (("feats.scp", archive), ("utt2spk", speaker)):
        lines = (data / table).read_text()
        (data / table).write_text(f"{utt} {value}\n{lines}")


def one_line(error: pytest.ExceptionInfo[InputError], *parts: object) -> None:
    """Check that a message is one line with these parts."""
    message = str(error.value)
    assert "\n" not in message
    for part in parts:
        assert str(part) in message
