"""The log-likelihoods to decode, utterance by utterance."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import open_to_read
from bayes_asr.decode.search.search_graph import DecodingGraph
from bayes_asr.kaldi_io.ark import iter_matrices, read_matrix, read_scp
from bayes_asr.kaldi_io.rxfilename import RSPECIFIER, split_rspecifier

Loglikes = np.ndarray | InputError  # what reading an utterance gave


def read_utterances(source: str, graph: DecodingGraph) -> Iterator[tuple[str, Loglikes]]:
    """Stream (utterance, log-likelihoods [T, P]), or the error that reading one of an scp gave.

    Raises InputError where an archive is damaged, which hides what follows, and where the first
    utterance does not fit the model: then none does.
    """
    empty, fits = True, False
    for utt, loglikes in read_any(source):
        empty = False
        if not fits and not isinstance(loglikes, InputError):
            fits = loglikes.shape[1] == graph.num_pdfs
            if not fits:
                raise InputError(
                    f"{source}: {utt} has {loglikes.shape[1]} columns, "
                    f"the model {graph.num_pdfs} pdfs; give those of this model's network"
                )
        yield utt, loglikes
    if empty:
        raise InputError(f"{source}: holds no utterance to decode; compute them anew")


def count_listed(source: str) -> int | None:
    """The number of utterances by an scp, or by the one beside an archive; None without one.

    For progress alone: nothing says that an scp lists all of the archive beside it.
    """
    path = Path(source if is_index(source) else split_rspecifier(source)[1]).with_suffix(".scp")
    try:
        with open_to_read(str(path)) as lines:
            return sum(1 for _ in lines)
    except (OSError, InputError):
        return None


def is_index(source: str) -> bool:
    """Say whether this is the name of an scp; archives and rspecifiers are not."""
    return source.endswith(".scp") and not RSPECIFIER.fullmatch(source)


def read_any(source: str) -> Iterator[tuple[str, Loglikes]]:
    """Stream the matrices of an archive or an scp; in an scp a damaged one stands alone."""
    if not is_index(source):
        yield from iter_matrices(source, finite=False)
        return
    for utt, rxfilename in read_scp(Path(source)).items():
        try:
            yield utt, read_matrix(rxfilename, utt, finite=False)
        except InputError as error:
            yield utt, error
