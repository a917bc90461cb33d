"""bayes-asr score: error rates of a decoded run, with the LM weight that dev picks."""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path

from bayes_asr.cli.arguments import positive
from bayes_asr.config import Config, load
from bayes_asr.corpus.sets import locate
from bayes_asr.errors import InputError
from bayes_asr.programs import find_nist_program
from bayes_asr.recordings import TimedSet
from bayes_asr.score.counts import ErrorCounts
from bayes_asr.score.hubscr import describe_difference
from bayes_asr.score.phones import timit_map
from bayes_asr.score.scores import Score, pool, write_scores
from bayes_asr.score.sweeps import SetPaths, Sweep, TextSweep, score_sweeps

SETS = ("dev", "test")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("run", type=Path, metavar="RUN", help="run directory with decode_SET")
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
    parser.add_argument("--nj", type=positive, default=1, help="processes, with score.glm")
    parser.add_argument("--json", action="store_true", help="print the score files' entries")


def run(args: argparse.Namespace) -> None:
    """Score, write RUN/score_SET.json and print a line for each set and convention."""
    config = load([args.run / "config.yaml"])
    if args.scorer == "nist" and not config.score.glm:
        raise InputError(f"{args.run}: --scorer nist scores by time; set score.glm")
    decoded = [name for name in SETS if (args.run / f"decode_{name}").is_dir()]
    if "dev" not in decoded:
        raise InputError(f"{args.run}: no decode_dev; run bayes-asr decode first")
    how, timed, sweeps = config.score, dict[str, TimedSet](), dict[str, Sweep]()
    for name in decoded:
        if how.glm:
            timed[name] = TimedSet(args.run, name, config, args.nj)
            sweeps[name] = timed[name].sweep
        else:
            sweeps[name] = _find_texts(args.run, name, config)
    scored = score_sweeps(sweeps, how.metric, how.costs, glm=how.glm)
    for name, scores in scored.items():
        write_scores(scores, args.run / f"score_{name}.json")
    oracle: dict[str, list[Score]] = {}
    if args.oracle_lmwt:
        oracle = score_sweeps(sweeps, how.metric, how.costs, glm=how.glm, oracle=True)
    by_nist = _count_by_nist(timed, scored, args.scorer)
    if args.json:
        print(json.dumps(_list_entries(scored, oracle, by_nist), indent=1, ensure_ascii=False))
    else:
        _print(scored, oracle, by_nist)
        _warn(scored["dev"], sweeps["dev"])


def _find_texts(run: Path, name: str, config: Config) -> TextSweep:
    data = locate(getattr(config.data, name).features, config.data, f"{name} reference")
    paths = SetPaths(data / "text", run / f"decode_{name}", data / "utt2spk")
    phones = timit_map(config.score.phone_map) if config.score.phone_map else {}
    return TextSweep(name, paths, config.score.costs, phones)


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
