"""Training data of a model of pronunciation: a lexicon as Kaldi data directories."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there, together
from bayes_asr.base.installed import CONF
from bayes_asr.base.log import LOGGER
from bayes_asr.config.merge import load
from bayes_asr.config.schema import Config
from bayes_asr.decode.g2p.letters import (
    LETTERS,
    Words,
    encode,
    hold_out,
    read_words,
)
from bayes_asr.kaldi_io.ark import write_matrices
from bayes_asr.kaldi_io.marks import fold_case
from bayes_asr.kaldi_io.text import read_text, write_mapping, write_speakers, write_text
from bayes_asr.tasks.task import task_of

CONFIGURATION = CONF / "g2p.yaml"


def prepare_training(
    lexicon: Path, run: Path, settings: Sequence[str] = ()
) -> tuple[Config, Words]:
    """Write the data and the letters of a model; returns its configuration and held-out words.

    settings: of the configuration, over conf/g2p.yaml. InputError where no word can be held out, or
    the folder has learnt another lexicon.
    """
    words, held = hold_out(read_words(lexicon))
    if not held:
        raise InputError(
            f"{lexicon}: none of {len(words)} words can be held out to judge by, as each has a"
            " letter or a phone that no other has; add words"
        )
    LOGGER.info("%s: %d words, %d of them held out", lexicon, len(words) + len(held), len(held))
    letters = sorted({letter for word in words for letter in fold_case(word)})
    columns = {letter: column for column, letter in enumerate(letters)}
    data = run.absolute() / "data"
    texts = {"train": name_utterances(words), "dev": name_utterances(held)}
    if not is_there(run / LETTERS):
        # In one step: whatever is there later is of one lexicon.
        with together(run):
            for name, text in texts.items():
                write_data_dir(text, columns, data / name)
            write_mapping(columns.items(), run / LETTERS)
    elif any(read_text(data / name / "text") != text for name, text in texts.items()):
        raise InputError(f"{run}: has learnt another lexicon than {lexicon}; take another --out")
    longest = max(len(phones) / len(word) for word in words for phones in words[word])
    fixed = (
        f"data.dir={json.dumps(str(data))}",
        f"data.index={json.dumps(str(run.absolute() / 'index'))}",
        f"model.decoder.labels_per_frame={min(longest, 20.0)}",
    )
    return task_of(load([CONFIGURATION, fixed], settings)).config, held


def name_utterances(words: Words) -> dict[str, list[str]]:
    """Phones of each pronunciation by a name, which is the word with a number: read(1), read(2)."""
    return {
        f"{word}({number})": list(phones)
        for word in sorted(words)
        for number, phones in enumerate(words[word], 1)
    }


def write_data_dir(text: Mapping[str, Sequence[str]], letters: Mapping[str, int], to: Path) -> None:
    """Write a Kaldi data directory, in which a word is an utterance and a speaker."""
    names = sorted(text)
    matrices = ((name, encode(name.rpartition("(")[0], letters)) for name in names)
    write_matrices(matrices, to / "feats.ark", to / "feats.scp")
    write_text(((name, text[name]) for name in names), to / "text")
    write_speakers({name: name for name in names}, to)
