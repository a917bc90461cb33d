"""Matrices by an rspecifier: of an archive, or of an index of archives."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bayes_asr.kaldi_io.ark import iter_archive, read_matrix
from bayes_asr.kaldi_io.byte_reader import OpenPipe
from bayes_asr.kaldi_io.rxfilename import split_rspecifier
from bayes_asr.kaldi_io.text import read_scp


def iter_matrices(
    source: Path | str, *, open_pipe: OpenPipe | None = None, finite: bool = True
) -> Iterator[tuple[str, np.ndarray]]:
    """Stream (utterance, float32 [T, F]) from an ark (plain or .gz), an scp or an rspecifier.

    What ends in .scp is an index, anything else an archive; "scp:..." and "ark:..." say so.
    """
    kind, name = split_rspecifier(source)
    if kind == "ark":
        yield from iter_archive(name, open_pipe=open_pipe, finite=finite)
        return
    for utt, rxfilename in read_scp(Path(name), open_pipe=open_pipe).items():
        yield utt, read_matrix(rxfilename, utt, open_pipe=open_pipe, finite=finite)
