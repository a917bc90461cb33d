#!/usr/bin/env python3
"""Prepare LibriSpeech, all of it or a part: data directories, dictionary, language model.

CORPUS holds LibriSpeech/SET/READER/CHAPTER as OpenSLR publishes it, any of its sets, and beside
them the lexicon and a language model of https://openslr.org/11, where they are wanted: README.md.
"""

import bayes_asr.recipe.stages.interruption  # noqa: F401 - first: Ctrl-C may come while the others load

# isort: split
import argparse
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path

from corpus import PARTS, PUBLISHED, find_sets, list_genders, read_set, reader_of

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import real_path
from bayes_asr.decode.graph.dialects import MARK
from bayes_asr.decode.graph.ngram import NgramModel, estimate_witten_bell, write_arpa
from bayes_asr.decode.graph.transducers import END, START
from bayes_asr.kaldi_io.marks import compose
from bayes_asr.kaldi_io.text import write_mapping
from bayes_asr.recipe.folder.spelling import spell_by_letters
from bayes_asr.recipe.folder.utterances import Utterance, write_utterances
from bayes_asr.recipe.folder.vocabulary import (
    Lexicon,
    describe_set,
    read_language_model,
    read_pronunciations,
    refuse_other_spelling,
    refuse_other_words,
    write_vocabulary,
)
from bayes_asr.recipe.scripts import exit_status

LEXICON = "librispeech-lexicon.txt"
MODELS = (  # the first that is there; larger ones are for bayes-asr lmrescore
    "3-gram.pruned.3e-7.arpa.gz",
    "lm_tgsmall.arpa.gz",
    "3-gram.pruned.1e-7.arpa.gz",
    "lm_tgmed.arpa.gz",
)
DEFAULTS = {"train": "all of train-*", "dev": "dev-clean", "test": "test-clean"}
ORDER = 3  # of a language model of train
SHARE = 0.1  # of train: dev, where there is one set beside train
DIGITS = "0123456789"  # of phones: their stress

Sets = dict[str, list[Utterance]]


