#!/usr/bin/env python3
"""Prepare any folder of sound files with a `text`: data directories, dictionary, language model.

CORPUS holds sound files at any depth and `text`, whose lines are a file's name without its
extension and its words. What else lies there is used: utt2spk, lexicon.txt, lm.arpa, and the lists
`dev` and `test` of speakers or files. What does not is made, and said: README.md.
"""

import bayes_asr.recipe.stages.interruption  # noqa: F401 - first: Ctrl-C may come while the others load

# isort: split
import argparse
import sys
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import ParamSpec, TypeVar

from bayes_asr.base.errors import InputError, name_some
from bayes_asr.base.files import real_path
from bayes_asr.decode.graph.dialects import MARK
from bayes_asr.decode.graph.ngram import NgramModel, estimate_witten_bell, write_arpa
from bayes_asr.evaluate.score.nist import refuse_formats_of_nist
from bayes_asr.kaldi_io.binary import iter_lines
from bayes_asr.kaldi_io.marks import compose
from bayes_asr.recipe.folder.beside import at_sources, write_beside
from bayes_asr.recipe.folder.folding import Folding, describe_shares, read_folding
from bayes_asr.recipe.folder.sounds import (
    describe_unheard,
    describe_unread,
    name_sounds,
    refuse_endless,
    refuse_missing_text,
)
from bayes_asr.recipe.folder.spelling import (
    Spell,
    describe_unspaced,
    refuse_marks,
    refuse_misread,
    spell_by_letters,
)
from bayes_asr.recipe.folder.utterances import (
    Utterance,
    describe_cased_speakers,
    describe_wordless,
    find_utterances,
    read_transcripts,
    write_utterances,
)
from bayes_asr.recipe.folder.vocabulary import (
    UNKNOWN,
    Lexicon,
    describe_set,
    pronounce_unknown,
    read_language_model,
    read_pronunciations,
    refuse_g2p_alone,
    refuse_other_spelling,
    refuse_other_words,
    write_vocabulary,
)
from bayes_asr.recipe.scripts import exit_status

TABLES = ("text", "utt2spk", "dev", "test", "lexicon.txt", "lm.arpa")
SETS = ("train", "dev", "test")
SHARE = 0.1  # of the utterances: dev and test, where nobody listed them
ORDER = 3  # of the language model
TIMES = "take all but names and words out"
FOLDED = "words in lower case, with ' for ’, without other punctuation at their ends"
FOLDING = f" --set 'recipe.options=[--fold]' takes all {FOLDED}"

Sets = dict[str, list[Utterance]]
P = ParamSpec("P")
T = TypeVar("T")


