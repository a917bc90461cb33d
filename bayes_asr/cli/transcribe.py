"""bayes-asr transcribe: words or phones with times from sound files."""

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from bayes_asr.tables.text import write_lines
from bayes_asr.transcribe import Transcript, transcribe


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("run", type=Path, metavar="RUN", help="run that was trained and scored")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="RIFF or NIST SPHERE")
    parser.add_argument(
        "--one-speaker",
        action="store_true",
        help="normalise over all files together, where the run normalises by speaker",
    )
    parser.add_argument("--lmwt", type=float, help="LM weight; default: that chosen on dev")
    parser.add_argument("--wip", type=float, default=0.0, help="insertion penalty, with --lmwt")
    parser.add_argument("--ctm", type=Path, metavar="OUT", help="write a CTM as well")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> None:
    """Print each file, and below it its words with begin, end and confidence."""
    weights = None if args.lmwt is None else (args.lmwt, args.wip)
    heard = transcribe(args.run, args.files, one_speaker=args.one_speaker, weights=weights)
    if args.ctm:
        write_lines(_ctm(heard), args.ctm)
    if args.json:
        print(json.dumps([asdict(one) for one in heard]))
        return
    for one in heard:
        print(f"{one.file}: {' '.join(word.word for word in one.words)}")
        for word in one.words:
            print(f"{word.start:9.2f} {word.end:7.2f}  {word.word} ({word.confidence:.2f})")


def _ctm(heard: list[Transcript]) -> Iterator[str]:
    """`file channel begin duration word confidence`; the file without folder, suffix, blanks."""
    for one in heard:
        for word in one.words:
            length = word.end - word.start
            name = "_".join(Path(one.file).stem.split())
            yield f"{name} 1 {word.start:.2f} {length:.2f} {word.word} {word.confidence:.2f}"
