"""Resumable work in phases, each of which ends with all its files in place at once.

A folder records how many of its phases are complete. Work that was killed anywhere goes on with the
next phase, and leaves the same files as undisturbed work.
"""

import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import discard, find_files, is_there, replacing, together
from bayes_asr.base.installed import recipe_script
from bayes_asr.base.log import LOGGER
from bayes_asr.base.places import refuse_read
from bayes_asr.base.shards import Mapper
from bayes_asr.data.features.skipped import report_skipped
from bayes_asr.data.targets.alignments import iter_alignments
from bayes_asr.decode.graph.lexicon import report_unknown
from bayes_asr.gmm.features import JobInputs
from bayes_asr.gmm.files import DATA_FILES, LANG_FILES, MODEL, OUTPUTS
from bayes_asr.gmm.occupation import gather
from bayes_asr.gmm.progress import PROGRESS_FILE, PhaseProgress, hash_inputs, read_progress
from bayes_asr.gmm.questions import read_phone_sets
from bayes_asr.gmm.schedule import Phase
from bayes_asr.kaldi_io.byte_reader import OpenPipe
from bayes_asr.kaldi_io.data_dir import read_data_dir
from bayes_asr.kaldi_io.fst import iter_fsts, write_fsts
from bayes_asr.kaldi_io.integers import write_int_vectors
from bayes_asr.kaldi_io.mdl import read_transition_model
from bayes_asr.kaldi_io.openfst import Fst
from bayes_asr.kaldi_io.symbols import check_same_phones, read_symbols

ALIGNMENTS, GRAPHS, PASS_MODEL = "ali.1.gz", "fsts.1.gz", "pass.mdl"
SHARE_FRAMES = 40_000  # about, of the utterances that a process takes at a time
SHARE_ITEMS = 50  # utterances that a process takes, where their frames are not known
SKIP_OPTION = "--max-skipped"
LITTLE_SPEECH = "; of very little speech no GMMs can be trained, and --features mfcc needs none"

Item = TypeVar("Item")
Aligned = tuple[str, np.ndarray]  # an utterance and its transition-ids int32 [T]
CompileShare = Callable[[str, list[tuple[str, list[str]]]], Sequence[tuple[str, Fst | InputError]]]
AlignShare = Callable[[str, list[tuple[str, Fst]]], Sequence[tuple[str, np.ndarray | InputError]]]


@dataclass(frozen=True)
class StepFolders:
    """Folders of a step, in the order of Kaldi's scripts.

    source: of the model, and mostly the alignments, to begin with; none for monophones.
    """

    data: Path
    lang: Path
    source: Path | None
    out: Path

    @property
    def initial(self) -> Path:
        """The folder of the model to begin with, which is `out` itself for monophones."""
        return self.source or self.out


@dataclass(frozen=True)
class Dependencies:
    """Options and files that determine the results of a step.

    required, optional: files that must or may be there, besides those of data and lang folder.
    """

    options: Mapping[str, Any]
    required: Sequence[Path]
    optional: Sequence[Path]


