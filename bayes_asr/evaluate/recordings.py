"""A decoded run scored by time: CTMs out of its lattices, against the STM of its data."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import find_files, is_there, writing
from bayes_asr.base.programs import open_pipe
from bayes_asr.config.schema import Config
from bayes_asr.data.corpus.sets import stream_dirs
from bayes_asr.data.directories import data_with_stm, locate, locate_streams
from bayes_asr.data.features.streams import report_lacking
from bayes_asr.decode.lattices.ctm import FRAME_SHIFT, Place, read_places
from bayes_asr.decode.lattices.rescore import write_ctm_at
from bayes_asr.evaluate.score.counts import ErrorCounts
from bayes_asr.evaluate.score.glm import filter_words, find_glm, read_glm
from bayes_asr.evaluate.score.hubscr import count_by_hubscr
from bayes_asr.evaluate.score.phones import PhoneMap, timit_map
from bayes_asr.evaluate.score.scores import Score
from bayes_asr.evaluate.score.sweeps import (
    Reference,
    TimedSweep,
    Weights,
    check_same_utterances,
    find_hypotheses,
)
from bayes_asr.kaldi_io.binary import iter_lines
from bayes_asr.kaldi_io.text import read_text, write_lines
from bayes_asr.tasks.task import task_of

NO_WORD = re.compile(r"<.*>|\[.*\]")


@dataclass(frozen=True)
class Ctms(Mapping[Weights, Path]):
    """The CTM of a set at each pair of weights, made from its lattices when it is first asked for.

    `weights` are those that the set was decoded at; `words` is the words.txt of its graph;
    `frame_shift`: seconds from one frame of the lattices to the next.
    """

    weights: tuple[Weights, ...]
    lattices: tuple[Path, ...]
    words: Path
    glm: Path
    directory: Path
    places: Mapping[str, Place] | None
    nj: int
    frame_shift: float = FRAME_SHIFT

    def __post_init__(self) -> None:
        """Remove what an earlier scoring left: its lattices may have been others."""
        self.directory.mkdir(parents=True, exist_ok=True)
        for stale in self.directory.glob("*.ctm"):
            stale.unlink()

    def __getitem__(self, weights: Weights) -> Path:
        if weights not in self.weights:
            raise KeyError(weights)
        path = self._find_path(weights)
        if not path.exists():
            everything = path.with_suffix(".all")
            write_ctm_at(
                weights,
                self.lattices,
                self.words,
                everything,
                self.places,
                self.nj,
                self.frame_shift,
            )
            write_lines(iter_scored_lines(everything, self.glm), path)
            everything.unlink()
        return path

    def store(self, weights: Weights, ctm: bytes) -> None:
        """Write a CTM that another process has made."""
        with writing(self._find_path(weights)) as file:
            file.write(ctm)

    def _find_path(self, weights: Weights) -> Path:
        return self.directory / f"lmwt{weights[0]:g}.wip{weights[1]:.1f}.ctm"

    def __iter__(self) -> Iterator[Weights]:
        return iter(self.weights)

    def __len__(self) -> int:
        return len(self.weights)


def iter_scored_lines(ctm: Path, glm: Path) -> Iterator[str]:
    """The lines of a CTM without `<unk>`, noises `[noise]`, and words that a rule deletes.

    So does Kaldi's local/score_asclite.sh, as csrfilt leaves the confidence of a deleted word as a
    word.
    """
    rules = read_glm(glm, "hyp")
    for _, fields in iter_lines(ctm):
        word = fields[4]
        if not NO_WORD.fullmatch(word) and filter_words(word, rules):
            yield " ".join(fields)


def find_unheard(config: Config, name: str, text: Path, decode: Path) -> set[str]:
    """The utterances of a set that need no hypothesis, as they have no features; they are named.

    Features are looked at only where a hypothesis is missing: nothing else needs them any more.
    """
    decoded = {utt for path in find_files(decode, "words*.txt")[:1] for utt in read_text(path)}
    if read_text(text).keys() <= decoded or not all(
        is_there(directory / "feats.scp") for directory in locate_streams(config.data, name)
    ):
        return set()
    return report_lacking(stream_dirs(config, name, open_pipe), config.data.max_skipped)


class TimedSet:
    """One decoded set of a run whose configuration has score.glm."""

    def __init__(
        self, run: Path, name: str, config: Config, nj: int = 1, out: Path | None = None
    ) -> None:
        """Find the STM, the rules and the lattices; every utterance of the data that has features
        must be decoded.

        CTMs are made in `out`/ctm_SET, by default of the run.
        """
        self.run, self.name, self.config = run, name, config
        self.data = data_with_stm(config.data, name)
        decode = run / f"decode_{name}"
        files = find_hypotheses(decode)
        texts = self.data / "text"
        if is_there(texts):
            hypotheses = next(iter(files.values()))
            reference = Reference(
                read_text(texts), unheard=find_unheard(config, name, texts, decode)
            )
            check_same_utterances(reference, read_text(hypotheses), hypotheses)
        lattices = tuple(find_files(decode, "lat.*.gz"))
        if not lattices:
            raise InputError(f"{decode}: holds no lattices lat.N.gz; decode the set again")
        words = locate(config.data.graph, config.data, "decoding graph") / "words.txt"
        self.ctms = Ctms(
            tuple(files),
            lattices,
            words,
            self.glm,
            (out or run) / f"ctm_{name}",
            read_places(self.data),
            nj,
            FRAME_SHIFT * task_of(config).output_stride,
        )

    @cached_property
    def glm(self) -> Path:
        """The rules: the project's own, or a file, relative to data.dir."""
        return find_glm(str(self.config.score.glm), Path(self.config.data.dir))

    @cached_property
    def phones(self) -> PhoneMap:
        """The folding of phones before counting."""
        folded = self.config.score.phone_map
        return timit_map(folded) if folded else {}

    @cached_property
    def sweep(self) -> TimedSweep:
        """The set at all weights."""
        return TimedSweep(self.name, self.data / "stm", self.glm, self.phones, self.ctms)

    def count_by_hubscr(self, score: Score) -> dict[str, ErrorCounts]:
        """The counts of NIST's hubscr for each speaker, at the weights of the score.

        Its listings stay in RUN/hubscr_SET/CONVENTION.
        """
        ctm = self.ctms[score.weights]
        listings = self.run / f"hubscr_{self.name}" / score.convention
        return count_by_hubscr(
            self.data / "stm", ctm, self.glm, self.phones, score.optional, listings
        )
