"""bayes-asr score: error rates of a decoded run, with the LM weight that dev picks."""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import together
from bayes_asr.base.log import LOGGER
from bayes_asr.base.programs import find_nist_program
from bayes_asr.base.shards import Mapper
from bayes_asr.cli.arguments import processes
from bayes_asr.cli.sharing import Inputs, add_sharing_arguments, sharing
from bayes_asr.config.schema import Config
from bayes_asr.data.directories import data_with_stm, locate
from bayes_asr.decode.search.options import SearchOptions
from bayes_asr.decode.search.search_record import (
    Record,
    describe_differences,
    describe_search,
    read_record,
)
from bayes_asr.evaluate.recordings import TimedSet, find_unheard
from bayes_asr.evaluate.score.conventions import Convention, choose_conventions
from bayes_asr.evaluate.score.counts import ErrorCounts
from bayes_asr.evaluate.score.hubscr import describe_difference
from bayes_asr.evaluate.score.phones import timit_map
from bayes_asr.evaluate.score.scores import (
    Score,
    UtteranceScore,
    pool,
    write_scores,
)
from bayes_asr.evaluate.score.sweeps import SetPaths, Sweep, TextSweep, Weights, score_sweeps
from bayes_asr.kaldi_io.text import read_symbols
from bayes_asr.tasks.task import task_of
from bayes_asr.train.runs.checkpoint import CONFIG
from bayes_asr.train.runs.configuration import read_configuration

Counted = dict[tuple[Weights, Convention], list[UtteranceScore]]
SETS = ("dev", "test")
TABLES = ("stm", "utt2spk", "segments", "reco2file_and_channel")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the run and the options."""
    parser.add_argument("run", type=Path, metavar="RUN", help="run directory with decode_SET")
    add_options(parser)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options, which a verb that scores what has no run has too."""
    parser.add_argument(
        "--oracle-lmwt",
        action="store_true",
        help="also print each set at the LM weight best for itself (not a result; not written)",
    )
    parser.add_argument(
        "--scorer",
        choices=("auto", "native", "nist"),
        default="auto",
        help="with score.glm: count by NIST's hubscr.pl too if it is installed, never, or always",
    )
    parser.add_argument(
        "--nj", type=processes, default=1, help="processes, with score.glm; or jobs of --cmd"
    )
    add_sharing_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print the score files' entries")


def run(args: argparse.Namespace) -> None:
    """Score, write RUN/score_SET.json and print a line for each set and convention."""
    config = read_configuration(args.run)
    if args.scorer == "nist" and not config.score.glm:
        raise InputError(f"{args.run}: --scorer nist scores by time; set score.glm")
    decoded = [name for name in SETS if (args.run / f"decode_{name}").is_dir()]
    if "dev" not in decoded:
        verb = task_of(config).recogniser
        raise InputError(f"{args.run}: no decode_dev; run bayes-asr {verb} first")
    with (
        TemporaryDirectory() as scratch,
        sharing(args, args.run, partial(_list_inputs, args.run, config, decoded)) as way,
    ):
        out = Path(scratch) if args.shard else args.run
        _score(args, config, decoded, out, way)


def _score(
    args: argparse.Namespace, config: Config, decoded: Sequence[str], out: Path, way: Mapper | None
) -> None:
    """Score the sets and print; CTMs are made in `out`."""
    how, timed, sweeps = config.score, dict[str, TimedSet](), dict[str, Sweep]()
    conventions = choose_conventions(how.metric, how.conventions, lambda: _find_vocabulary(config))
    for name in decoded:
        if how.glm:
            timed[name] = TimedSet(args.run, name, config, 1 if way else args.nj, out)
            sweeps[name] = timed[name].sweep
        else:
            sweeps[name] = _find_texts(args.run, name, config)
    if way:
        # Which weights of the other sets are looked at is known when dev is scored.
        names = decoded if args.oracle_lmwt else ["dev"]
        sweeps |= _count_in_shards(way, {name: sweeps[name] for name in names}, timed, conventions)
    count = partial(
        score_sweeps, sweeps, how.metric, how.costs, conventions=conventions, glm=how.glm
    )
    scored = count()
    records = {name: read_record(args.run / f"decode_{name}") for name in decoded}
    with together(args.run):
        for name, scores in scored.items():
            known = [replace(score, decoded=records[name], cluster=how.cluster) for score in scores]
            write_scores(known, args.run / f"score_{name}.json")
    oracle: dict[str, list[Score]] = {}
    if args.oracle_lmwt:
        oracle = count(oracle=True)
    by_nist = _count_by_nist(timed, scored, args.scorer)
    if args.json:
        print(json.dumps(_list_entries(scored, oracle, by_nist), indent=1))
    else:
        _print(scored, oracle, by_nist)
        _warn(scored["dev"], sweeps["dev"])
    if task_of(config).recogniser == "decode":  # else there is no LM weight
        for line in _describe_other_searches(records, config):
            LOGGER.warning("%s", line)


def _describe_other_searches(records: Mapping[str, Record | None], config: Config) -> Iterator[str]:
    """Say where dev picks the LM weight for another search than a set's, or the run's own."""
    dev = records["dev"]
    if dev is None:
        return
    for name, record in records.items():
        apart = describe_differences(dev, record) if record else ""
        if apart:
            yield (
                f"dev and {name} were decoded with different settings ({apart}): the LM weight that"
                f" dev picks is not tuned for {name}; decode both alike"
            )
    try:
        graph = locate(config.data.graph, config.data, "graph")
        now = describe_search(graph, SearchOptions.from_config(config.decode))
    except (InputError, OSError):  # the graph may be gone: nothing needs it any more
        return
    apart = describe_differences(dev, now)
    if apart:
        yield (
            f"dev was decoded with other settings than the run's ({apart}): the LM weight is for"
            " the former; decode again for the latter"
        )