def main(argv: Sequence[str] | None = None) -> int:
    """Prepare everything below --out; return 0, or 1 after a line for each thing that is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--corpus", type=Path, required=True, help="folder with sound and text")
    parser.add_argument("--out", type=Path, default=Path("exp/folder"), help="default %(default)s")
    parser.add_argument("--fold", action="store_true", help=FOLDED)
    parser.add_argument(
        "--beside",
        action="store_true",
        help="words of FILE.lab, FILE.txt or FILE.TextGrid beside the sound, instead of `text`",
    )
    parser.add_argument(
        "--g2p",
        type=Path,
        metavar="MODEL",
        help="of bayes-asr g2p: phones of the words of train that lexicon.txt lacks",
    )
    args = parser.parse_args(argv)
    corpus = real_path(args.corpus)

    def prepare_folder() -> None:
        if not args.beside:
            prepare(corpus, corpus / "text", args.out, folds=args.fold, g2p=args.g2p)
            return
        text = args.out / "data/local/text"
        with at_sources(text, write_beside(corpus, text)):
            prepare(corpus, text, args.out, folds=args.fold, g2p=args.g2p)

    return exit_status(parser.prog, prepare_folder)


def prepare(corpus: Path, text: Path, out: Path, *, folds: bool, g2p: Path | None = None) -> None:
    """Write data/{train,dev,test}, data/local/dict and data/local/lm.arpa below `out`.

    text: the table of words; folds: whether these are folded; g2p: a model of pronunciation. Raises
    an ExceptionGroup of all that is wrong with the corpus, before any of these is written.
    """
    spell: Spell = read_folding(text) if folds else compose
    sets, lexicon, model = inspect(corpus, text, spell, g2p)
    vocabulary = {word for word, _ in lexicon}
    for name, members in sets.items():
        write_utterances(members, out / "data" / name)
        print(f"{name}: {describe_set(members, vocabulary)}")
    if unread := describe_unread(corpus, TABLES):
        print(unread)
    announce(text, [utt for members in sets.values() for utt in members], spell)
    local = out / "data" / "local"
    write_vocabulary(lexicon, sets["train"], local / "dict")
    if model is None:
        transcripts = (utt.words for utt in sets["train"])
        model = estimate_witten_bell(transcripts, ORDER, sorted(vocabulary))
        print(f"language model: a {ORDER}-gram of the words of train (no lm.arpa)")
    write_arpa(model, local / "lm.arpa")


class Inspection:
    """The errors of steps that were attempted, each once, so that all are said together."""

    def __init__(self) -> None:
        self.errors: dict[str, Exception] = {}

    def attempt(self, step: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """The result of a step, or None where it raises what a user can mend."""
        try:
            return step(*args, **kwargs)
        except (InputError, OSError) as error:
            self.errors.setdefault(str(error), error)
            return None

    def settle(self) -> None:
        """Raise an ExceptionGroup of the errors, where there are any."""
        if self.errors:
            raise ExceptionGroup("the corpus is not as it should be", [*self.errors.values()])


def inspect(
    corpus: Path, text: Path, spell: Spell, g2p: Path | None
) -> tuple[Sets, Lexicon, NgramModel | None]:
    """The sets, the lexicon and the language model of a corpus, the last where one is given.

    Text, sound, lexicon and language model are held against each other. Raises an ExceptionGroup.
    """
    check = Inspection()
    places = {name: corpus / name for name in TABLES} | {"text": text}
    tables = {name: path for name, path in places.items() if path.is_file()}
    for path in places.values():
        check.attempt(refuse_no_file, path)
    for table in tables.values():
        check.attempt(refuse_marks, table)
        check.attempt(refuse_misread, table)
    check.attempt(refuse_missing_text, corpus, text)
    sounds = check.attempt(name_sounds, corpus)
    check.attempt(refuse_formats_of_nist, text, TIMES) if "text" in tables else None
    transcripts = check.attempt(read_transcripts, text, corpus, spell) if "text" in tables else None
    lexicon, model = None, None
    if "lexicon.txt" in tables:
        lexicon = check.attempt(read_pronunciations, tables["lexicon.txt"], spell)
    if "lm.arpa" in tables:
        model = check.attempt(read_language_model, tables["lm.arpa"], spell)
    sets: Sets = {}
    if transcripts and sounds:
        utterances = check.attempt(find_utterances, corpus, text, transcripts, sounds)
        sets = check.attempt(split, utterances, corpus, text) or {} if utterances else {}
    if g2p and "lexicon.txt" not in tables:
        check.attempt(refuse_g2p_alone, corpus, g2p)
    elif sets and "lexicon.txt" not in tables:
        lexicon = check.attempt(make_lexicon, corpus, text, sets["train"])
    elif sets and lexicon:
        vocabulary = {word for word, _ in lexicon}
        remedy = "" if isinstance(spell, Folding) else FOLDING
        check.attempt(
            refuse_other_spelling, tables["lexicon.txt"], sets["train"], vocabulary, remedy
        )
        if g2p:
            lexicon += check.attempt(pronounce_unknown, lexicon, sets["train"], g2p) or []
    if lexicon and model:
        check.attempt(refuse_other_words, model, lexicon)
    check.settle()
    return sets, lexicon or [], model


def refuse_no_file(path: Path) -> None:
    """Raise InputError for a link that leads nowhere, a pipe, a device or a folder as a table.

    Folders dev and test may hold sound as any other.
    """
    if path.is_symlink() and not path.exists():
        raise InputError(f"{path}: a link that leads to no file; replace it")
    if path.is_dir() and path.name not in SETS:
        raise InputError(f"{path}: a folder, where a file is due; rename it")
    refuse_endless(path)


def announce(text: Path, utterances: Sequence[Utterance], spell: Spell) -> None:
    """Say what may not be meant: silence, marks, words that differ in little."""
    for remark in describe_unheard([utt.file for utt in utterances]):
        print(remark)
    if wordless := describe_wordless(utterances):
        print(f"{text}: {wordless}")
    if cased := describe_cased_speakers(utterances):
        print(cased)
    words = [word for utt in utterances for word in utt.words]
    if unspaced := describe_unspaced(words):
        print(f"{text}: {unspaced}")
    marks = sorted({word for word in words if MARK.fullmatch(word) and word != UNKNOWN})
    if marks:
        print(f"{text}: {name_some(marks)} are words as any other; take them out if they are none")
    shares = describe_shares(words)
    if isinstance(spell, Folding):
        dotless = ", and ı for I, as it is the letter of this language" * spell.has_dotless
        print(f"{text}: folded: {FOLDED}{dotless}")
    if shares:
        advice = "" if isinstance(spell, Folding) else f".{FOLDING}"
        print(f"{text}: {shares}; these are words of their own{advice}")


def split(known: Sequence[Utterance], corpus: Path, text: Path) -> Sets:
    """Who is in which set: by the lists of the corpus, else by speakers."""
    if len(known) < len(SETS):
        raise InputError(f"{text}: {len(known)} utterances are too few for three sets")
    listed = {name: read_list(corpus / name, known) for name in ("dev", "test")}
    both = {utt.name for utt in listed["dev"]} & {utt.name for utt in listed["test"]}
    if both:
        raise InputError(f"{corpus}: {min(both)} is in dev and in test; take it out of one list")
    taken = {utt for members in listed.values() for utt in members}
    rest = [utt for utt in known if utt not in taken]
    for name, members in listed.items():
        if not members:
            later = sum(not others for others in listed.values()) - 1
            members += draw(rest, name, known, corpus, later)
            taken = {*members}
            rest = [utt for utt in rest if utt not in taken]
    if not rest:
        raise InputError(f"{corpus}: dev and test leave nothing to train on; shorten the lists")
    return {"train": rest, **listed}


def read_list(path: Path, known: Sequence[Utterance]) -> list[Utterance]:
    """The utterances that a list names, by file or by speaker; none where there is no list."""
    if not path.is_file():
        return []
    names, speakers = {utt.name for utt in known}, {utt.speaker for utt in known}
    lines = [(number, [*map(compose, fields)]) for number, fields in iter_lines(path)]
    for number, fields in lines:
        if len({*fields}) > 1 and any(kind.issuperset(fields) for kind in (names, speakers)):
            raise InputError(
                f"{path}, line {number}: has {len(fields)} names, of which only the first would be"
                " read; write one a line"
            )
    listed = {fields[0] for _, fields in lines}
    strangers = listed - names - speakers
    if strangers:
        raise InputError(
            f"{path}: {min(strangers)} is neither a name of text nor a speaker; names are such as"
            f" {name_some(sorted(names))}"
        )
    found = [utt for utt in known if {utt.name, utt.speaker} & listed]
    if not found:
        raise InputError(f"{path}: empty; list speakers or files, or remove it")
    return found


def draw(
    rest: Sequence[Utterance], name: str, known: Sequence[Utterance], corpus: Path, later: int
) -> list[Utterance]:
    """A tenth of all that is known, by a hash of names: whole speakers, unless these are few.

    rest: those in no set yet; later: how many sets will be drawn from what this one leaves, as many
    speakers and utterances for each. A speaker with more than a fifth of all stays in train.
    """
    tenth, left = SHARE * len(known), {*rest}
    others = {utt.speaker for utt in known if utt not in left}  # of whom another set has some
    by_speaker = gather(rest, lambda utt: utt.speaker)
    small = {
        who: utts
        for who, utts in by_speaker.items()
        if len(utts) <= 2 * tenth and who not in others
    }
    spare = len(small) - later - (len(small) == len(by_speaker))  # whom no other set needs
    wanted = min(tenth, sum(map(len, small.values())) / (1 + later))
    drawn = take(small, wanted, spare)
    if len(drawn) < tenth / 2:
        drawn = take(gather(rest, lambda utt: utt.key), tenth, len(rest))
    speakers = sorted({utt.speaker for utt in drawn})
    taken = {*drawn}
    shared = set(speakers) & {utt.speaker for utt in rest if utt not in taken}
    whose = "of speakers whom train has too" if shared else f"of speakers {' '.join(speakers)}"
    print(f"{name}: {len(drawn)} utterances {whose} ({describe_absence(corpus / name)})")
    return drawn


def take(groups: Mapping[str, list[Utterance]], wanted: float, most: int) -> list[Utterance]:
    """Groups of utterances by a hash of their names: until there are `wanted`, or `most` groups.

    A group that would make it more than twice as many, or more than one utterance, is passed over.
    """
    taken: list[Utterance] = []
    for name in sorted(groups, key=lambda group: (zlib.crc32(group.encode()), group)):
        fits = len(taken) + len(groups[name]) <= max(2 * wanted, 1)
        if most > 0 and fits and len(taken) < wanted:
            taken += groups[name]
            most -= 1
    return taken


def describe_absence(path: Path) -> str:
    """Why a set is drawn; of a folder that may be meant for it, what to do."""
    if not path.is_dir():
        return f"no {path}"
    return f"{path} is a folder as any other; to have it as this set, rename it and list it there"


def gather(
    utts: Iterable[Utterance], name: Callable[[Utterance], str]
) -> dict[str, list[Utterance]]:
    """The utterances of each name."""
    groups: dict[str, list[Utterance]] = {}
    for utt in utts:
        groups.setdefault(name(utt), []).append(utt)
    return groups


def make_lexicon(corpus: Path, text: Path, train: Iterable[Utterance]) -> Lexicon:
    """The words of train and their letters; unknown words, however they are written, have none."""
    words = {word: utt.name for utt in train for word in utt.words if word.upper() != UNKNOWN}
    if not words:
        raise InputError(f"{text}: train has no words; write what is said in its files")
    print(f"lexicon: {len(words)} words of train by their letters (no {corpus / 'lexicon.txt'})")

    def find(word: str) -> str:
        lines = (number for number, (name, *_) in iter_lines(text) if compose(name) == words[word])
        return f", line {next(lines)}"

    return spell_by_letters(sorted(words), text, find)


if __name__ == "__main__":
    sys.exit(main())
