"""The transcripts of a data directory, and the lexicon that pronounces their words."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from bayes_asr.base.errors import InputError, name_some
from bayes_asr.base.log import LOGGER
from bayes_asr.decode.align.pronouncer import Pronouncer
from bayes_asr.decode.graph.lang import find_phones_file, read_lang
from bayes_asr.kaldi_io.mdl import read_transition_model
from bayes_asr.kaldi_io.text import DataDir, read_symbols, read_text
from bayes_asr.kaldi_io.tree import read_tree

LIMIT = "--max-skipped"
PronouncerFiles = tuple[Path, Path, str | None]  # the arguments of read_pronouncer


@dataclass(frozen=True)
class TranscriptSource:
    """The words to align: `text`, by default that of the data directory, and their pronunciations.

    lang: a lang, dict or graph folder; unknown: the word that stands for words without
    pronunciation, if not as oov.txt says.
    """

    lang: Path
    unknown: str | None = None
    text: Path | None = None


def read_pronouncer(lang: Path, model: Path, unknown: str | None = None) -> Pronouncer:
    """Read a lang, dict or graph folder, and `model` (final.mdl) with the tree beside it.

    `unknown`: the word that stands for words without pronunciation, if not as oov.txt says.
    """
    return Pronouncer(
        read_lang(lang, unknown),
        read_symbols(find_phones_file(lang, model)),
        read_transition_model(model),
        read_tree(model.parent / "tree"),
    )


def read_transcripts(
    data: DataDir, text: Path | None, pronouncer: Pronouncer
) -> dict[str, list[str]]:
    """The words of each utterance; those that the lexicon lacks are counted and named."""
    transcripts = read_text(text) if text else data.text
    if transcripts is None:
        raise InputError(
            f"{data.path / 'text'}: there are no transcripts to align; write them there"
        )
    words = Counter(word for sentence in transcripts.values() for word in sentence)
    foreign = [word for word in words if word not in pronouncer.pronunciations]
    if foreign and pronouncer.lang.unknown:
        LOGGER.warning(
            "%s: %d of %d words are not in the lexicon and are aligned as %s: %s",
            *(text or data.path / "text", sum(words[word] for word in foreign), words.total()),
            *(pronouncer.lang.unknown, name_some(foreign)),
        )
    return transcripts
