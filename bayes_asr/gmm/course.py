"""Work that is done in phases, each of which ends with all its files in place at once.

A folder knows how many of its phases are complete, so work that was ended anywhere goes on with the
next one, and leaves what undisturbed work would have left.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from bayes_asr.errors import InputError
from bayes_asr.files import is_there, together
from bayes_asr.gmm.progress import MARK, Progress, hash_files, read_progress
from bayes_asr.gmm.questions import read_phone_sets
from bayes_asr.gmm.schedule import Phase
from bayes_asr.log import LOGGER
from bayes_asr.shards import Way
from bayes_asr.tables.binary import OpenPipe
from bayes_asr.tables.integers import write_int_vectors
from bayes_asr.tables.text import DataDir, read_data_dir

ALIGNMENTS, GRAPHS = "ali.1.gz", "fsts.1.gz"
SHARE = 40_000  # frames, about, of the utterances that one process takes at a time
TOGETHER = 50  # utterances, where their frames are not known
MOST_FAILED = 0.5  # of the utterances: more have transcripts of other recordings
NAMED = 10  # utterances in a message
DATA = ("feats.scp", "cmvn.scp", "utt2spk", "text")
LANG = ("L.fst", "topo", "words.txt", "oov.txt", "phones/silence.int", "phones/roots.int")

Item = TypeVar("Item")
Aligned = tuple[str, np.ndarray]  # an utterance and its transition-ids int32 [T]


class Course:
    """The phases of work in the folder `out`, on a data directory and with a lang folder."""

    def __init__(
        self,
        data: Path,
        lang: Path,
        out: Path,
        way: Way,
        *,
        made_of: Mapping[str, Any],
        also: Sequence[Path] = (),
        open_pipe: OpenPipe | None = None,
    ) -> None:
        """Go on with what `out` has, or begin anew where it is made of something else.

        made_of: the options that results depend on; also: files that they depend on, too; way: how
        a function is applied to shares of the data. InputError for a file that is not there.
        """
        for path in (data / "feats.scp", lang / "L.fst", *also):
            if not is_there(path):
                raise InputError(f"{path}: is not there; an earlier step makes it")
        self.data, self.lang, self.out = data, lang, out
        self.way, self.open_pipe = way, open_pipe
        inputs = [*(data / name for name in DATA), *(lang / name for name in LANG), *also]
        of = {**made_of, "inputs": hash_files(inputs)}
        found = read_progress(out, of)
        if not found and is_there(out / MARK):
            LOGGER.info("%s: options or inputs have changed, all is made anew", out)
        self.progress = found or Progress(of)

    def pursue(self, phases: Iterable[Phase], do: Mapping[str, Callable[[int], None]]) -> None:
        """Do the phases that are not complete, in order."""
        for place, (name, number) in enumerate(phases):
            if place >= self.progress.done:
                do[name](number)

    @contextmanager
    def completing(self) -> Iterator[None]:
        """Put the files of the block in place, with the news that one phase more is complete."""
        with together(self.out):
            yield
            self.progress.done += 1
            self.progress.write(self.out)

    @cached_property
    def tables(self) -> DataDir:
        """The tables of the data."""
        return read_data_dir(self.data, open_pipe=self.open_pipe)

    @cached_property
    def silence(self) -> frozenset[int]:
        """The phones of silence and noise."""
        return self.read_phones("silence")

    def read_phones(self, name: str) -> frozenset[int]:
        """The phone ids in a list of the lang folder."""
        sets = read_phone_sets(self.lang / "phones" / f"{name}.int")
        return frozenset(phone for phones in sets for phone in phones)

    def by_speaker(self, aligned: Iterable[Aligned]) -> Iterator[tuple[str, list[Aligned]]]:
        """The alignments of each speaker, in byte order."""
        gathered: dict[str, list[Aligned]] = {}
        for utt, tids in aligned:
            gathered.setdefault(self.tables.utt2spk[utt], []).append((utt, tids))
        yield from sorted(gathered.items())

    def write_alignments(
        self, results: Iterable[Sequence[tuple[str, np.ndarray | InputError]]]
    ) -> None:
        """Write the alignments of all shares; InputError where too many utterances have none."""
        failed: list[str] = []
        self.check_failed(failed, write_int_vectors(sift(results, failed), self.out / ALIGNMENTS))

    def check_failed(self, failed: Sequence[str], done: int) -> None:
        """Count and name what has failed; InputError where that is more than half."""
        if not failed:
            return
        names = ", ".join(failed[:NAMED]) + (", ..." if len(failed) > NAMED else "")
        message = f"{self.data}: {len(failed)} of {len(failed) + done} utterances failed: {names}"
        if len(failed) > MOST_FAILED * (len(failed) + done):
            raise InputError(f"{message}; are their transcripts those of these recordings?")
        LOGGER.warning("%s", message)


def share_frames(aligned: Iterable[Aligned]) -> Iterator[tuple[str, list[Aligned]]]:
    """Shares of about as many frames, whatever the number of processes."""
    share: list[Aligned] = []
    frames = number = 0
    for utt, tids in aligned:
        share.append((utt, tids))
        frames += len(tids)
        if frames >= SHARE:
            yield f"share {(number := number + 1)}", share
            share, frames = [], 0
    if share:
        yield f"share {number + 1}", share


def share_items(items: Iterable[Item]) -> Iterator[tuple[str, list[Item]]]:
    """Shares of as many items."""
    share: list[Item] = []
    number = 0
    for item in items:
        share.append(item)
        if len(share) == TOGETHER:
            yield f"share {(number := number + 1)}", share
            share = []
    if share:
        yield f"share {number + 1}", share


def sift(
    results: Iterable[Sequence[tuple[str, Item | InputError]]], failed: list[str]
) -> Iterator[tuple[str, Item]]:
    """The utterances that are well; the others are named, and added to `failed`."""
    for share in results:
        for utt, found in share:
            if isinstance(found, InputError):
                LOGGER.warning("%s", found)
                failed.append(utt)
            else:
                yield utt, found
