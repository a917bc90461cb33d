"""Alignment of a data directory by a model: Kaldi's align_si.sh and align_fmllr.sh."""

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from bayes_asr.base.files import is_there
from bayes_asr.base.shards import Mapper
from bayes_asr.decode.align.best_path import AlignOptions
from bayes_asr.gmm import jobs
from bayes_asr.gmm.features import read_pipeline, write_pipeline, write_transforms
from bayes_asr.gmm.files import (
    MATRIX,
    MODEL,
    PIPELINE,
    TRANSFORMS,
    UNADAPTED,
    find_unadapted,
    is_adapted,
)
from bayes_asr.gmm.resumable import ALIGNMENTS, Dependencies, PhaseRunner, StepFolders
from bayes_asr.kaldi_io.byte_reader import OpenPipe
from bayes_asr.kaldi_io.text import write_lines

MODEL_FILES = ("final.occs", UNADAPTED)  # copied from the folder of the model, if there


@dataclass(frozen=True)
class AlignmentSummary:
    """Counts of the utterances of the data, of the aligned ones, and of their frames."""

    utterances: int
    aligned: int
    frames: int


class Realignment(PhaseRunner):
    """The alignment of a data directory by the model in `source`: its phases, each a method.

    Where speakers are adapted to, its final.alimdl, or final.mdl where there is none, aligns first,
    transforms of speakers are estimated, and final.mdl aligns again. Writes what Kaldi's scripts
    write: ali.1.gz, final.mdl, tree, trans.1 and the options of the features.
    """

    def __init__(
        self,
        folders: StepFolders,
        mapper: Mapper,
        options: AlignOptions,
        *,
        adapt: bool | None = None,
        boost_silence: float = 1.0,
        max_skipped: float = 1.0,
        open_pipe: OpenPipe | None = None,
    ) -> None:
        """Begin, or go on with what is there.

        mapper: applies a function to shares of the data; adapt: to speakers; None: if the model
        was trained so. What cannot be aligned is named; InputError if that is a larger share than
        `max_skipped`.
        """
        source = folders.initial
        self.options, self.boost = options, boost_silence
        self.adapts = is_adapted(source) if adapt is None else adapt
        copied = [name for name in (MATRIX, UNADAPTED) if is_there(source / name)]
        self.results = [MODEL, "tree", ALIGNMENTS, *copied, *([TRANSFORMS] if self.adapts else [])]
        super().__init__(
            folders,
            mapper,
            Dependencies(
                {**asdict(options), "boost_silence": boost_silence, "adapt": self.adapts},
                required=[source / MODEL, source / "tree"],
                optional=[source / name for name in (*PIPELINE, *MODEL_FILES)],
            ),
            max_skipped=max_skipped,
            open_pipe=open_pipe,
        )

    @property
    def model(self) -> Path:
        """The model that aligns."""
        return self.source / MODEL

    def run(self) -> AlignmentSummary:
        """Do the phases that are not complete, and return the summary of all."""
        # The first alignment serves the transforms alone; the last one replaces it.
        adapting = ("align first", "adapt") if self.adapts else ()
        phases = ("prepare", "compile", *adapting, "align", "finish")
        self.run_phases(
            ((name, 0) for name in phases),
            {
                "prepare": self.prepare,
                "compile": self.compile,
                "align first": lambda _: self.align(find_unadapted(self.source)),
                "adapt": self.adapt,
                "align": lambda _: self.align(self.model),
                "finish": self.finish,
            },
        )
        lengths = {utt: len(tids) for utt, tids in self.iter_aligned()}
        self.count_skipped(lengths, f"no alignment of {self.data}")
        return AlignmentSummary(len(self.tables.utt2spk), len(lengths), sum(lengths.values()))

    def prepare(self, _: int) -> None:
        """Write the options of the features, and copy the tree."""
        with self.commit_phase():
            write_pipeline(read_pipeline(self.source), self.out)
            self.copy(self.source / "tree")

    def compile(self, _: int) -> None:
        """Compile the graphs of all transcripts."""
        self.compile_graphs(partial(jobs.compile_graphs, self.lang, self.job_inputs()))

    def align(self, model: Path) -> None:
        """Align by a model."""
        inputs = self.job_inputs(model=model)
        self.align_graphs(partial(jobs.align, self.options, self.boost, self.pauses, inputs))

    def adapt(self, _: int) -> None:
        """Estimate transforms of speakers by the alignments of unadapted features."""
        estimating = partial(jobs.estimate_fmllr, find_unadapted(self.source), self.job_inputs())
        transforms = list(self.mapper(estimating, self.group_speakers(self.iter_aligned())))
        with self.commit_phase():
            write_transforms(transforms, self.out)

    def finish(self, _: int) -> None:
        """Put the model beside the alignments."""
        with self.commit_phase():
            self.copy(self.model)
            self.copy(self.lang / "phones.txt")
            for name in MODEL_FILES:
                if is_there(self.source / name):
                    self.copy(self.source / name)
            write_lines([1], self.out / "num_jobs")