def _list_inputs(run: Path, config: Config, decoded: Sequence[str]) -> Inputs:
    """What scores depend on."""
    data, rules = config.data, config.score.glm
    folders = [_find_reference(name, config) for name in decoded]
    tables = [folder / table for folder in folders for table in (config.score.text, *TABLES)]
    by_time = (
        [Path(data.dir, rules), locate(data.graph, data, "words") / "words.txt"] if rules else []
    )
    outputs = [
        path
        for name in decoded
        for kind in ("words.lmwt*.txt", "lat.*.gz")
        for path in sorted((run / f"decode_{name}").glob(kind))
    ]
    return Inputs([run / CONFIG, *by_time, *tables, *outputs])


class CountedSweep:
    """A set whose errors at all weights are counted, by (weights, convention)."""

    def __init__(self, sweep: Sweep, counted: Counted) -> None:
        self.name, self.weights, self.unknown = sweep.name, sweep.weights, sweep.unknown
        self._counted = counted

    def utterances(self, weights: Weights, convention: Convention) -> list[UtteranceScore]:
        """Every utterance of the reference against its hypothesis at these weights."""
        return self._counted[weights, convention]


def _count_in_shards(
    way: Mapper,
    sweeps: Mapping[str, Sweep],
    timed: Mapping[str, TimedSet],
    conventions: Sequence[Convention],
) -> dict[str, Sweep]:
    """The sets with their errors at all weights; CTMs that this takes are put in their places."""

    def count(name: str, weights: Weights) -> tuple[list[list[UtteranceScore]], bytes]:
        found = [sweeps[name].utterances(weights, convention) for convention in conventions]
        return found, timed[name].ctms[weights].read_bytes() if timed else b""

    items = [(name, weights) for name, sweep in sweeps.items() for weights in sweep.weights]
    counted: dict[str, Counted] = {name: {} for name in sweeps}
    for (name, weights), (found, ctm) in zip(items, way(count, items), strict=True):
        keys = ((weights, convention) for convention in conventions)
        counted[name].update(zip(keys, found, strict=True))
        if timed:
            timed[name].ctms.store(weights, ctm)
    return {name: CountedSweep(sweep, counted[name]) for name, sweep in sweeps.items()}


def _find_reference(name: str, config: Config) -> Path:
    """The data directory that a set is scored against."""
    if config.score.glm:
        return data_with_stm(config.data, name)
    return locate(getattr(config.data, name).features, config.data, f"{name} reference")


def _find_vocabulary(config: Config) -> set[str]:
    """The words of the decoding graph."""
    words = locate(config.data.graph, config.data, "decoding graph") / "words.txt"
    return set(read_symbols(words))


def _find_texts(run: Path, name: str, config: Config) -> TextSweep:
    data = _find_reference(name, config)
    paths = SetPaths(
        data / config.score.text,
        run / f"decode_{name}",
        data / "utt2spk",
        weighted=task_of(config).recogniser == "decode",
    )
    phones = timit_map(config.score.phone_map) if config.score.phone_map else {}
    unheard = find_unheard(config, name, paths.reference, paths.decode)
    return TextSweep(name, paths, config.score.costs, phones, unheard)


ByNist = Mapping[tuple[str, str], dict[str, ErrorCounts]]
"""By (set, convention): the counts of each speaker."""


def _count_by_nist(
    timed: Mapping[str, TimedSet], scored: Mapping[str, list[Score]], scorer: str
) -> ByNist:
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
        for score in scored[name]
    }


def _list_entries(
    scored: Mapping[str, list[Score]], oracle: Mapping[str, list[Score]], by_nist: ByNist
) -> list[dict[str, object]]:
    entries: list[dict[str, object]] = []
    for name, scores in scored.items():
        for score in scores:
            theirs = by_nist.get((name, score.convention))
            counts = {"hubscr": pool(theirs.values()).as_dict()} if theirs else {}
            entries.append({**score.as_dict(), **counts, "oracle": False})
    entries += [{**one.as_dict(), "oracle": True} for scores in oracle.values() for one in scores]
    return entries


def _print(
    scored: Mapping[str, list[Score]], oracle: Mapping[str, list[Score]], by_nist: ByNist
) -> None:
    for name, scores in scored.items():
        for score in scores:
            print(score.line())
            theirs = by_nist.get((name, score.convention))
            if theirs:
                apart = describe_difference(score, theirs)
                line = pool(theirs.values()).kaldi_line()
                print(f"{line} by hubscr.pl, {'not the same: ' + apart if apart else 'the same'}")
        for score in oracle.get(name, ()):
            print(f"{score.line()}, oracle: picked on {name} itself, not a result")
    for name in SETS:
        if name not in scored:
            print(f"{name}: not decoded")


def _warn(scores: list[Score], sweep: Sweep) -> None:
    """Say where dev picks an LM weight at the end of those tried."""
    tried = sorted({lm_weight for lm_weight, _ in sweep.weights})
    for score in scores:
        if len(tried) > 1 and score.lm_weight in (tried[0], tried[-1]):
            print(
                f"{score.convention}: dev picks LM weight {score.lm_weight:g}, the end of those "
                f"tried ({tried[0]:g} to {tried[-1]:g}); widen decode.lm_weights"
            )
