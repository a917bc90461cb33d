"""bayes-asr g2p: learn pronunciations from a lexicon, and pronounce words that it lacks."""

import argparse
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from bayes_asr.base import log
from bayes_asr.base.errors import InputError, printable
from bayes_asr.base.log import LOGGER
from bayes_asr.base.processes.malloc import keep_freed_memory
from bayes_asr.decode.g2p.model import G2P, count_word_errors, load_g2p
from bayes_asr.decode.g2p.training import prepare_training
from bayes_asr.decode.graph.lexicon import Pronunciation
from bayes_asr.kaldi_io.binary import iter_lines
from bayes_asr.train.start import train


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument(
        "source", type=Path, metavar="LEXICON|MODEL", help="lexicon to learn, or what learnt one"
    )
    parser.add_argument(
        "words", nargs="*", default=[], metavar="WORD", help="pronounced by the MODEL"
    )
    parser.add_argument("--words", dest="file", type=Path, metavar="FILE", help="one a line")
    parser.add_argument(
        "--probabilities",
        action="store_true",
        help="print each behind its word, as lexiconp.txt has them",
    )
    parser.add_argument("--out", type=Path, metavar="MODEL", help="of a LEXICON: what to make")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="of a LEXICON: one key of the configuration, over conf/g2p.yaml",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> None:
    """Learn, and print the errors on held-out words; or pronounce, and print lexicon lines."""
    (_learn if args.out else _pronounce)(args)


def _learn(args: argparse.Namespace) -> None:
    if args.words or args.file or args.probabilities:
        raise InputError("--out learns a lexicon; pronounce words in a second call")
    keep_freed_memory()
    with log.also_in(args.out / "train.log"):
        config, held = prepare_training(args.source, args.out, args.set)
        train(config, args.out)
    results = _pronounce_each(load_g2p(args.out), held)
    hypotheses = {entry.word: entry.phones for entry in results if isinstance(entry, Pronunciation)}
    phones, wrong = count_word_errors(held, hypotheses)
    if args.json:
        print(json.dumps({"words": len(held), "wrong_words": wrong, **phones.as_dict()}))
    else:
        print(
            f"{args.out}: {wrong} of {len(held)} held-out words have wrong phones"
            f" ({100 * wrong / len(held):.1f} %); {phones.rate:.1f} % of their phones are wrong"
        )


def _pronounce(args: argparse.Namespace) -> None:
    """Print each entry as it is made; a word without one is named in its turn."""
    words = dict.fromkeys([*args.words, *(_read_words(args.file) if args.file else ())])
    if not words or args.set:
        raise InputError("name WORDs to pronounce, or --out for what to make of a LEXICON")
    entries = []
    for result in _pronounce_each(load_g2p(args.source), words):
        if isinstance(result, InputError):
            LOGGER.error("%s", result)
            continue
        entries.append(result)
        if not args.json:
            probability = [f"{result.probability:.4g}"] * args.probabilities
            line = " ".join((result.word, *probability, *result.phones))
            print(printable(line), flush=True)
    if args.json:
        print(json.dumps([vars(entry) for entry in entries]), flush=True)
    if lacking := len(words) - len(entries):
        raise InputError(f"no phones for {lacking} of {len(words)} words, named above")


def _pronounce_each(g2p: G2P, words: Iterable[str]) -> Iterator[Pronunciation | InputError]:
    """Yield the pronunciation of each word, or the error of one that has none."""
    for word in words:
        try:
            yield g2p.pronounce(word)
        except InputError as error:
            yield error


def _read_words(file: Path) -> Iterator[str]:
    """Yield the words of a file; InputError for several in a line."""
    for number, (word, *others) in iter_lines(file):
        if others:
            raise InputError(
                f"{file}, line {number}: {1 + len(others)} words; write each in a line of its own"
            )
        yield word
