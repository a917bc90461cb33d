"""A trained model of pronunciation: phones of a word by beam search, and how often it errs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there
from bayes_asr.config.decoding_keys import DecodeConfig
from bayes_asr.decode.forward.generator import SequenceGenerator, load_generator
from bayes_asr.decode.g2p.letters import LETTERS, Words, encode
from bayes_asr.decode.graph.lexicon import Pronunciation
from bayes_asr.evaluate.score.counts import ErrorCounts, count_errors
from bayes_asr.kaldi_io.marks import fold_case
from bayes_asr.kaldi_io.symbols import read_symbols
from bayes_asr.nn.beam_search import search
from bayes_asr.train.runs.configuration import read_configuration


@dataclass(frozen=True)
class G2P:
    """A model in the folder `run`; letters: their columns in the rows that the network reads."""

    run: Path
    letters: Mapping[str, int]
    generator: SequenceGenerator
    options: DecodeConfig

    def pronounce(self, word: str) -> Pronunciation:
        """The phones that beam search finds for a word, and their probability.

        InputError for a letter that no word of the lexicon had, and where it finds no phones.
        """
        for letter in fold_case(word):
            if letter not in self.letters:
                raise InputError(
                    f"{self.run}: {word} has {letter!r}, which no word of its lexicon had; write"
                    " the phones of this word yourself"
                )
        frames = encode(word, self.letters)
        best = search(
            self.generator.decoder,
            self.generator(frames),
            width=self.options.beam_width,
            max_length=self.generator.decoder.max_length(len(frames)),
            length_penalty=self.options.length_penalty,
        )
        if not best.labels:
            raise InputError(f"{self.run}: finds no phones for {word}; write them yourself")
        phones = tuple(self.generator.name_labels(best))
        return Pronunciation(word, exp(best.log_probability), phones)


def load_g2p(run: Path) -> G2P:
    """The model in a folder; InputError where none was made there."""
    if not is_there(run / LETTERS):
        raise InputError(f"{run}: no {LETTERS}; bayes-asr g2p LEXICON --out {run} makes a model")
    options = read_configuration(run).decode
    return G2P(run, read_symbols(run / LETTERS), load_generator(run), options)


def count_word_errors(
    words: Words, hypotheses: Mapping[str, Sequence[str]]
) -> tuple[ErrorCounts, int]:
    """Errors of phones, and the number of words with any, against the nearest pronunciations.

    A word without a hypothesis has one of no phones.
    """
    phones, wrong = ErrorCounts(), 0
    for word, references in words.items():
        hypothesis = hypotheses.get(word, ())
        counts = (count_errors(reference, hypothesis, "levenshtein") for reference in references)
        nearest = min(counts, key=lambda count: count.errors)
        phones, wrong = phones + nearest, wrong + bool(nearest.errors)
    return phones, wrong
