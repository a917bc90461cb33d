"""Archives of FSTs by utterance, such as the training graphs fsts.N.gz of Kaldi's scripts."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from bayes_asr.base.files import writing
from bayes_asr.kaldi_io.binary import check_name, open_bytes
from bayes_asr.kaldi_io.fst import Fst, pack_fst, parse_fst

FAST = 1  # of gzip: graphs are written once and read in every pass


def write_fsts(items: Iterable[tuple[str, Fst]], ark: Path) -> int:
    """Write FSTs by utterance, complete or not at all (.gz if named so); returns how many."""
    written: set[str] = set()
    with writing(ark, level=FAST) as file:
        for utt, fst in items:
            check_name(utt, written, ark)
            file.write(utt.encode() + b" " + pack_fst(fst, "vector"))
    return len(written)


def iter_fsts(ark: Path) -> Iterator[tuple[str, Fst]]:
    """Yield utterances and their FSTs, one in memory at a time.

    InputError where the archive is truncated, or holds anything but binary FSTs.
    """
    with open_bytes(ark) as source:
        for utt, _ in source.utterances():
            yield utt, parse_fst(source, alone=False)
