#!/usr/bin/env python3
"""Prepare the Mboshi corpus: Kaldi data directories, dictionaries and language models.

CORPUS is a clone of github.com/besacier/mboshi-french-parallel-corpus. Its dev set is test here;
of the sorted names of its train set every 13th, beginning with the seventh, is dev. A speaker is a
person in a recording session. `text` has graphemes with tone, `text_words` words.
"""

import bayes_asr.recipe.stages.interruption  # noqa: F401 - first: Ctrl-C may come while the others load

# isort: split
import argparse
import hashlib
import re
import sys
import unicodedata
import wave
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import real_path, updating
from bayes_asr.decode.graph.dictionary import write_dictionary
from bayes_asr.decode.graph.ngram import estimate_kneser_ney, write_arpa
from bayes_asr.kaldi_io.binary import iter_lines
from bayes_asr.kaldi_io.text import write_mapping, write_speakers, write_text
from bayes_asr.recipe.scripts import exit_status

HOME = "https://github.com/besacier/mboshi-french-parallel-corpus"
WHOLE = "full_corpus_newsplit"
NAME = re.compile(r"([^_]+)_(\d{4}(?:-\d\d){5})_.+")  # speaker, session, device and text
KINDS = {"sound": ".wav", "words": ".mb.cleaned", "graphemes": ".mb.cleaned.split"}
RIFF_HEADER = 44  # bytes before the samples
DEV = slice(6, None, 13)  # of the names of the corpus' train set
UNKNOWN, SILENCE, NOISE = "<UNK>", "sil", "spn"

# What the corpus holds: utterances, and a hash of their names and transcripts.
UTTERANCES = {"train": 4616, "dev": 514}
HASHES = {
    "train": "e4d7bedb22274c42d23c4aa25ba02deb",
    "dev": "8ac35c040dbc9afd24d6f673525a8d6c",
}


@dataclass(frozen=True)
class Utterance:
    """What the corpus says of a sound file."""

    stem: str
    speaker: str
    words: tuple[str, ...]
    sound: Path

    @property
    def name(self) -> str:
        """Its name in Kaldi's tables, which begins with the speaker."""
        return f"{self.speaker}-{self.stem}"

    @property
    def graphemes(self) -> tuple[str, ...]:
        """The letters of the words, a letter and its tone being one."""
        return tuple("".join(self.words))


def main(argv: Sequence[str] | None = None) -> int:
    """Prepare everything below --out; return 0, or 1 after one line that says what is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--corpus", type=Path, required=True, help=f"a clone of {HOME}")
    parser.add_argument("--out", type=Path, default=Path("exp/mboshi"), help="default %(default)s")
    parser.add_argument(
        "--unchecked", action="store_true", help="take what is there for the whole corpus"
    )
    args = parser.parse_args(argv)
    return exit_status(
        parser.prog, lambda: prepare(real_path(args.corpus), args.out, checked=not args.unchecked)
    )


def prepare(corpus: Path, out: Path, *, checked: bool = True) -> None:
    """Write data/{train,dev,test}, and dictionaries and language models in data/local."""
    theirs = {name: find_utterances(corpus, name) for name in UTTERANCES}
    if checked:
        for name, members in theirs.items():
            check_complete(corpus, name, members)
    dev = theirs["train"][DEV]
    chosen = {utt.stem for utt in dev}
    train = [utt for utt in theirs["train"] if utt.stem not in chosen]
    sets = {"train": train, "dev": dev, "test": theirs["dev"]}
    if not all(sets.values()):
        raise InputError(f"{corpus}: {len(theirs['train'])} utterances are too few for three sets")
    vocabulary = {word for utt in train for word in utt.words}
    mended = out / "data" / "local" / "sound"
    for name, members in sets.items():
        write_data(members, out / "data" / name, mended)
        print(f"{name}: {describe(members, vocabulary)}")
    if mended.is_dir():
        files = len(list(mended.glob("*.wav")))
        print(f"{files} sound files end before their headers say so: mended copies are in {mended}")
    write_dictionaries(vocabulary, sets, out / "data" / "local")
    write_language_models(train, out / "data" / "local")


def find_utterances(corpus: Path, name: str) -> list[Utterance]:
    """The utterances of one of the corpus' two sets, by names; all files of each must be there."""
    folder = corpus / WHOLE / name
    if not folder.is_dir():
        raise InputError(f"{folder} is missing: --corpus is a clone of {HOME}")
    stems = {
        kind: {file.name.removesuffix(suffix) for file in folder.glob(f"[!.]*{suffix}")}
        for kind, suffix in KINDS.items()
    }
    known = sorted(set.union(*stems.values()))
    for kind, there in stems.items():
        lacking = [stem for stem in known if stem not in there]
        if lacking:
            raise InputError(
                f"{folder}: the {kind} of {len(lacking)} of {len(known)} utterances are missing,"
                f" the first is {lacking[0]}{KINDS[kind]}; complete the clone (git status names"
                " what it lacks)"
            )
    return [read_utterance(folder, stem) for stem in known]


