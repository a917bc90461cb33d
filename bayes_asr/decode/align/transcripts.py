"""The transcripts of a data directory, and the lexicon that pronounces their words."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from bayes_asr.base.errors import InputError, opening
from bayes_asr.base.log import LOGGER
from bayes_asr.config.schema import Config
from bayes_asr.decode.align.pronouncer import Pronouncer
from bayes_asr.decode.graph.lang import find_phones_file, pause_probability, read_lang
from bayes_asr.decode.graph.lexicon import Pronunciation
from bayes_asr.decode.lattices.word_times import ReadTimer, WordTimer, read_no_timer
from bayes_asr.kaldi_io.mdl import read_transition_model
from bayes_asr.kaldi_io.symbols import WordSymbols, read_symbols
from bayes_asr.kaldi_io.text import DataDir, read_text
from bayes_asr.kaldi_io.tree import read_tree
from bayes_asr.tasks.task import task_of

LIMIT = "--max-skipped"
ROUGH = "%s; words have the times of lattices, which are early"
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
    spelled: words that the lexicon lacks. Warns where no phone of pauses is known.
    """
    phones = read_symbols(find_phones_file(lang, model))
    contents = read_lang(lang, unknown, phones)
    if not (contents.silence or contents.transducer) and pause_probability(contents.lexicon):
        LOGGER.warning(
            "%s: which phone is silence? Write it into optional_silence.txt there; words have no"
            " pauses between them",
            lang,
        )
    return Pronouncer(
        contents.extend(spelled),
        phones,
        read_transition_model(model),
        read_tree(model.parent / "tree"),
    )


def locate_timer(graph: Path, config: Config) -> ReadTimer:
    """What reads the timer of lattices of a run that a graph has made.

    Without lexicon or model, which a warning names, words have the times of lattices. Kaldi's graph
    folders need not have a lexicon.
    """
    try:
        return partial(_read_timer, graph, task_of(config).locate_model())
    except InputError as error:
        LOGGER.warning(ROUGH, error)
        return read_no_timer


@cache  # each process reads it once
def read_timer(graph: Path, model: Path) -> WordTimer:
    """Read what times words by the lexicon of a graph folder, and the model with its tree."""
    with opening():
        return read_pronouncer(graph, model).time_words(WordSymbols(graph / "words.txt"))


@cache
def _read_timer(graph: Path, model: Path) -> WordTimer | None:
    try:
        return read_timer(graph, model)
    except InputError as error:
        LOGGER.warning(ROUGH, error)
        return None


def read_transcripts(data: DataDir, text: Path | None) -> dict[str, list[str]]:
    """The words of each utterance; InputError where there are none."""
    transcripts = read_text(text) if text else data.text
    if transcripts is None:
        raise InputError(
            f"{data.path / 'text'}: there are no transcripts to align; write them there"
        )
    return transcripts
