"""bayes-asr score: error rates of a decoded run, with the LM weight that dev picks."""

import argparse
import json
from pathlib import Path

from bayes_asr.config import load
from bayes_asr.errors import InputError
from bayes_asr.score.scores import Score, write_scores
from bayes_asr.score.sets import SetPaths, find_hypotheses, score_run
from bayes_asr.train.corpus import located

SETS = ("dev", "test")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("run", type=Path, metavar="RUN", help="run directory with decode_SET")
    parser.add_argument(
        "--oracle-lmwt",
        action="store_true",
        help="also print each set at the LM weight best for itself (not a result; not written)",
    )
    parser.add_argument("--json", action="store_true", help="print the score files' entries")


def run(args: argparse.Namespace) -> None:
    """Score, write RUN/score_SET.json and print a line for each set and convention."""
    config = load([args.run / "config.yaml"])
    sets = {}
    for name in SETS:
        decode = args.run / f"decode_{name}"
        if decode.is_dir():
            features = getattr(config.data, name).features
            data = located(features, config.data, f"{name} reference")
            sets[name] = SetPaths(data / "text", decode, data / "utt2spk")
    if "dev" not in sets:
        raise InputError(f"{args.run}: no decode_dev; run bayes-asr decode first")
    how = config.score
    scored = score_run(sets, how.metric, how.costs, how.phone_map)
    for name, scores in scored.items():
        write_scores(scores, args.run / f"score_{name}.json")
    oracle: dict[str, list[Score]] = {}
    if args.oracle_lmwt:
        oracle = score_run(sets, how.metric, how.costs, how.phone_map, oracle=True)
    if args.json:
        entries = [
            {**score.as_dict(), "oracle": by is oracle}
            for by in (scored, oracle)
            for scores in by.values()
            for score in scores
        ]
        print(json.dumps(entries, indent=1, ensure_ascii=False))
        return
    for name, scores in scored.items():
        for score in scores:
            print(score.line())
        for score in oracle.get(name, ()):
            print(f"{score.line()}, oracle: picked on {name} itself, not a result")
    for name in SETS:
        if name not in sets:
            print(f"{name}: not decoded")
    tried = sorted({weights[0] for weights in find_hypotheses(sets["dev"].decode)})
    for score in scored["dev"]:
        if len(tried) > 1 and score.lm_weight in (tried[0], tried[-1]):
            print(
                f"{score.convention}: dev picks LM weight {score.lm_weight:g}, the end of those "
                f"tried ({tried[0]:g} to {tried[-1]:g}); widen decode.lm_weights"
            )