class PhaseRunner:
    """The phases of work in the folder `out`, on a data directory and with a lang folder.

    results: files without which the work is not complete, whatever the record says.
    """

    results: Sequence[str] = (MODEL, "tree")

    def __init__(
        self,
        folders: StepFolders,
        mapper: Mapper,
        dependencies: Dependencies,
        *,
        max_skipped: float,
        open_pipe: OpenPipe | None = None,
    ) -> None:
        """Go on with what `out` has, or begin anew where it is made of something else.

        mapper: applies a function to shares of the data; max_skipped: the share of utterances that
        may stay unaligned. InputError for a required file that is missing, and where `out` is a
        folder that is read.
        """
        data, lang, out = folders.data, folders.lang, folders.out
        refuse_read(out, filter(None, (data, lang, folders.source)))
        lang_files = (lang / name for name in LANG_FILES)
        required = [data / "feats.scp", *lang_files, *dependencies.required]
        for path in required:
            if not is_there(path):
                raise InputError(f"{path}: is not there; an earlier step makes it")
        if folders.source:
            check_same_phones(lang, folders.source)
        self.data, self.lang, self.out = data, lang, out
        self.source = folders.initial
        self.mapper, self.max_skipped, self.open_pipe = mapper, max_skipped, open_pipe
        self.tables = read_data_dir(data, open_pipe=open_pipe)
        inputs = [*(data / name for name in DATA_FILES), *required, *dependencies.optional]
        made_of = {**dependencies.options, "inputs": hash_inputs(inputs, self.tables)}
        progress = read_progress(out, made_of)
        if not progress and is_there(out / PROGRESS_FILE):
            LOGGER.info("%s: options or inputs have changed, all is made anew", out)
        self.progress = progress or PhaseProgress(made_of)
        # Both keep the later phases from repeating the warnings of the earlier ones.
        self._warned: set[str] = set()  # utterances whose failure was logged
        self._skipped: list[str] = []  # the utterances of the last count

    @property
    def model(self) -> Path:
        """The present model of this folder."""
        return self.out / PASS_MODEL

    def run_phases(self, phases: Iterable[Phase], do: Mapping[str, Callable[[int], None]]) -> None:
        """Do the phases that are not complete, in order; all, where a result has been lost.

        do: the function of each phase, by its name; it takes the number of the pass.
        """
        phases = list(phases)
        lost = [name for name in self.results if not is_there(self.out / name)]
        if lost and self.progress.completed == len(phases):
            LOGGER.info("%s: %s is there no more, all is made anew", self.out, lost[0])
            self.progress = PhaseProgress(self.progress.made_of)
        for name, number in phases[self.progress.completed :]:
            do[name](number)

    @contextmanager
    def commit_phase(self) -> Iterator[None]:
        """Put the files of the block in place, and record that one more phase is complete."""
        # `together` moves all files at the end of the block: a kill leaves the state before it.
        with together(self.out):
            # The first phase removes what work with other options or inputs has left.
            for pattern in () if self.progress.completed else OUTPUTS:
                for path in find_files(self.out, pattern):
                    discard(path)
            yield
            self.progress.completed += 1
            self.progress.write(self.out)

    @cached_property
    def silence(self) -> frozenset[int]:
        """The phones of silence and noise."""
        return self.read_phones("silence")

    @cached_property
    def pauses(self) -> frozenset[int]:
        """The phones of pauses between words."""
        return self.read_phones("optional_silence")

    def read_phones(self, name: str) -> frozenset[int]:
        """The phone ids in a list of the lang folder."""
        sets = read_phone_sets(self.lang / "phones" / f"{name}.int")
        return frozenset(phone for phones in sets for phone in phones)

    def job_inputs(self, directory: Path | None = None, model: Path | None = None) -> JobInputs:
        """The inputs of jobs: by default the present features and model of this folder."""
        return JobInputs(
            self.data,
            directory or self.out,
            model or self.model,
            self.progress.completed,  # makes inputs of different passes differ, which workers cache
            self.silence,
            self.open_pipe,
        )

    def iter_aligned(
        self, directory: Path | None = None, model: Path | None = None
    ) -> Iterator[Aligned]:
        """The alignments of a folder, by default of this one, of utterances of the data."""
        transitions = read_transition_model(model or self.model)
        for utt, tids in iter_alignments(directory or self.out, transitions):
            if utt in self.tables.utt2spk:
                yield utt, tids

    def compile_graphs(self, compile_share: CompileShare) -> None:
        """Write the graphs that a function makes of the transcripts of utterances."""
        text = self.tables.text
        if text is None:
            raise InputError(
                f"{self.data / 'text'}: there are no transcripts to align; write them there"
            )
        words = self.lang / "words.txt"
        report_unknown(self.data / "text", text, read_symbols(words), words, "the word of oov.txt")
        results = self.mapper(compile_share, share_items(text.items()))
        with self.commit_phase():
            write_fsts(self.drop_failures(results, f"no graph of {self.data}"), self.out / GRAPHS)

    def align_graphs(self, align: AlignShare) -> None:
        """Write the alignments that a function makes of the graphs of utterances."""
        results = self.mapper(align, share_items(iter_fsts(self.out / GRAPHS)))
        with self.commit_phase():
            aligned = self.drop_failures(results, f"no alignment of {self.data}")
            write_int_vectors(aligned, self.out / ALIGNMENTS)

    def group_speakers(self, aligned: Iterable[Aligned]) -> list[tuple[str, list[Aligned]]]:
        """The alignments of each speaker; of one without any too, who gets the identity."""
        by_speaker: dict[str, list[Aligned]] = {name: [] for name in self.tables.utt2spk.values()}
        for utt, tids in aligned:
            by_speaker[self.tables.utt2spk[utt]].append((utt, tids))
        return sorted(by_speaker.items())

    def drop_failures(
        self, results: Iterable[Sequence[tuple[str, Item | InputError]]], reason: str
    ) -> Iterator[tuple[str, Item]]:
        """Yield the results that are no errors, then `count_skipped` of the others."""
        succeeded: set[str] = set()
        for share in results:
            for utt, result in share:
                if not isinstance(result, InputError):
                    succeeded.add(utt)
                    yield utt, result
                elif utt not in self._warned:
                    LOGGER.warning("%s: %s", self.data, result)
                    self._warned.add(utt)
        self.count_skipped(succeeded, reason)

    def count_skipped(self, succeeded: Collection[str], reason: str) -> None:
        """Report the utterances of the data that failed, unless the last report was the same.

        InputError where they are too many, or all.
        """
        utterances = self.tables.utt2spk
        skipped = [utt for utt in utterances if utt not in succeeded]
        if not succeeded:
            raise InputError(
                f"{reason} for any of {len(utterances)} utterances; look at what is read"
            )
        if skipped != self._skipped:
            advice = LITTLE_SPEECH if recipe_script() else ""
            report_skipped(reason, skipped, len(utterances), self.max_skipped, SKIP_OPTION, advice)
            self._skipped = skipped

    def copy(self, source: Path, name: str = "") -> None:
        """Copy a file into this folder, complete or not at all."""
        with replacing(self.out / (name or source.name)) as temporary:
            shutil.copyfile(source, temporary)


def share_frames(aligned: Iterable[Aligned]) -> Iterator[tuple[str, list[Aligned]]]:
    """Shares of about equally many frames, whatever the number of processes.

    Sums are made share by share, so that they are the same to the bit for any number of processes.
    """
    return _name(gather(aligned, SHARE_FRAMES, lambda utterance: len(utterance[1])))


def share_items(items: Iterable[Item]) -> Iterator[tuple[str, list[Item]]]:
    """Shares of equally many items."""
    return _name(gather(items, SHARE_ITEMS, lambda _: 1))


def _name(shares: Iterable[list[Item]]) -> Iterator[tuple[str, list[Item]]]:
    return ((f"share {number}", share) for number, share in enumerate(shares, 1))
