"""bayes-asr align: forced alignment with a trained network, or a first alignment without one."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from bayes_asr.base.errors import InputError, count_of, printable
from bayes_asr.base.log import LOGGER
from bayes_asr.base.places import refuse_others, refuse_replacing, refuse_unwritable
from bayes_asr.base.programs import open_pipe
from bayes_asr.cli.alignment_arguments import (
    add_alignment_arguments,
    choose_options,
    find_lang,
)
from bayes_asr.cli.arguments import channel, processes, refuse_useless, share
from bayes_asr.cli.sharing import (
    Inputs,
    add_sharing_arguments,
    add_stream_argument,
    gather_streams,
    list_inputs,
    sharing,
)
from bayes_asr.data.sound.long import LongSound
from bayes_asr.data.sound.recordings import MAX_SKIPPED
from bayes_asr.decode.align.data_dir import (
    DOUBTFUL,
    AlignmentFolders,
    AlignSummary,
    align_flat_start,
    align_run,
)
from bayes_asr.decode.align.textgrid import load_library, name_textgrid, refuse_other_length
from bayes_asr.decode.align.timed_files import list_files
from bayes_asr.decode.align.transcripts import TranscriptSource
from bayes_asr.decode.align_files import AlignedFile, align_file, read_lines
from bayes_asr.decode.forward.directory import StreamSource
from bayes_asr.decode.long_report import LongReport, list_report, refuse_data_directory
from bayes_asr.decode.segments import SEGMENTERS, choose_segmenter
from bayes_asr.decode.speakers import recording_name
from bayes_asr.train.runs.configuration import read_configuration
from bayes_asr.train.runs.run_model import locate_model

OF_A_RUN = ("acoustic_scale", "beam", "retry_beam", "nj")
OF_FILE = ("channel", "segments")
OF_SETS = ("cmd", "shard", "stream")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("run", nargs="?", type=Path, metavar="RUN", help="run that aligns")
    parser.add_argument(
        "file", nargs="?", type=Path, metavar="FILE", help="sound to align with the words of --text"
    )
    parser.add_argument(
        "--flat", action="store_true", help="without a run: all states of a transcript last equally"
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--on", choices=("train", "dev", "test"), help="a set of the run")
    which.add_argument("--data", type=Path, help="Kaldi data directory with feats.scp and text")
    add_stream_argument(parser)
    add_alignment_arguments(parser)
    parser.add_argument(
        "--text",
        type=Path,
        help="transcripts (default: text of the data); of FILE: a file of its words",
    )
    _add_file_arguments(parser)
    parser.add_argument(
        "--out", type=Path, help="alignment directory to write (default: that of --textgrid)"
    )
    parser.add_argument(
        "--textgrid",
        type=Path,
        metavar="DIR",
        help="write a TextGrid of each recording, for Praat and ELAN",
    )
    parser.add_argument(
        "--model",
        type=Path,
        help="with --flat: final.mdl, its tree beside it; default: three states a phone",
    )
    parser.add_argument("--nj", type=processes, help="processes, or jobs of --cmd; default 1")
    add_sharing_arguments(parser)
    parser.add_argument(
        "--max-skipped",
        type=share,
        metavar="SHARE",
        help="of the utterances may stay unaligned (default: data.max_skipped of the run, or 0.05)",
    )
    parser.add_argument("--allow-pipes", action="store_true", help="run commands in scp files")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")


def _add_file_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of a single file."""
    parser.add_argument(
        "--channel",
        type=channel,
        metavar="N",
        help="of FILE, counted from 0, or `mean` (default: the first, with a warning)",
    )
    parser.add_argument(
        "--segments",
        choices=SEGMENTERS,
        help="of FILE: as of transcribe; beyond a minute parts of the text may be missing or moved",
    )


def run(args: argparse.Namespace) -> None:
    """Align, and say how many utterances are aligned."""
    _check_place(args)
    if args.file:
        _align_file(args)
    elif args.flat:
        _align_flat(args)
    else:
        _align_set(args)


def _check_place(args: argparse.Namespace) -> None:
    """Refuse what does not say which utterances to align, by what and where to."""
    if args.flat and (args.run or args.on or args.lang is None):
        raise InputError("--flat takes --data DIR and --lang DIR, and no run")
    if not args.flat and (args.run is None or args.model):
        raise InputError("give the run to align with (--model goes with --flat)")
    if (args.file is not None) + (args.data is not None) + (args.on is not None) != 1:
        raise InputError("give the utterances: --on SET or --data DIR, or FILE with --text TEXT")
    if args.file and args.text is None:
        raise InputError(f"{args.file}: give its words, --text FILE")
    if not args.file:
        refuse_useless(args, "sets, only with FILE", OF_FILE)
    args.out = args.out or args.textgrid
    if not args.file and args.out is None:
        raise InputError("give a folder to write: --out DIR or --textgrid DIR")
    refuse_unwritable(vars(args), folders=("textgrid", "out"))


