"""The transcripts of a data directory, and the lexicon that pronounces their words."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bayes_asr.base.errors import InputError, opening
from bayes_asr.base.log import LOGGER
from bayes_asr.config.schema import Config
from bayes_asr.decode.align.pronouncer import Pronouncer
from bayes_asr.decode.graph.lang import find_phones_file, read_lang
from bayes_asr.decode.graph.lexicon import Pronunciation
from bayes_asr.decode.lattices.word_times import WordTimer
from bayes_asr.kaldi_io.mdl import read_transition_model
from bayes_asr.kaldi_io.text import DataDir, WordSymbols, read_symbols, read_text
from bayes_asr.kaldi_io.tree import read_tree
from bayes_asr.tasks.task import task_of

LIMIT = "--max-skipped"
PronouncerFiles = tuple[Path, Path, str | None, tuple[Pronunciation, ...]]
"""The arguments of `read_pronouncer`."""


@dataclass(frozen=True)
class TranscriptSource:
    """The words to align: `text`, by default that of the data directory, and their pronunciations.

    lang: a lang, dict or graph folder; unknown: the word that stands for words without
    pronunciation, if not as oov.txt says.
    """

    lang: Path
    unknown: str | None = None
    text: Path | None = None


def read_pronouncer(
    lang: Path, model: Path, unknown: str | None = None, spelled: Sequence[Pronunciation] = ()
) -> Pronouncer:
    """Read a lang, dict or graph folder, and `model` (final.mdl) with the tree beside it.

    `unknown`: the word that stands for words without pronunciation, if not as oov.txt says;
    spelled: words that the lexicon lacks.
    """
    return Pronouncer(
        read_lang(lang, unknown).extend(spelled),
        read_symbols(find_phones_file(lang, model)),
        read_transition_model(model),
        read_tree(model.parent / "tree"),
    )


def read_word_timer(graph: Path, config: Config) -> WordTimer | None:
    """The timer of the lattices of a run; None, with a warning, where lexicon or model are gone.

    Kaldi's graph folders need not have a lexicon.
    """
    try:
        with opening():
            pronouncer = read_pronouncer(graph, task_of(config).locate_model())
            return pronouncer.time_words(WordSymbols(graph / "words.txt"))
    except InputError as error:
        LOGGER.warning("%s; words have the times of lattices, which are early", error)
        return None


def read_transcripts(data: DataDir, text: Path | None) -> dict[str, list[str]]:
    """The words of each utterance; InputError where there are none."""
    transcripts = read_text(text) if text else data.text
    if transcripts is None:
        raise InputError(
            f"{data.path / 'text'}: there are no transcripts to align; write them there"
        )
    return transcripts