def read_utterance(folder: Path, stem: str) -> Utterance:
    """Read the transcripts of a sound file, which must agree."""
    named = NAME.fullmatch(stem)
    if not named:
        raise InputError(f"{folder / stem}.wav: not named SPEAKER_YYYY-MM-DD-hh-mm-ss_...")
    words, graphemes = (
        read_transcript(folder / (stem + KINDS[kind])) for kind in ("words", "graphemes")
    )
    utterance = Utterance(stem, f"{named[1]}-{named[2]}", words, folder / f"{stem}.wav")
    if utterance.graphemes != graphemes:
        raise InputError(
            f"{folder / stem}{KINDS['graphemes']}: other graphemes than those of the words in"
            f" {stem}{KINDS['words']}; restore both"
        )
    return utterance


def read_transcript(path: Path) -> tuple[str, ...]:
    """The words of a file in Unicode's NFC, where a letter and its tone are one character."""
    words = [word for _, line in iter_lines(path) for word in line]
    if not words:
        raise InputError(f"{path}: empty; restore it")
    return tuple(unicodedata.normalize("NFC", word) for word in words)


def check_complete(corpus: Path, name: str, members: Sequence[Utterance]) -> None:
    """Refuse a set that has not the utterances and transcripts of the published corpus."""
    if len(members) != UTTERANCES[name]:
        raise InputError(
            f"{corpus / WHOLE / name}: {len(members)} utterances, but {UTTERANCES[name]} in the"
            f" published corpus; clone {HOME} again"
        )
    found = hash_transcripts(members)
    if found != HASHES[name]:
        raise InputError(
            f"{corpus / WHOLE / name}: names and transcripts have the hash {found}, but those of"
            f" the published corpus {HASHES[name]}; clone {HOME} again"
        )


def hash_transcripts(members: Iterable[Utterance]) -> str:
    """SHA-256 of names and words in lines as those of `text`, the first half of its digits."""
    lines = "".join(f"{' '.join((utt.stem, *utt.words))}\n" for utt in members)
    return hashlib.sha256(lines.encode()).hexdigest()[:32]


def write_data(members: Iterable[Utterance], directory: Path, mended: Path) -> None:
    """Write a data directory that names the sound where it lies, or its mended copy."""
    members = sorted(members, key=lambda utt: utt.name)
    write_speakers({utt.name: utt.speaker for utt in members}, directory)
    write_text(((utt.name, utt.graphemes) for utt in members), directory / "text")
    write_text(((utt.name, utt.words) for utt in members), directory / "text_words")
    sound = ((utt.name, str(mend(utt.sound, mended))) for utt in members)
    write_mapping(sound, directory / "wav.scp")


def mend(sound: Path, mended: Path) -> Path:
    """The file itself, or where it is shorter than its header says a copy below `mended`.

    78 of the published files lack up to 2178 bytes, which Kaldi ignores and others refuse.
    """
    try:
        with wave.open(str(sound), "rb") as file:
            form = file.getparams()
            promised = form.nframes * form.nchannels * form.sampwidth
            if sound.stat().st_size >= RIFF_HEADER + promised:
                return sound
            samples = file.readframes(form.nframes)
    except (wave.Error, EOFError) as error:
        raise InputError(f"{sound}: not a RIFF file of sound ({error}); restore it") from None
    copy = mended.absolute() / sound.name
    with updating(copy) as temporary, wave.open(str(temporary), "wb") as file:
        file.setparams(form)
        file.writeframes(samples)
    return copy


def describe(members: Sequence[Utterance], vocabulary: set[str]) -> str:
    """How many speakers, utterances, phones and words a set has, and how many are unknown."""
    spoken = [word for utt in members for word in utt.words]
    unknown = sum(word not in vocabulary for word in spoken)
    return (
        f"{len({utt.speaker for utt in members})} sessions, {len(members)} utterances,"
        f" {sum(map(len, spoken))} phones, {len(spoken)} words,"
        f" {unknown} ({100 * unknown / len(spoken):.1f} %) of them not in train"
    )


def write_dictionaries(
    vocabulary: Iterable[str], sets: Mapping[str, Sequence[Utterance]], local: Path
) -> None:
    """Write dict (each phone is a word), dict_words (words of train), dict_align (of all sets).

    dict_align is what transcripts are aligned with; no graph is made of it. All have the phones of
    train, so a word of another set with another phone is unknown.
    """
    vocabulary = set(vocabulary)
    phones = sorted({phone for word in vocabulary for phone in word})
    spoken = {word for members in sets.values() for utt in members for word in utt.words}
    alignable = {word for word in spoken if {*word} <= {*phones}}
    for name, words in (("dict", phones), ("dict_words", vocabulary), ("dict_align", alignable)):
        write_dictionary(
            [(UNKNOWN, [NOISE]), *((word, tuple(word)) for word in words)],
            local / name,
            silence=[SILENCE, NOISE],
            questions=[[SILENCE, NOISE], phones],
        )


def write_language_models(train: Sequence[Utterance], local: Path) -> None:
    """Write the phone trigram (lm.arpa), the phone bigram and the word trigram."""
    graphemes = [utt.graphemes for utt in train]
    words = [utt.words for utt in train]
    for name, transcripts, order in (
        ("lm", graphemes, 3),
        ("lm_bigram", graphemes, 2),
        ("lm_words", words, 3),
    ):
        write_arpa(estimate_kneser_ney(transcripts, order), local / f"{name}.arpa")


if __name__ == "__main__":
    sys.exit(main())
