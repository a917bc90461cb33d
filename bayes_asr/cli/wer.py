"""bayes-asr wer: errors of a hypothesis against a reference, without a run."""

import argparse
import json
from pathlib import Path

from bayes_asr.errors import InputError
from bayes_asr.score.phones import PhoneMap, fold, read_phone_map, timit_map
from bayes_asr.score.scores import Score
from bayes_asr.score.sets import score_utterances
from bayes_asr.tables.text import read_mapping, read_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--ref", type=Path, required=True, help="reference, a Kaldi text")
    parser.add_argument("--hyp", type=Path, required=True, help="hypothesis, a Kaldi text")
    parser.add_argument(
        "--costs",
        choices=("sclite", "levenshtein"),
        default="sclite",
        help="alignment of NIST's sclite (4/3/3) or of Kaldi's compute-wer (1/1/1)",
    )
    parser.add_argument("--map", metavar="FILE", help="phone map in columns, or `timit`")
    parser.add_argument("--to", type=int, default=39, help="fold to this many phones")
    parser.add_argument(
        "--forgive", metavar="TOKEN", action="append", help="may be missing, e.g. sil"
    )
    parser.add_argument("--by", choices=("speaker",), help="also count by speaker")
    parser.add_argument("--utt2spk", type=Path, help="who speaks, for --by speaker")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> None:
    """Count and print."""
    if args.by and not args.utt2spk:
        raise InputError("--by speaker needs --utt2spk FILE")
    forgiving = frozenset(args.forgive or ())
    score = _score(args, forgiving)
    if args.json:
        print(json.dumps(_as_dict(score, args.by), indent=1, ensure_ascii=False))
        return
    # A PER says little without its other convention, so that one is printed too.
    for shown in [_score(args, frozenset()), score] if forgiving else [score]:
        print(shown.line())
    if args.by:
        for speaker, counts in score.speakers.items():
            print(f"{counts.kaldi_line()} {speaker}")


def _score(args: argparse.Namespace, forgiving: frozenset[str]) -> Score:
    phone_map: PhoneMap = {}
    if args.map:
        phone_map = timit_map(args.to) if args.map == "timit" else read_phone_map(args.map, args.to)
    reference, hypothesis = (
        {utterance: fold(tokens, phone_map) for utterance, tokens in read_text(path).items()}
        for path in (args.ref, args.hyp)
    )
    speakers = read_mapping(args.utt2spk) if args.utt2spk else None
    phones = bool(args.map or args.forgive)
    return Score(
        set=None,
        metric="per" if phones else "wer",
        convention="forgiving" if forgiving else "strict" if phones else "plain",
        optional=forgiving,
        costs=args.costs,
        lm_weight=None,
        insertion_penalty=None,
        utterances=score_utterances(
            reference, hypothesis, args.hyp, args.costs, forgiving, speakers
        ),
    )


def _as_dict(score: Score, by: str | None) -> dict[str, object]:
    if not by:
        return score.as_dict()
    speakers = [
        {"speaker": speaker, **counts.as_dict(), "rate": counts.rate}
        for speaker, counts in score.speakers.items()
    ]
    return {**score.as_dict(), "speakers": speakers}