def _align_flat(args: argparse.Namespace) -> None:
    # An even alignment needs no network: whatever a search would take is refused, not ignored.
    useless = (*OF_A_RUN, *OF_SETS, "textgrid", "force")
    refuse_useless(args, "--flat, which does not search", useless)
    transcripts = TranscriptSource(args.lang, args.oov, args.text)
    limit = MAX_SKIPPED if args.max_skipped is None else args.max_skipped
    pipes = open_pipe if args.allow_pipes else None
    summary = align_flat_start(
        args.data, args.out, transcripts, args.model, max_skipped=limit, open_pipe=pipes
    )
    _print_summary(args, summary)


def _align_set(args: argparse.Namespace) -> None:
    pipes = open_pipe if args.allow_pipes else None
    streams, on = gather_streams(args), args.on or ""
    source = StreamSource(args.data, streams, on, args.max_skipped, pipes)
    with sharing(args, args.out, lambda: _list_inputs(args)) as mapper:
        transcripts = TranscriptSource(find_lang(args), args.oov, args.text)
        options, nj = choose_options(args), args.nj or 1
        folders = AlignmentFolders(args.out, args.textgrid, args.force)
        summary = align_run(args.run, folders, source, transcripts, options, nj, mapper)
        _print_summary(args, summary)


def _align_file(args: argparse.Namespace) -> None:
    refuse_useless(args, "FILE, which is one", ("nj", *OF_SETS, "max_skipped", "allow_pipes"))
    if args.textgrid:
        load_library()  # before the work, not after it
    recording = recording_name(args.file)
    if args.out:
        refuse_others(args.out / "words.ctm", [recording], recording)
    lines, sound = read_lines(args.text), LongSound.open(str(args.file), args.channel)
    files = list_files(args.out, args.textgrid, [recording])
    if args.out:
        files += list_report(args.out)
        if choose_segmenter(sound, args.segments) != "none":
            refuse_data_directory(args.out)
    if not args.force:
        refuse_replacing(files, [args.file, args.text])
        if args.textgrid:
            refuse_other_length(args.textgrid / name_textgrid(recording), args.file, sound.seconds)
    aligned = align_file(
        args.run,
        sound,
        lines,
        TranscriptSource(find_lang(args), args.oov, args.text),
        choose_options(args),
        segmenter=args.segments,
    )
    report = aligned.parts and LongReport.of(aligned.parts, lines)
    if report and args.out:
        report.write(recording, args.file, lines, args.out, args.channel)
    outdated = list_report(args.out) if args.out and not report else []
    aligned.write(args.out, args.textgrid, outdated)
    if args.json:
        print(json.dumps(aligned.describe() | (asdict(report) if report else {})))
    elif report:
        print(*map(printable, report.summarise()), sep="\n")
    else:
        _print_words(aligned)
    confidence = aligned.timed.confidence  # of the words that were found
    if report and 2 * report.spoken < report.words:
        LOGGER.warning(
            "%s: text and sound disagree: %d of %d words are in the sound",
            *(args.file, report.spoken, report.words),
        )
    elif confidence < DOUBTFUL:
        LOGGER.warning(
            "%s: text and sound disagree: confidence below %g, it is %.2f",
            *(args.file, DOUBTFUL, confidence),
        )


def _print_words(aligned: AlignedFile) -> None:
    words = aligned.describe()["words"]
    print(printable(f"{aligned.file}: {' '.join(word['label'] for word in words)}"))
    for word in words:
        line = (
            f"{word['start']:9.2f} {word['end']:7.2f}  {word['label']} ({word['confidence']:.2f})"
        )
        print(printable(line))


def _list_inputs(args: argparse.Namespace) -> Inputs:
    lang = find_lang(args)
    model = locate_model(args.run, read_configuration(args.run))
    further = [
        model,
        model.parent / "tree",
        *sorted(lang.rglob("*.txt")),
        *filter(None, [args.text]),
    ]
    return list_inputs(args.run, args.data, args.on, further, gather_streams(args))


def _print_summary(args: argparse.Namespace, summary: AlignSummary) -> None:
    if args.json:
        print(json.dumps(asdict(summary)))
        return
    print(
        f"{args.out}: {summary.aligned} of {summary.utterances} utterances aligned,"
        f" {summary.frames} frames; {count_of(summary.retried, 'utterance')} needed the wider beam"
    )
    if summary.confidence is not None:
        print(f"mean confidence {summary.confidence:.2f}")
    if summary.doubtful:
        print(summary.describe_doubts())
