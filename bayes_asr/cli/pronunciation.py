"""bayes-asr pronunciation: how well the phones of a text are pronounced, by a run."""

import argparse
import json
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError, name_some
from bayes_asr.base.files import replacing, together
from bayes_asr.base.programs import open_pipe
from bayes_asr.cli.alignment_arguments import (
    add_alignment_arguments,
    choose_options,
    find_lang,
)
from bayes_asr.cli.arguments import processes
from bayes_asr.cli.sharing import add_set_arguments, gather_streams
from bayes_asr.decode.align.pronunciation import ScoredUtterance, score_run
from bayes_asr.decode.align.transcripts import TranscriptSource
from bayes_asr.decode.forward.directory import StreamSource
from bayes_asr.evaluate.report.pronunciation import write_pronunciation_page
from bayes_asr.kaldi_io.ark import write_matrices
from bayes_asr.kaldi_io.text import write_lines


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("run", type=Path, metavar="RUN", help="run that scores")
    add_set_arguments(parser, "pronunciation", "alignments")
    add_alignment_arguments(parser)
    parser.add_argument("--text", type=Path, help="transcripts; default: text of the data")
    parser.add_argument(
        "--sound",
        type=Path,
        metavar="DATA",
        help="data directory with wav.scp, for spectrograms (default: --data, where it has one)",
    )
    parser.add_argument("--nj", type=processes, default=1, help="processes (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print scores as JSON")


def run(args: argparse.Namespace) -> None:
    """Write gop.txt, gop.json, features.{ark,scp} and pronunciation.html; print the lowest."""
    streams, on = gather_streams(args), args.on or ""
    pipes = open_pipe if args.allow_pipes else None
    source = StreamSource(args.data, streams, on, args.max_skipped, pipes)
    transcripts = TranscriptSource(find_lang(args), args.oov, args.text)
    out = args.out or args.run / f"pronunciation_{args.on or args.data.resolve().name}"
    scored = list(score_run(args.run, source, transcripts, choose_options(args), args.nj))
    if not scored:
        raise InputError(f"{args.data or args.on}: has no utterances to score")
    sound = args.sound
    if sound is None and args.data and (args.data / "wav.scp").exists():
        sound = args.data
    described = [utterance.describe() for utterance in scored]
    with together(out):
        write_lines(_list_phones(scored), out / "gop.txt")
        features = ((u.utt, u.scores.features.astype(np.float32)) for u in scored)
        write_matrices(features, out / "features.ark", out / "features.scp")
        with replacing(out / "gop.json") as temporary:
            temporary.write_text(json.dumps(described) + "\n", encoding="utf-8")
        command = shlex.join(["bayes-asr", *args.words])
        write_pronunciation_page(described, out, command, sound)
    if args.json:
        print(json.dumps([{k: v for k, v in u.items() if k != "words"} for u in described]))
        return
    lowest = sorted(described, key=lambda u: u["gop"])
    names = name_some([f"{u['utterance']} ({u['gop']:.2f})" for u in lowest])
    mean = np.mean([u["gop"] for u in described])
    print(f"{out}: {len(described)} utterances, mean goodness {mean:.2f}; the lowest: {names}")


def _list_phones(scored: Sequence[ScoredUtterance]) -> Iterator[str]:
    """`utterance index phone goodness`, indices counted from 0 as by Kaldi."""
    for utterance in scored:
        scores = utterance.scores
        for index, (phone, gop) in enumerate(zip(scores.phone, scores.gop, strict=True)):
            yield f"{utterance.utt} {index} {scores.names[phone]} {gop:.4f}"
