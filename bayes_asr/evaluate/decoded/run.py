"""Error rates of a decoded run: its texts, or words with times out of its lattices, are counted
against the references of its data.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Literal

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import find_files, is_there, together, writing
from bayes_asr.base.kaldi_programs import find_nist_program
from bayes_asr.base.programs import open_pipe
from bayes_asr.base.shards import Mapper
from bayes_asr.config.decoding_keys import SearchOptions
from bayes_asr.config.schema import Config
from bayes_asr.data.corpus.directories import stream_dirs
from bayes_asr.data.corpus.references import (
    data_with_stm,
    find_references,
    list_tables,
)
from bayes_asr.data.directories import locate, locate_streams
from bayes_asr.data.features.skipped import report_lacking
from bayes_asr.decode.align.transcripts import locate_timer
from bayes_asr.decode.forward.network_record import check_network
from bayes_asr.decode.graph.lang import find_lexicon
from bayes_asr.decode.lattices.ctm import FRAME_SHIFT, Place, read_places
from bayes_asr.decode.lattices.rescore import write_ctm_at
from bayes_asr.decode.lattices.word_times import ReadTimer
from bayes_asr.decode.search.search_record import (
    describe_differences,
    describe_search,
    find_graph_of,
    read_record,
)
from bayes_asr.evaluate.score.conventions import (
    KNOWN,
    Convention,
    choose_conventions,
    list_foldings,
)
from bayes_asr.evaluate.score.counts import ErrorCounts
from bayes_asr.evaluate.score.glm import LOWER, find_glm, iter_scored_lines
from bayes_asr.evaluate.score.hubscr import count_by_hubscr
from bayes_asr.evaluate.score.nist import describe_alternatives
from bayes_asr.evaluate.score.phones import PhoneMap, timit_map
from bayes_asr.evaluate.score.run_scores import SETS, RunScores
from bayes_asr.evaluate.score.scores import Score, UtteranceScore, write_scores
from bayes_asr.evaluate.score.sweeps import (
    CountedSweep,
    Reference,
    SetPaths,
    Sweep,
    TextSweep,
    TimedSweep,
    Weights,
    check_same_utterances,
    find_hypotheses,
    score_sweeps,
)
from bayes_asr.kaldi_io.data_dir import read_texts
from bayes_asr.kaldi_io.marks import describe_misspelt
from bayes_asr.kaldi_io.side_files import CONFIG
from bayes_asr.kaldi_io.symbols import read_symbols
from bayes_asr.kaldi_io.text import read_text, write_lines
from bayes_asr.tasks.task import task_of

Scorer = Literal["auto", "native", "nist"]


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
    frame_shift: float
    read_timer: ReadTimer

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
            options = (self.places, self.nj, self.frame_shift, self.read_timer)
            write_ctm_at(weights, self.lattices, self.words, everything, *options)
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


def find_without_features(
    config: Config, name: str, texts: Sequence[Path], decode: Path
) -> set[str]:
    """The utterances of a set without features, which need no hypothesis; a warning names them.

    Features are looked at only where a hypothesis is missing: nothing else needs them any more.
    """
    decoded = {utt for path in find_files(decode, "words*.txt")[:1] for utt in read_text(path)}
    if read_texts(texts).keys() <= decoded or not all(
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
        # An STM has segments and no utterances, so what is missing shows in `text` alone.
        if is_there(texts):
            hypotheses = next(iter(files.values()))
            without_features = find_without_features(config, name, [texts], decode)
            reference = Reference(read_text(texts), without_features=without_features)
            check_same_utterances(reference, read_text(hypotheses), hypotheses)
        lattices = tuple(find_files(decode, "lat.*.gz"))
        if not lattices:
            raise InputError(f"{decode}: holds no lattices lat.N.gz; decode the set again")
        graph = find_graph_of(decode, config)
        # A network that skips frames has longer ones, and its CTM other times.
        self.ctms = Ctms(
            tuple(files),
            lattices,
            graph / "words.txt",
            self.glm,
            (out or run) / f"ctm_{name}",
            read_places(self.data),
            nj,
            FRAME_SHIFT * task_of(config).output_stride,
            locate_timer(graph, config),
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


@dataclass(frozen=True)
class DecodedRun:
    """A run directory and its decoded sets, `dev` among them."""

    path: Path
    config: Config
    sets: Sequence[str]

    def score(
        self, out: Path, mapper: Mapper | None, nj: int, scorer: Scorer, *, oracle: bool
    ) -> RunScores:
        """Score all sets and write score_SET.json into the run.

        out: where CTMs are made; mapper: shares the counting among jobs; nj: processes without it;
        scorer: whether NIST's hubscr counts too: where it is installed, never, or always.
        """
        options = self.config.score
        timed, sweeps = dict[str, TimedSet](), dict[str, Sweep]()
        conventions = choose_conventions(options.metric, options.conventions, self._read_words)
        for name in self.sets:
            if options.glm:
                timed[name] = TimedSet(self.path, name, self.config, 1 if mapper else nj, out)
                sweeps[name] = timed[name].sweep
            else:
                sweeps[name] = self._find_texts(name)
        if mapper:
            # The weights at which other sets are counted are known only when dev is scored.
            shared = {name: sweeps[name] for name in (self.sets if oracle else ["dev"])}
            sweeps |= _count_in_shards(mapper, shared, timed, conventions)
        count = partial(
            score_sweeps,
            sweeps,
            options.metric,
            options.costs,
            conventions=conventions,
            glm=options.glm,
        )
        scores = count()
        self._write(scores)
        return RunScores(
            scores,
            count(oracle=True) if oracle else {},
            _count_by_nist(timed, scores, scorer),
            sorted({lm_weight for lm_weight, _ in sweeps["dev"].weights}),
        )

    def _write(self, scores: Mapping[str, Sequence[Score]]) -> None:
        with together(self.path):
            for name, of_set in scores.items():
                record = read_record(self.path / f"decode_{name}")
                recorded = [
                    replace(score, decoded=record, cluster=self.config.score.cluster)
                    for score in of_set
                ]
                write_scores(recorded, self.path / f"score_{name}.json")

    def list_inputs(self) -> list[Path]:
        """The files that scores depend on."""
        data, options = self.config.data, self.config.score
        folders = [self.path / f"decode_{name}" for name in self.sets]
        tables = [table for name in self.sets for table in list_tables(self.config, name)]
        rules = list_foldings(options.conventions)
        if options.glm:
            rules.append(find_glm(options.glm, Path(data.dir)))
        if options.glm or KNOWN in options.conventions:
            graphs = [find_graph_of(folder, self.config) for folder in folders]
            rules += [path for at in graphs for path in (at / "words.txt", *find_lexicon(at))]
        outputs = [
            path
            for folder in folders
            for kind in ("words*.txt", "lat.*.gz")
            for path in find_files(folder, kind)
        ]
        return [self.path / CONFIG, *rules, *tables, *outputs]

    def search_warnings(self) -> Iterator[str]:
        """Say where dev picks the LM weight for another search than a set's, or the run's own."""
        if task_of(self.config).recogniser != "decode":  # else there is no LM weight
            return
        records = {name: read_record(self.path / f"decode_{name}") for name in self.sets}
        dev = records["dev"]
        if dev is None:
            return
        for name, record in records.items():
            difference = describe_differences(dev, record) if record else ""
            if difference:
                yield (
                    f"dev and {name} were decoded with different settings ({difference}): the LM"
                    f" weight that dev picks is not tuned for {name}; decode both alike"
                )
        try:
            graph = locate(self.config.data.graph, self.config.data, "graph")
            decode = self.config.decode
            search = SearchOptions.from_config(decode)
            configured = describe_search(graph, search, mbr=decode.mbr)
        except (InputError, OSError):  # the graph may be gone: nothing needs it any more
            return
        difference = describe_differences(dev, configured)
        if difference:
            yield (
                f"dev was decoded with other settings than the run's ({difference}): the LM weight"
                " is for the former; decode again for the latter"
            )

    def reference_warnings(self, scores: RunScores) -> Iterator[str]:
        """Say which words of references are never right, as the graph has them otherwise."""
        if task_of(self.config).recogniser != "decode":
            return
        timed = bool(self.config.score.glm)
        for name, (score, *_) in scores.sets.items():
            if not timed:
                texts = [at / self.config.score.text for at in find_references(self.config, name)]
                yield from filter(None, map(describe_alternatives, texts))
            reference = {word for utterance in score.utterances for word in utterance.reference}
            with suppress(InputError, OSError):  # the graph may be gone
                words = {w.translate(LOWER if timed else {}) for w in self._read_words(name)}
                for remark in describe_misspelt(reference, words):
                    yield f"{name}: references and graph: {remark}"

    def _read_words(self, *names: str) -> set[str]:
        """The words of the graphs that sets, by default all, were decoded with."""
        folders = [self.path / f"decode_{name}" for name in names or self.sets]
        graphs = {find_graph_of(folder, self.config) for folder in folders}
        return {word for graph in graphs for word in read_symbols(graph / "words.txt")}

    def _find_texts(self, name: str) -> TextSweep:
        directories, options = find_references(self.config, name), self.config.score
        paths = SetPaths(
            [directory / options.text for directory in directories],
            self.path / f"decode_{name}",
            [directory / "utt2spk" for directory in directories],
            weighted=task_of(self.config).recogniser == "decode",
        )
        phones = timit_map(options.phone_map) if options.phone_map else {}
        without_features = find_without_features(self.config, name, paths.references, paths.decode)
        return TextSweep(name, paths, options.costs, phones, without_features)


def open_decoded_run(path: Path, config: Config) -> DecodedRun:
    """Find the decoded sets of a run; InputError where dev is not among them."""
    sets = [name for name in SETS if is_there(path / f"decode_{name}")]
    verb = task_of(config).recogniser
    if verb == "classify":
        raise InputError(f"{path}: bayes-asr classify counts its errors, and report shows them")
    if "dev" not in sets:
        raise InputError(f"{path}: no decode_dev; run bayes-asr {verb} first")
    again = f"{'forward and ' * (verb == 'decode')}{verb} it again"
    for decoded in (path / f"decode_{name}" for name in sets):
        check_network(path, read_record(decoded), decoded, again)
    return DecodedRun(path, config, sets)


def _count_in_shards(
    mapper: Mapper,
    sweeps: Mapping[str, Sweep],
    timed: Mapping[str, TimedSet],
    conventions: Sequence[Convention],
) -> dict[str, Sweep]:
    """The sets with their errors at all weights; CTMs that this takes are put in their places."""

    def count(name: str, weights: Weights) -> tuple[list[list[UtteranceScore]], bytes]:
        scores = [sweeps[name].utterances(weights, convention) for convention in conventions]
        # Each job has made a CTM on its own disk, so its content goes back with the counts.
        return scores, timed[name].ctms[weights].read_bytes() if timed else b""

    items = [(name, weights) for name, sweep in sweeps.items() for weights in sweep.weights]
    counted = {name: CountedSweep(sweep) for name, sweep in sweeps.items()}
    for (name, weights), (scores, ctm) in zip(items, mapper(count, items), strict=True):
        counted[name].store(weights, conventions, scores)
        if timed:
            timed[name].ctms.store(weights, ctm)
    return dict(counted)


def _count_by_nist(
    timed: Mapping[str, TimedSet], scores: Mapping[str, list[Score]], scorer: Scorer
) -> dict[tuple[str, str], dict[str, ErrorCounts]]:
    try:
        find_nist_program("hubscr.pl")
    except InputError:
        if scorer == "nist":
            raise
        return {}
    if scorer == "native":
        return {}
    return {
        (name, score.convention): timed[name].count_by_hubscr(score)
        for name in timed
        for score in scores[name]
    }
