"""Alignment of a data directory by a model: Kaldi's align_si.sh and align_fmllr.sh."""

from dataclasses import asdict, dataclass
from pathlib import Path

from bayes_asr.align.best_path import AlignOptions
from bayes_asr.corpus.sets import report_skipped
from bayes_asr.files import is_there
from bayes_asr.gmm.course import Course
from bayes_asr.gmm.features import read_pipeline, write_pipeline, write_transforms
from bayes_asr.gmm.milestones import MODEL
from bayes_asr.gmm.schedule import UNADAPTED
from bayes_asr.shards import Way
from bayes_asr.tables.binary import OpenPipe
from bayes_asr.tables.text import write_lines

KEPT = ("final.occs", UNADAPTED)  # of the model's folder, where they are there
LIMIT = "--max-skipped"


@dataclass(frozen=True)
class Summary:
    """How many utterances there are, and how many are aligned."""

    utterances: int
    aligned: int
    frames: int


class Realignment(Course):
    """The alignment of a data directory: its phases, each a method."""

    def __init__(
        self,
        data: Path,
        lang: Path,
        source: Path,
        out: Path,
        way: Way,
        options: AlignOptions,
        boost_silence: float,
        open_pipe: OpenPipe | None,
    ) -> None:
        self.source, self.options, self.boost = source, options, boost_silence
        self.adapts = is_there(source / UNADAPTED)
        names = (MODEL, "tree", "final.mat", UNADAPTED)
        also = [source / name for name in names if is_there(source / name) or name in names[:2]]
        made_of = {**asdict(options), "boost_silence": boost_silence}
        super().__init__(data, lang, out, way, made_of=made_of, also=also, open_pipe=open_pipe)

    @property
    def model(self) -> Path:
        """The model that aligns."""
        return self.source / MODEL

    def run(self) -> None:
        """Do the phases that are not complete."""
        adapting = ("align first", "adapt") if self.adapts else ()
        phases = ("prepare", "compile", *adapting, "align", "finish")
        self.pursue(
            ((name, 0) for name in phases),
            {
                "prepare": self.prepare,
                "compile": self.compile_graphs,
                "align first": lambda _: self.align(
                    self.read(model=self.source / UNADAPTED), self.options, self.boost
                ),
                "adapt": self.adapt,
                "align": lambda _: self.align(self.read(), self.options, self.boost),
                "finish": self.finish,
            },
        )

    def prepare(self, _: int) -> None:
        """Note what features are read, and take the tree."""
        with self.completing():
            write_pipeline(read_pipeline(self.source), self.out)
            self.copy(self.source / "tree")

    def adapt(self, _: int) -> None:
        """Estimate transforms of speakers by the alignments of unadapted features."""
        aligned = self.iter_aligned()
        transforms = list(self.map_speakers(self.read(), aligned, self.source / UNADAPTED))
        with self.completing():
            write_transforms(transforms, self.out)

    def finish(self, _: int) -> None:
        """Put the model beside the alignments."""
        with self.completing():
            self.copy(self.model)
            self.copy(self.lang / "phones.txt")
            for name in KEPT:
                if is_there(self.source / name):
                    self.copy(self.source / name)
            write_lines([1], self.out / "num_jobs")

    def summarise(self, max_skipped: float) -> Summary:
        """What has come of it; InputError where too many utterances have no alignment."""
        lengths = {utt: len(tids) for utt, tids in self.iter_aligned()}
        total = len(self.tables.utt2spk)
        skipped = [utt for utt in self.tables.utt2spk if utt not in lengths]
        report_skipped(f"no alignment of {self.data}", skipped, total, max_skipped, LIMIT)
        return Summary(total, len(lengths), sum(lengths.values()))


def align_by_model(
    data: Path,
    lang: Path,
    source: Path,
    out: Path,
    way: Way,
    options: AlignOptions,
    *,
    boost_silence: float = 1.0,
    max_skipped: float = 1.0,
    open_pipe: OpenPipe | None = None,
) -> Summary:
    """Align the transcripts of `data` by the model in `source`, or go on with what is there.

    Where that model is speaker adapted, its final.alimdl aligns first, transforms of speakers are
    estimated, and it aligns again. Writes what Kaldi's scripts write: ali.1.gz, final.mdl, tree,
    trans.1 and what tells the features. way: how a function is applied to shares of the data. What
    cannot be aligned is named; InputError if that is a larger share than `max_skipped`.
    """
    alignment = Realignment(data, lang, source, out, way, options, boost_silence, open_pipe)
    alignment.run()
    return alignment.summarise(max_skipped)
