"""bayes-asr pronunciation: how well the phones of a text are pronounced, by a run."""

import argparse
import json
import os
import shlex
from collections.abc import Collection, Container, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError, count_of, name_some
from bayes_asr.base.files import is_there, real_path, replacing, together
from bayes_asr.base.places import refuse_others, refuse_replacing
from bayes_asr.base.programs import open_pipe
from bayes_asr.cli.alignment_arguments import (
    add_alignment_arguments,
    choose_options,
    find_lang,
)
from bayes_asr.cli.arguments import channel, processes, refuse_useless
from bayes_asr.cli.sharing import add_set_arguments, gather_streams
from bayes_asr.data.sound.audio import be_silent, bring_to_rate
from bayes_asr.data.sound.long import LongSound
from bayes_asr.decode.align.pronunciation import score_run
from bayes_asr.decode.align.transcripts import TranscriptSource
from bayes_asr.decode.align.utterance_scorer import ScoredUtterance
from bayes_asr.decode.align_files import read_lines
from bayes_asr.decode.forward.directory import StreamSource
from bayes_asr.decode.score_files import score_file
from bayes_asr.decode.speakers import recording_name
from bayes_asr.evaluate.report.pronunciation import FindSounds, write_pronunciation_page
from bayes_asr.evaluate.report.sounds import RATE, iter_sounds
from bayes_asr.kaldi_io.ark import write_matrices
from bayes_asr.kaldi_io.side_files import read_json
from bayes_asr.kaldi_io.text import write_lines

FILES = ("gop.txt", "gop.json", "features.ark", "features.scp", "pronunciation.html")
OF_SETS = ("nj", "stream", "max_skipped", "allow_pipes", "sound")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("run", type=Path, metavar="RUN", help="run that scores")
    parser.add_argument(
        "file", nargs="?", type=Path, metavar="FILE", help="sound in which --text is spoken"
    )
    add_set_arguments(parser, "pronunciation", "alignments", required=False)
    add_alignment_arguments(parser)
    parser.add_argument(
        "--text",
        type=Path,
        help="transcripts (default: text of the data); of FILE: a file of its words",
    )
    parser.add_argument(
        "--channel",
        type=channel,
        metavar="N",
        help="of FILE, counted from 0, or `mean` (default: the first, with a warning)",
    )
    parser.add_argument(
        "--sound",
        type=Path,
        metavar="DATA",
        help="data directory with wav.scp, for spectrograms (default: --data, where it has one)",
    )
    parser.add_argument("--nj", type=processes, help="processes; default 1")
    parser.add_argument("--json", action="store_true", help="print scores as JSON")


def run(args: argparse.Namespace) -> None:
    """Write gop.txt, gop.json, features.{ark,scp} and pronunciation.html; print the lowest."""
    if (args.file is not None) + (args.data is not None) + (args.on is not None) != 1:
        raise InputError("give the utterances: --on SET or --data DIR, or FILE with --text TEXT")
    name = args.on or (args.file and recording_name(args.file)) or real_path(args.data).name
    out = args.out or args.run / f"pronunciation_{name}"
    scored, find_sounds = _score_file(args, out) if args.file else _score_set(args, out)
    file = {"file": str(real_path(args.file))} if args.file else {}
    described = [utterance.describe() | file for utterance in scored]
    with together(out):
        write_lines(_list_phones(scored), out / "gop.txt")
        features = ((u.utt, u.scores.features.astype(np.float32)) for u in scored)
        write_matrices(features, out / "features.ark", out / "features.scp")
        with replacing(out / "gop.json") as temporary:
            temporary.write_text(json.dumps(described) + "\n", encoding="utf-8")
        command = shlex.join(["bayes-asr", *args.words])
        write_pronunciation_page(described, out, command, find_sounds)
    if args.json:
        print(json.dumps([{k: v for k, v in u.items() if k != "words"} for u in described]))
        return
    lowest = sorted(described, key=lambda u: u["gop"])
    names = name_some([f"{u['utterance']} ({u['gop']:.2f})" for u in lowest])
    mean = np.mean([u["gop"] for u in described])
    number = count_of(len(described), "utterance")
    print(f"{out}: {number}, mean goodness {mean:.2f}; the lowest: {names}")


def _check_place(
    args: argparse.Namespace, out: Path, utterances: Container[str], sound: Path
) -> None:
    """InputError where scores of other utterances than those of `sound` would be replaced in a
    folder that the user has not named, or files beside an input.
    """
    if not args.out:
        refuse_others(out / "gop.txt", utterances, str(sound))
        if args.file:
            _refuse_namesake(out / "gop.json", args.file)
    if not args.force:
        refuse_replacing([out / name for name in FILES], [sound, *filter(None, [args.text])])


def _refuse_namesake(scores: Path, file: Path) -> None:
    """InputError where scores are of a file of this name in another folder, and it is still there.

    Scores of earlier versions do not say of which file they are.
    """
    try:
        other = read_json(scores)[0]["file"]
        is_other = not os.path.samefile(other, file)
    except (OSError, InputError, LookupError, TypeError, ValueError):  # none, or none that tell
        return
    if is_other:
        raise InputError(f"{scores}: of {other}, not of {file}; name a folder for each by --out")


def _score_set(args: argparse.Namespace, out: Path) -> tuple[list[ScoredUtterance], FindSounds]:
    """Score a set of the run or a data directory; find sounds in the folder that has them."""
    if args.channel is not None:
        raise InputError("--channel goes with FILE")
    streams, on = gather_streams(args), args.on or ""
    pipes = open_pipe if args.allow_pipes else None
    source = StreamSource(args.data, streams, on, args.max_skipped, pipes)
    transcripts = TranscriptSource(find_lang(args), args.oov, args.text)
    options, nj = choose_options(args), args.nj or 1
    check_place = partial(_check_place, args, out)
    scored = [*score_run(args.run, source, transcripts, options, check_place, nj)]
    if not scored:
        raise InputError(f"{args.data or args.on}: has no utterances to score")
    sound = args.sound
    if sound is None and args.data and is_there(args.data / "wav.scp"):
        sound = args.data
    return scored, partial(iter_sounds, sound) if sound else lambda _: ()


def _score_file(args: argparse.Namespace, out: Path) -> tuple[list[ScoredUtterance], FindSounds]:
    """Score a file with its text; its sound is at hand."""
    refuse_useless(args, "FILE, which is one", OF_SETS)
    if args.text is None:
        raise InputError(f"{args.file}: give its words, --text FILE")
    _check_place(args, out, [recording_name(args.file)], args.file)
    words = [word for line in read_lines(args.text) for word in line]
    sound = LongSound.open(str(args.file), args.channel)
    transcripts = TranscriptSource(find_lang(args), args.oov, args.text)
    options = choose_options(args)
    scored = score_file(args.run, sound, words, transcripts, options)

    def find_sounds(utterances: Collection[str]) -> Iterator[tuple[str, np.ndarray]]:
        for utt in utterances:
            yield utt, bring_to_rate(sound.read(), sound.rate, RATE, utt, be_silent)

    return [scored], find_sounds


def _list_phones(scored: Sequence[ScoredUtterance]) -> Iterator[str]:
    """`utterance index phone goodness`, indices counted from 0 as by Kaldi."""
    for utterance in scored:
        scores = utterance.scores
        for index, (phone, gop) in enumerate(zip(scores.phone, scores.gop, strict=True)):
            yield f"{utterance.utt} {index} {scores.names[phone]} {gop:.4f}"
