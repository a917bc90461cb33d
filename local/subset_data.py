#!/usr/bin/env python3
"""Copy a data directory with some of its utterances, evenly from all of it, but no features.

usage: subset_data.py DATA N COPY

The utterances are those that Kaldi's utils/subset_data_dir.sh takes of the same ones.
"""

import bayes_asr.recipe.stages.interruption  # noqa: F401 - first: Ctrl-C may come while the others load

# isort: split
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import replacing, together
from bayes_asr.base.programs import open_pipe
from bayes_asr.kaldi_io.ark import read_scp
from bayes_asr.kaldi_io.text import (
    read_mapping,
    read_text,
    write_mapping,
    write_speakers,
    write_text,
)
from bayes_asr.recipe.scripts import exit_status

FRONT_END = "frontend.json"


def main(data: Path, number: int, copy: Path) -> int:
    """Copy; return 0, or 1 after one line that says what is wrong."""
    return exit_status(Path(__file__).name, lambda: copy_subset(data, number, copy))


def copy_subset(data: Path, number: int, copy: Path) -> None:
    """Copy; InputError where there are fewer utterances with features, text and speaker."""
    features = read_scp(data / "feats.scp", open_pipe=open_pipe)  # which nothing here runs
    text, speakers = read_text(data / "text"), read_mapping(data / "utt2spk")
    usable = sorted(features.keys() & text.keys() & speakers.keys())
    if number > len(usable):
        raise InputError(f"{data}: has {len(usable)} utterances with features, not {number}")
    chosen = choose_evenly(usable, number)
    with together(copy):
        write_mapping(((utt, features[utt]) for utt in chosen), copy / "feats.scp")
        write_text(((utt, text[utt]) for utt in chosen), copy / "text")
        write_speakers({utt: speakers[utt] for utt in chosen}, copy)
        if (data / "cmvn.scp").exists():
            statistics = read_scp(data / "cmvn.scp", open_pipe=open_pipe)
            write_mapping(statistics.items(), copy / "cmvn.scp")
        if (data / FRONT_END).exists():
            with replacing(copy / FRONT_END) as temporary:
                shutil.copy(data / FRONT_END, temporary)


def choose_evenly(items: Sequence[str], number: int) -> Sequence[str]:
    """As many of the items, in their order: of each half, half as many (Kaldi's subset_scp.pl)."""
    if len(items) <= 1:
        return items[:number]
    half = len(items) // 2
    first = number // 2
    return [*choose_evenly(items[:half], first), *choose_evenly(items[half:], number - first)]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])))
