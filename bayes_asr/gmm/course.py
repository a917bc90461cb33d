"""Work that is done in phases, each of which ends with all its files in place at once.

A folder knows how many of its phases are complete, so work that was ended anywhere goes on with the
next one, and leaves what undisturbed work would have left.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from bayes_asr.align.best_path import AlignOptions
from bayes_asr.errors import InputError
from bayes_asr.files import is_there, replacing, together
from bayes_asr.gmm import work
from bayes_asr.gmm.milestones import MARK, Progress, hash_files, read_progress
from bayes_asr.gmm.questions import read_phone_sets
from bayes_asr.gmm.schedule import Phase
from bayes_asr.gmm.work import Reading
from bayes_asr.log import LOGGER
from bayes_asr.shards import Way
from bayes_asr.tables.binary import OpenPipe
from bayes_asr.tables.fst import Fst
from bayes_asr.tables.fst_archive import iter_fsts, write_fsts
from bayes_asr.tables.integers import write_int_vectors
from bayes_asr.tables.mdl import read_transition_model
from bayes_asr.tables.text import DataDir, read_data_dir
from bayes_asr.targets.alignments import iter_alignments

ALIGNMENTS, GRAPHS, PASSING = "ali.1.gz", "fsts.1.gz", "pass.mdl"
SHARE = 40_000  # frames, about, of the utterances that one process takes at a time
TOGETHER = 50  # utterances, where their frames are not known
MOST_FAILED = 0.5  # of the utterances: more have transcripts of other recordings
NAMED = 10  # utterances in a message
DATA = ("feats.scp", "cmvn.scp", "utt2spk", "text")
LANG = ("L.fst", "topo", "words.txt", "oov.txt", "phones/silence.int", "phones/roots.int")

Item = TypeVar("Item")
Aligned = tuple[str, np.ndarray]  # an utterance and its transition-ids int32 [T]
AlignShare = Callable[[str, list[tuple[str, Fst]]], Sequence[tuple[str, np.ndarray | InputError]]]


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
        self._named: set[str] = set()  # utterances whose failure was told

    @property
    def model(self) -> Path:
        """The model that this folder has now."""
        return self.out / PASSING

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

    def read(self, folder: Path | None = None, model: Path | None = None) -> Reading:
        """What shares are computed with: by default all that this folder has now."""
        return Reading(
            self.data,
            folder or self.out,
            model or self.model,
            self.progress.done,
            self.silence,
            self.open_pipe,
        )

    def iter_aligned(
        self, folder: Path | None = None, model: Path | None = None
    ) -> Iterator[Aligned]:
        """The alignments of a folder, by default of this one, of utterances of the data."""
        transitions = read_transition_model(model or self.model)
        for utt, tids in iter_alignments(folder or self.out, transitions):
            if utt in self.tables.utt2spk:
                yield utt, tids

    def compile_graphs(self, _: int) -> None:
        """Compile the graphs of all transcripts."""
        text = self.tables.text
        if text is None:
            raise InputError(f"{self.data / 'text'}: there are no transcripts to align")
        compiling = partial(work.compile_graphs, self.lang, self.read())
        failed: list[str] = []
        results = self.way(compiling, share_items(text.items()))
        with self.completing():
            compiled = write_fsts(self.sift(results, failed), self.out / GRAPHS)
            self.check_failed(failed, compiled)

    def align(self, reading: Reading, options: AlignOptions, boost: float) -> None:
        """Align by a model; boost: the factor of silence likelihoods."""
        pauses = self.read_phones("optional_silence")
        self.align_graphs(partial(work.align, options, boost, pauses, reading))

    def align_graphs(self, align: AlignShare) -> None:
        """Write what a function makes of the graphs of utterances: their alignments."""
        failed: list[str] = []
        results = self.way(align, share_items(iter_fsts(self.out / GRAPHS)))
        with self.completing():
            aligned = write_int_vectors(self.sift(results, failed), self.out / ALIGNMENTS)
            self.check_failed(failed, aligned)

    def map_speakers(
        self, reading: Reading, aligned: Iterable[Aligned], aligner: Path | None = None
    ) -> Iterator[tuple[str, np.ndarray]]:
        """Transforms of speakers by their alignments; aligner: as in `work.adapt`."""
        spoken: dict[str, list[Aligned]] = {}
        for utt, tids in aligned:
            spoken.setdefault(self.tables.utt2spk[utt], []).append((utt, tids))
        return self.way(partial(work.adapt, aligner, reading), sorted(spoken.items()))

    def sift(
        self, results: Iterable[Sequence[tuple[str, Item | InputError]]], failed: list[str]
    ) -> Iterator[tuple[str, Item]]:
        """The utterances that are well; the others are added to `failed`, and named once."""
        for share in results:
            for utt, found in share:
                if not isinstance(found, InputError):
                    yield utt, found
                    continue
                failed.append(utt)
                if utt not in self._named:
                    LOGGER.warning("%s", found)
                    self._named.add(utt)

    def copy(self, source: Path, name: str = "") -> None:
        """Copy a file into this folder, complete or not at all."""
        with replacing(self.out / (name or source.name)) as temporary:
            shutil.copyfile(source, temporary)

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