def main(argv: Sequence[str] | None = None) -> int:
    """Prepare everything below --out; return 0, or 1 after one line that says what is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--corpus", type=Path, required=True, help="folder of LibriSpeech/")
    parser.add_argument(
        "--out", type=Path, default=Path("exp/librispeech"), help="default %(default)s"
    )
    for name, default in DEFAULTS.items():
        choices = [published for published in PUBLISHED if published.startswith(name)]
        parser.add_argument(
            f"--{name}",
            choices=choices,
            nargs="+" if name == "train" else None,
            help=f"default: {default}, or what is there",
        )
    args = parser.parse_args(argv)
    return exit_status(
        parser.prog,
        lambda: prepare(real_path(args.corpus), args.out, args.train, args.dev, args.test),
    )


def prepare(
    corpus: Path, out: Path, train: Sequence[str] | None, dev: str | None, test: str | None
) -> None:
    """Write data/{train,dev,test}, data/local/dict and data/local/lm.arpa below `out`."""
    folders = find_sets(corpus)
    sets = read_sets(folders, train, dev, test)
    model = find_model(corpus)
    lexicon = find_lexicon(corpus, sets["train"], model)
    if model:
        refuse_other_words(model, lexicon)
    vocabulary = {word for word, _ in lexicon}
    root = next(iter(folders.values())).parent
    for name, members in sets.items():
        write_utterances(members, out / "data" / name)
        if genders := list_genders(members, root):
            write_mapping(genders.items(), out / "data" / name / "spk2gender")
        print(f"{name}: {describe_set(members, vocabulary)}")
    local = out / "data" / "local"
    write_vocabulary(
        lexicon, sets["train"], local / "dict", base=lambda phone: phone.rstrip(DIGITS) or phone
    )
    if model is None:
        transcripts = (utt.words for utt in sets["train"])
        model = estimate_witten_bell(transcripts, ORDER, sorted(vocabulary))
        print(f"language model: a {ORDER}-gram of the words of train (no {MODELS[0]})")
    write_arpa(model, local / "lm.arpa")


def read_sets(
    folders: dict[str, Path], train: Sequence[str] | None, dev: str | None, test: str | None
) -> Sets:
    """Who is in which set: as wished, or what is there; said.

    Of train all sets, of the others the clean one. Where there is one set beside train, it is
    test, and dev a tenth of train.
    """
    wished = [*(train or []), *filter(None, [dev, test])]
    if absent := [name for name in wished if name not in folders]:
        raise InputError(f"{absent[0]} is not there, but {' '.join(folders)}")
    names = [*dict.fromkeys(train or [name for name in folders if name.startswith("train")])]
    names = [name for name in names if PARTS.get(name) not in names]  # else it is in there twice
    dev = dev or first_of(folders, "dev-clean", "dev-clean-2", "dev-other")
    test = test or first_of(folders, "test-clean", "test-other")
    if not names or not (dev or test):
        raise InputError(
            f"{' '.join(folders)}: is all that is there; at least a train-* and a dev-* or test-*"
            " of https://openslr.org/12 or /31 are needed"
        )
    spoken = [utt for name in names for utt in read_set(folders[name])]
    sets = {"train": sorted(spoken, key=lambda utt: utt.key)}
    if dev and test:
        sets["dev"] = read_set(folders[dev])
    else:
        sets["dev"], sets["train"] = hold_out(sets["train"])
        test, dev = test or dev, f"{len({*map(reader_of, sets['dev'])})} of its readers"
    sets["test"] = read_set(folders[str(test)])
    print(f"train is {' and '.join(names)}, dev {dev}, test {test}")
    return sets


def first_of(folders: dict[str, Path], *names: str) -> str | None:
    """The first name that has a folder."""
    return next((name for name in names if name in folders), None)


def hold_out(spoken: Sequence[Utterance]) -> tuple[list[Utterance], list[Utterance]]:
    """Some readers with a tenth of the utterances, by a hash of their names, and the others."""
    readers = sorted({*map(reader_of, spoken)}, key=lambda name: (zlib.crc32(name.encode()), name))
    if len(readers) < 2:
        raise InputError("one reader is too few for train and dev; add a dev-* and a test-* set")
    drawn: set[str] = set()
    held: list[Utterance] = []
    while len(held) < SHARE * len(spoken) and len(drawn) < len(readers) - 1:
        drawn.add(readers[len(drawn)])
        held = [utt for utt in spoken if reader_of(utt) in drawn]
    return held, [utt for utt in spoken if reader_of(utt) not in drawn]


def find_beside(corpus: Path, *names: str) -> Path | None:
    """The first file of these names in CORPUS or CORPUS/LibriSpeech."""
    files = (folder / name for name in names for folder in (corpus, corpus / "LibriSpeech"))
    return next((file for file in files if file.is_file()), None)


def find_model(corpus: Path) -> NgramModel | None:
    """The language model of OpenSLR 11 of which a graph is made, where there is one."""
    path = find_beside(corpus, *MODELS)
    return read_language_model(path, compose) if path else None


def find_lexicon(corpus: Path, train: Sequence[Utterance], model: NgramModel | None) -> Lexicon:
    """The lexicon of OpenSLR 11, else the words of train and of the language model by letters."""
    path = find_beside(corpus, LEXICON)
    if path:
        lexicon = read_pronunciations(path, compose)
        refuse_other_spelling(path, train, {word for word, _ in lexicon})
        return lexicon
    words = {word for utt in train for word in utt.words}
    if model:
        modelled = {word for ngram in model.log_prob for word in ngram} - {START, END}
        words |= {word for word in modelled if not MARK.fullmatch(word)}
    print(f"lexicon: {len(words)} words by their letters (no {corpus / LEXICON})")
    return spell_by_letters(sorted(words), corpus)


if __name__ == "__main__":
    sys.exit(main())
