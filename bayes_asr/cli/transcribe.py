"""bayes-asr transcribe: words or phones with times from sound files."""

import argparse
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from bayes_asr.base.errors import InputError, name_some, printable
from bayes_asr.base.log import LOGGER
from bayes_asr.base.places import refuse_replacing, refuse_unwritable
from bayes_asr.cli.arguments import channel, lm_weight, penalty
from bayes_asr.data.sound.audio import STDIN
from bayes_asr.data.sound.containers import KINDS
from bayes_asr.data.sound.online import iter_until_interrupt, read_pipe
from bayes_asr.decode.lattices.ctm import name_channel
from bayes_asr.decode.live import FinalResult, PartialResult, open_live
from bayes_asr.decode.packed import unpacked
from bayes_asr.decode.recognise import RecogniserOptions
from bayes_asr.decode.segments import SEGMENTERS
from bayes_asr.decode.speakers import recording_name
from bayes_asr.decode.subtitles import Format, make_cues, write_subtitles
from bayes_asr.decode.transcribe import Transcript, transcribe
from bayes_asr.kaldi_io.text import write_lines

PIECE = 0.1  # seconds of sound between two looks at the best path
OF_FILES = ("channel", "one_speaker", "segments", "ctm", "rttm", "srt", "vtt", "force")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument(
        "run",
        type=Path,
        metavar="RUN",
        help="run that was trained and scored, or an archive of it",
    )
    parser.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help=f"sound: {', '.join(KINDS)}; - for standard input",
    )
    parser.add_argument(
        "--channel",
        type=channel,
        metavar="N",
        help="of several, counted from 0, or `mean` (default: the first, with a warning)",
    )
    parser.add_argument(
        "--one-speaker",
        action="store_true",
        help="normalise over and adapt to all files together, where the run does so by speaker",
    )
    parser.add_argument("--lmwt", type=lm_weight, help="LM weight; default: that chosen on dev")
    parser.add_argument(
        "--wip",
        type=penalty,
        help="insertion penalty with --lmwt; default 0",
    )
    parser.add_argument("--graph", type=Path, metavar="DIR", help="instead of the run's own")
    parser.add_argument(
        "--segments",
        choices=SEGMENTERS,
        help="find speech by silero-vad or by the network's silence, or take each file as a whole"
        " (default: by the network, of more than a minute or with three seconds of silence)",
    )
    parser.add_argument("--ctm", type=Path, metavar="OUT", help="write a CTM as well")
    parser.add_argument("--rttm", type=Path, metavar="OUT", help="write the segments of speech too")
    parser.add_argument("--srt", type=Path, metavar="DIR", help="write subtitles of each file")
    parser.add_argument("--vtt", type=Path, metavar="DIR", help="the same as WebVTT")
    parser.add_argument("--force", action="store_true", help="replace such files beside the sound")
    parser.add_argument(
        "--hotwords", type=Path, metavar="FILE", help="words and phrases to prefer, one a line"
    )
    _add_live_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def _add_live_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of words while one speaks."""
    parser.add_argument(
        "--live",
        action="store_true",
        help="with - as FILE: hear a pipe of samples, int16 in one channel, and print words as they"
        " are spoken; for networks that read forwards only",
    )
    parser.add_argument(
        "--speaker",
        type=Path,
        metavar="FILE",
        help="with --live: a recording of whoever will speak, over which to normalise",
    )


def run(args: argparse.Namespace) -> None:
    """Print each file as it is done, and below it its words with begin, end and confidence.

    A file in which nothing can be heard is named in its turn; the end is then an error.
    """
    if args.wip is not None and args.lmwt is None:
        raise InputError("--wip goes with --lmwt: dev chose its LM weight with another penalty")
    if args.ctm or args.rttm or args.srt or args.vtt:
        _check_recordings(args.files)
    refuse_unwritable(vars(args), files=("ctm", "rttm"), folders=("srt", "vtt"))
    if not args.force:
        subtitles = [path for file in args.files for _, path in _list_subtitles(args, file)]
        refuse_replacing([*filter(None, (args.ctm, args.rttm)), *subtitles], args.files)
    # Without weights the run's own are taken, which dev has picked.
    weights = None if args.lmwt is None else (args.lmwt, args.wip or 0.0)
    options = RecogniserOptions(args.graph, weights, args.hotwords)
    if args.live or args.speaker:
        _listen(args, options)
        return
    transcripts: list[Transcript] = []
    try:
        for result in _transcribe(args, options):
            if isinstance(result, InputError):
                LOGGER.error("%s", result)
            else:
                transcripts.append(result)
                if not args.json:
                    _print_words(result)
                _write_subtitles(args, result)
    except BaseException:
        # What Ctrl-C or a full disk ends has its words all the same.
        if transcripts:
            _write_tables(args, transcripts)
            LOGGER.warning("ended after %d of %d files", len(transcripts), len(args.files))
        raise
    _write_tables(args, transcripts)
    if silent := len(args.files) - len(transcripts):
        complete = "; the others are complete" if transcripts else ""
        raise InputError(
            f"nothing was heard in {silent} of {len(args.files)} files, named above{complete}"
        )
    unheard = [transcript.file for transcript in transcripts if transcript.unheard]
    if unheard:
        raise InputError(
            f"nothing was recognised in some segments of {name_some(unheard)}, named above; the"
            " others are complete"
        )


def _transcribe(
    args: argparse.Namespace, options: RecogniserOptions
) -> Iterator[Transcript | InputError]:
    with unpacked(args.run) as run:
        yield from transcribe(
            run,
            args.files,
            options,
            channel=args.channel,
            one_speaker=args.one_speaker,
            segmenter=args.segments,
        )


def _listen(args: argparse.Namespace, options: RecogniserOptions) -> None:
    """Print the words of standard input as they are spoken; Ctrl-C ends the sound."""
    if not args.live or [*map(str, args.files)] != [STDIN]:
        raise InputError("hearing a pipe: bayes-asr transcribe RUN - --live")
    strangers = [name for name in OF_FILES if vars(args)[name]]
    if strangers:
        raise InputError(f"--{strangers[0].replace('_', '-')}: of files, not of --live")
    with unpacked(args.run) as run_directory:
        listener = open_live(run_directory, args.speaker, options)
        LOGGER.info("hearing samples of int16 at %d Hz, one channel", listener.rate)
        show = _show_json if args.json else _show_words
        pieces = read_pipe(sys.stdin.buffer, listener.rate, PIECE)
        for samples in iter_until_interrupt(pieces):
            show(listener.push(samples))
        show(listener.finish())


def _show_json(news: PartialResult | FinalResult) -> None:
    print(json.dumps(asdict(news)), flush=True)


def _show_words(news: PartialResult | FinalResult) -> None:
    """On a terminal a line that grows, its open words in brackets; elsewhere what is over alone."""
    if isinstance(news, FinalResult):
        words = " ".join(word.word for word in news.words)
        line = printable(f"{news.begin:9.2f} {news.end:7.2f}  {words}")
        start = "\r\033[K" if sys.stdout.isatty() else ""
        print(start + line if news.words else start, end="\n" if news.words else "", flush=True)
    elif sys.stdout.isatty():
        line = printable(" ".join([*news.settled, *(f"[{word}]" for word in news.open)]))
        # The end of a long line is what is new.
        print(f"\r\033[K{line[1 - shutil.get_terminal_size().columns :]}", end="", flush=True)


def _list_subtitles(args: argparse.Namespace, file: Path) -> Iterator[tuple[Format, Path]]:
    forms: dict[Format, Path | None] = {"srt": args.srt, "vtt": args.vtt}
    for form, folder in forms.items():
        if folder:
            yield form, folder / f"{recording_name(file)}.{form}"


def _write_subtitles(args: argparse.Namespace, transcript: Transcript) -> None:
    for form, path in _list_subtitles(args, Path(transcript.file)):
        write_subtitles(make_cues(transcript.words, transcript.seconds), path, form)


def _write_tables(args: argparse.Namespace, transcripts: list[Transcript]) -> None:
    """Print, or write, what has lines of all files."""
    if args.json:
        print(json.dumps([asdict(transcript) for transcript in transcripts]), flush=True)
    if args.ctm:
        write_lines(_format_ctm(transcripts, name_channel(args.channel)), args.ctm)
    if args.rttm:
        write_lines(_format_rttm(transcripts, name_channel(args.channel)), args.rttm)


def _print_words(transcript: Transcript) -> None:
    lines = [f"{transcript.file}: {' '.join(word.word for word in transcript.words)}"]
    lines += [
        f"{word.start:9.2f} {word.end:7.2f}  {word.word} ({word.confidence:.2f})"
        for word in transcript.words
    ]
    print("\n".join(map(printable, lines)), flush=True)


def _check_recordings(files: list[Path]) -> None:
    """Files of results tell recordings apart by their names alone."""
    by_name: dict[str, Path] = {}
    for file in files:
        namesake = by_name.setdefault(recording_name(file), file)
        if namesake is not file:
            raise InputError(
                f"{namesake} and {file} are both {recording_name(file)} in a CTM or RTTM; rename"
                " one, or transcribe them one by one"
            )


def _format_rttm(transcripts: list[Transcript], channel: str) -> Iterator[str]:
    """`SPEAKER recording channel begin duration ...` of NIST's RTTM, one line for each segment."""
    for transcript in transcripts:
        name = recording_name(Path(transcript.file))
        for begin, end in transcript.segments:
            length = end - begin
            yield f"SPEAKER {name} {channel} {begin:.3f} {length:.3f} <NA> <NA> speech <NA> <NA>"


def _format_ctm(transcripts: list[Transcript], channel: str) -> Iterator[str]:
    """`recording channel begin duration word confidence`."""
    for transcript in transcripts:
        name = recording_name(Path(transcript.file))
        for word in transcript.words:
            length = word.end - word.start
            times = f"{word.start:.2f} {length:.2f}"
            yield f"{name} {channel} {times} {word.word} {word.confidence:.2f}"
