"""bayes-asr wer: errors of a hypothesis against a reference, without a run."""

import argparse
import json
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from pathlib import Path

from bayes_asr.base.errors import InputError, name_some, printable
from bayes_asr.base.log import LOGGER
from bayes_asr.cli.arguments import whole
from bayes_asr.evaluate.score.glm import find_glm, read_glm
from bayes_asr.evaluate.score.nist import (
    describe_alternatives,
    read_ctm,
    read_stm,
    refuse_cells,
    refuse_formats_of_nist,
    score_segments,
)
from bayes_asr.evaluate.score.phones import PhoneMap, fold, read_phone_map, timit_map
from bayes_asr.evaluate.score.scores import Score, UtteranceScore
from bayes_asr.evaluate.score.sweeps import Reference, read_values, score_utterances
from bayes_asr.kaldi_io.marks import describe_unlike
from bayes_asr.kaldi_io.text import read_text

Count = Callable[[frozenset[str]], list[UtteranceScore]]
"""What counts each utterance where some tokens may be missing, in what was read before."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--ref", type=Path, required=True, help="Kaldi text, or a NIST stm")
    parser.add_argument("--hyp", type=Path, required=True, help="Kaldi text; a ctm if --ref is stm")
    parser.add_argument(
        "--costs",
        choices=("sclite", "levenshtein"),
        default="sclite",
        help="alignment of NIST's sclite (4/3/3) or of Kaldi's compute-wer (1/1/1)",
    )
    parser.add_argument("--map", metavar="FILE", help="phone map in columns, or `timit`")
    parser.add_argument("--to", type=whole(1, 100_000), default=39, help="fold to this many phones")
    parser.add_argument(
        "--forgive", metavar="TOKEN", action="append", help="may be missing, e.g. sil"
    )
    parser.add_argument("--glm", metavar="FILE", help="NIST mapping rules, or `english`; stm only")
    parser.add_argument(
        "--drop", metavar="WORD", action="append", help="recognised word that does not count"
    )
    parser.add_argument("--by", choices=("speaker",), help="also count by speaker")
    parser.add_argument("--utt2spk", type=Path, help="who speaks, for --by speaker; an stm knows")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> None:
    """Count and print."""
    stm = args.ref.name == "stm" or args.ref.suffix == ".stm"
    if args.by and not (args.utt2spk or stm):
        raise InputError("--by speaker needs --utt2spk FILE")
    if stm and args.costs != "sclite":
        raise InputError("an stm is scored with the costs of sclite; leave out --costs")
    if args.glm and not stm:
        raise InputError("--glm is for an stm; name the reference stm or FILE.stm")
    count = _read_timed(args) if stm else _read_texts(args)
    phones = bool(args.map or args.forgive)
    forgiven = frozenset(args.forgive or ["sil"])
    # Phones are counted in both conventions of TIMIT, and one is chosen for --json and --by.
    conventions = (
        {"strict": frozenset(), "forgiving": forgiven} if phones else {"plain": frozenset()}
    )
    shown = "forgiving" if args.forgive else next(iter(conventions))
    scores = {
        convention: Score(
            set=None,
            metric="per" if phones else "wer",
            convention=convention,
            optional=optional,
            costs=args.costs,
            lm_weight=None,
            insertion_penalty=None,
            utterances=count(optional),
        )
        for convention, optional in conventions.items()
    }
    if not scores[shown].utterances:
        raise InputError(f"{args.ref}: there is nothing in it to count against; name the reference")
    if not stm:
        for remark in filter(None, map(describe_alternatives, (args.ref, args.hyp))):
            LOGGER.warning("%s", remark)
    _warn_of_words(args, scores[shown].utterances)
    if args.json:
        print(json.dumps(_as_dict(scores[shown], args.by), indent=1))
        return
    for score in scores.values():
        print(score.line())
    if args.by:
        for speaker, counts in scores[shown].speakers.items():
            print(f"{counts.kaldi_line(scores[shown].metric)} {printable(speaker)}")


def _phone_map(args: argparse.Namespace) -> PhoneMap:
    if not args.map:
        return {}
    return timit_map(args.to) if args.map == "timit" else read_phone_map(args.map, args.to)


def _read_texts(args: argparse.Namespace) -> Count:
    for path in (args.ref, args.hyp):
        _refuse_pipe(path)
        refuse_formats_of_nist(path)
        refuse_cells(path)
    phone_map = _phone_map(args)
    reference, hypothesis = (
        {utterance: fold(tokens, phone_map) for utterance, tokens in read_text(path).items()}
        for path in (args.ref, args.hyp)
    )
    # Folding to None deletes a token.
    dropped = dict.fromkeys(args.drop or ())
    _warn_of_absent("--drop", dropped, {t for ts in hypothesis.values() for t in ts}, args.hyp)
    hypothesis = {utterance: fold(tokens, dropped) for utterance, tokens in hypothesis.items()}
    speakers = read_values([args.utt2spk], reference) if args.utt2spk else {}
    return partial(
        score_utterances, Reference(reference, speakers), hypothesis, args.hyp, args.costs
    )


def _read_timed(args: argparse.Namespace) -> Count:
    rules = find_glm(args.glm) if args.glm else None
    if rules:
        _refuse_pipe(rules)
    ref_glm, hyp_glm = (read_glm(rules, "ref"), read_glm(rules, "hyp")) if rules else (None, None)
    dropped = {word.lower() for word in args.drop or ()}  # as words, whose case does not count
    recognised = read_ctm(args.hyp)
    _warn_of_absent("--drop", dropped, {word.text.lower() for word in recognised}, args.hyp)
    words = [word for word in recognised if word.text.lower() not in dropped]
    segments, phone_map = read_stm(args.ref), _phone_map(args)
    return partial(score_segments, segments, words, args.hyp, ref_glm, hyp_glm, phone_map=phone_map)


def _refuse_pipe(path: Path) -> None:
    """InputError for what gives its content once, of files that are read more than once."""
    if path.is_fifo():
        raise InputError(f"{path}: is a pipe, and this file is read more than once; write a file")


def _warn_of_words(args: argparse.Namespace, utterances: Sequence[UtteranceScore]) -> None:
    """Name words that count as errors and may be meant alike, and those of --forgive to no end."""
    sides = [
        {token for tokens in texts for token in tokens}
        for texts in zip(*((utt.reference, utt.hypothesis) for utt in utterances), strict=True)
    ]
    for remark in describe_unlike(*sides):
        LOGGER.warning("%s and %s: %s", args.ref, args.hyp, remark)
    _warn_of_absent("--forgive", args.forgive or (), sides[0], args.ref)


def _warn_of_absent(option: str, words: Iterable[str], text: Collection[str], path: Path) -> None:
    """Name words of an option that a text has nowhere, so that the option does nothing."""
    if absent := name_some([word for word in words if word not in text]):
        remark = "%s %s: not among the words of %s as they are scored; it changes nothing"
        LOGGER.warning(remark, option, absent, path)


def _as_dict(score: Score, by: str | None) -> dict[str, object]:
    if not by:
        return score.as_dict()
    speakers = [
        {"speaker": speaker, **counts.as_dict(), "rate": counts.rate if counts.tokens else None}
        for speaker, counts in score.speakers.items()
    ]
    return {**score.as_dict(), "speakers": speakers}
