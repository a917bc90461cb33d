"""Forced alignment of a data directory: by a trained network, or at equal lengths to begin with."""

import json
import math
import shutil
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from bayes_asr.base.errors import InputError, count_of, name_some
from bayes_asr.base.files import discard, is_there, real_path, replacing, settle, together
from bayes_asr.base.lock import alone_in
from bayes_asr.base.log import LOGGER
from bayes_asr.base.places import refuse_foreign, refuse_read, refuse_replacing
from bayes_asr.base.processes.pool import map_utterances
from bayes_asr.base.programs import open_pipe
from bayes_asr.base.shards import Mapper
from bayes_asr.data.corpus.labelled import Features
from bayes_asr.data.features.front_end import FEATURES, FrontEnd
from bayes_asr.data.features.skipped import report_lacking, report_skipped
from bayes_asr.data.sound.recordings import MAX_SKIPPED
from bayes_asr.data.sound.spectrum import FRAME_LENGTH, FRAME_SHIFT
from bayes_asr.decode.align.best_path import Alignment, AlignOptions, Result
from bayes_asr.decode.align.pronouncer import Pronouncer, align_equal
from bayes_asr.decode.align.spelling import open_transcripts
from bayes_asr.decode.align.textgrid import TextGrids
from bayes_asr.decode.align.timed_files import TimedFiles, list_files
from bayes_asr.decode.align.timing_aligner import align_item
from bayes_asr.decode.align.transcripts import (
    LIMIT,
    PronouncerFiles,
    TranscriptSource,
    read_pronouncer,
)
from bayes_asr.decode.forward.directory import (
    StreamSource,
    choose_limit,
    find_streams,
    log_likelihoods,
    open_streams,
    share_log_likelihoods,
)
from bayes_asr.decode.forward.log_likelihoods import load
from bayes_asr.decode.graph.lang import build_monophones, find_phones_file, read_lang
from bayes_asr.decode.lattices.ctm import read_files_and_channels, read_places
from bayes_asr.decode.search.utterance import choose_engine
from bayes_asr.kaldi_io.ark import read_scp
from bayes_asr.kaldi_io.byte_reader import OpenPipe, parse_real
from bayes_asr.kaldi_io.data_dir import read_data_dir
from bayes_asr.kaldi_io.integers import write_int_vectors
from bayes_asr.kaldi_io.mdl import write_transition_model
from bayes_asr.kaldi_io.rxfilename import list_archives
from bayes_asr.kaldi_io.segments import read_segments
from bayes_asr.kaldi_io.text import DataDir, read_mapping, write_lines, write_mapping
from bayes_asr.kaldi_io.tree import write_tree
from bayes_asr.nn.frames import describe_stride
from bayes_asr.train.runs.configuration import read_configuration
from bayes_asr.train.runs.run_model import locate_model

DOUBTFUL = 0.6  # confidence below which text and sound disagree
ALIGNMENTS, MARK = "ali.1.gz", "align.json"
MODEL_FILES = ("final.mdl", "tree", "phones.txt")


@dataclass
class AlignSummary:
    """Counts of an aligned data directory, and the utterances that could not be aligned."""

    utterances: int
    aligned: int = 0
    retried: int = 0
    frames: int = 0
    failed: list[str] = field(default_factory=list)
    confidence: float | None = None
    """The mean of the utterances; None where nothing was searched."""
    doubtful: dict[str, float] = field(default_factory=dict)
    """The confidence of utterances whose text and sound disagree, the lowest first."""

    def rate(self, confidences: Mapping[str, float]) -> None:
        """Take the confidence of each aligned utterance."""
        self.confidence = float(np.mean([*confidences.values()])) if confidences else None
        ranked = sorted(confidences.items(), key=lambda item: item[1])
        self.doubtful = {utt: value for utt, value in ranked if value < DOUBTFUL}

    def describe_doubts(self) -> str:
        """The utterances whose text and sound disagree; of most, what may be the cause."""
        names = name_some([f"{utt} ({value:.2f})" for utt, value in self.doubtful.items()])
        if 2 * len(self.doubtful) > self.aligned:
            return (
                f"{len(self.doubtful)} of {self.aligned} utterances have a confidence below"
                f" {DOUBTFUL:g}: the texts are of other utterances, or the network knows too"
                f" little of this speech; listen to the lowest beside their texts: {names}"
            )
        doubtful = count_of(len(self.doubtful), "utterance")
        return f"text and sound of {doubtful} disagree (confidence below {DOUBTFUL:g}): {names}"


@dataclass(frozen=True)
class AlignmentFolders:
    """The folder of alignments and CTMs, and that of TextGrids, if any.

    force: files are replaced even beside data, sound or text.
    """

    out: Path
    textgrid: Path | None = None
    force: bool = False


def align_run(
    run: Path,
    folders: AlignmentFolders,
    source: StreamSource,
    transcripts: TranscriptSource,
    options: AlignOptions,
    nj: int = 1,
    mapper: Mapper | None = None,
) -> AlignSummary:
    """Align a Kaldi directory, or a set of the run, by the network of `run`.

    Writes what `data.SET.alignments` can name: ali.1.gz, final.mdl, tree, phones.txt, the model and
    tree those of the run's training alignments, and align.json, the record of how it was made;
    words.ctm and phones.ctm with confidences, and confidence.txt, that of each utterance; and
    TextGrids. Utterances that cannot be aligned are counted and named, with the reason; InputError
    if they are a larger share than `source.max_skipped`, and for files to replace that no align
    wrote, or beside data, sound or text unless forced. mapper: for shards; None for here, in `nj`.
    """
    out = folders.out
    _refuse_foreign_files(out)
    model = locate_model(run, read_configuration(run))
    if real_path(out) == real_path(model.parent):
        raise InputError(f"{out}: holds the alignments that the run was trained on; choose another")
    network, limit = load(run), choose_limit(run, source.max_skipped)
    directories = find_streams(run, [network], source)
    directory = directories[FEATURES]
    words, pronouncer_files = open_transcripts(directory, transcripts, model)
    if (stride := network.model.output_stride) > 1:
        LOGGER.warning(
            "%s: alignments are of %s, as the outputs of %s: take them for times, not for training",
            *(out, describe_stride(stride), run),
        )
    timed_files = _open_timed_files(folders, directory, transcripts.text, FRAME_SHIFT * stride)
    _check_textgrids(timed_files.textgrids, directory.path / "segments", words)
    # Other processes get files and names: a pronouncer is read once in each.
    align = partial(align_item, pronouncer_files, options, choose_engine().name, stride)
    limits = (limit, source.open_pipe, LIMIT)
    if mapper:
        features = open_streams(run, network, directories, *limits)
        results = share_log_likelihoods(
            mapper, network, features, lambda utt, x: align(utt, (words.get(utt), x))
        )
    else:
        loglikes = log_likelihoods(run, network, directories, *limits)
        results = map_utterances(align, ((u, (words.get(u), x)) for u, x in loglikes), nj)
    rates = timed_files.confidences  # complete when all results have passed
    timed = timed_files.collect(results)
    summary = _write(timed, directory, pronouncer_files, out, limit, str(run), rates)
    timed_files.write_textgrids()  # in a folder of their own, so not before it is sure what stays
    return summary


def _open_timed_files(
    folders: AlignmentFolders, data: DataDir, text: Path | None, frame_shift: float
) -> TimedFiles:
    """The files of timed words; InputError where one would be replaced beside an input."""
    out, places, grids = folders.out, read_places(data.path), None
    if folders.textgrid:
        alone = places is None
        seconds = read_seconds(data.path / "utt2dur") if alone else _read_durations(data.path)
        grids = TextGrids(folders.textgrid, frame_shift, data.utt2spk, places, seconds)
    if not folders.force:
        files = list_files(out, folders.textgrid, grids.recordings if grids else ())
        refuse_replacing(files, _iter_inputs(data.path, text))
    return TimedFiles(out, frame_shift, places, grids)


def _check_textgrids(grids: TextGrids | None, segments: Path, utts: Container[str]) -> None:
    """InputError where utterances would not go into one tier, before any is aligned."""
    if grids:
        places = read_segments(segments) if is_there(segments) else ()
        grids.check({utt: end for utt, *_, end in places if utt in utts}, FRAME_LENGTH)


def _iter_inputs(data: Path, text: Path | None) -> Iterator[Path]:
    """Yield a data directory, the text, and the folders of the sounds; commands are not run."""
    yield from (data, *filter(None, [text]))
    if is_there(data / "wav.scp"):
        with suppress(InputError):  # nothing else reads it here
            sounds = list_archives(read_scp(data / "wav.scp", open_pipe=open_pipe).values())
            yield from {path.parent for path in sounds}


def _read_durations(data: Path) -> dict[str, float]:
    """Durations of recordings, by the names that `read_places` gives them."""
    files = read_files_and_channels(data) or {}
    seconds = read_seconds(data / "reco2dur")
    return {files.get(name, (name, ""))[0]: length for name, length in seconds.items()}


def read_seconds(path: Path) -> dict[str, float]:
    """Durations by name; none without the file."""
    table = read_mapping(path) if is_there(path) else {}
    return {name: _parse_seconds(text, name, path) for name, text in table.items()}


def _parse_seconds(text: str, name: str, path: Path) -> float:
    try:
        seconds = parse_real(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise InputError(
            f"{path}: {name} lasts {text!r}, not a number of seconds; correct it, or remove the"
            " file, which need not be there"
        )
    return seconds


def align_flat_start(
    data: Path,
    out: Path,
    transcripts: TranscriptSource,
    model: Path | None = None,
    *,
    max_skipped: float = MAX_SKIPPED,
    open_pipe: OpenPipe | None = None,
) -> AlignSummary:
    """Align the Kaldi directory `data` at equal lengths of all states of a transcript.

    The units are those of `model` (final.mdl, its tree beside it), or else three states for every
    phone of `transcripts.lang`. Writes the same files as `align_run`, but not into its folder.
    """
    _refuse_foreign_files(out)
    refuse_read(out, [model.parent] if model else [])
    directory = read_data_dir(data, open_pipe=open_pipe)
    features = Features(directory, FrontEnd(), open_pipe=open_pipe)
    report_lacking({FEATURES: directory}, max_skipped, LIMIT)
    with TemporaryDirectory() as temporary:
        model = model or _write_monophones(transcripts.lang, Path(temporary))
        words, pronouncer_files = open_transcripts(directory, transcripts, model)
        pronouncer = read_pronouncer(*pronouncer_files)
        results = (
            _align_one_flat(utt, words.get(utt), len(features[utt]), pronouncer)
            for utt in features.utterances
        )
        return _write(results, directory, pronouncer_files, out, max_skipped, "equal lengths", {})


def _align_one_flat(
    utt: str, words: list[str] | None, frames: int, pronouncer: Pronouncer
) -> Result:
    try:
        if words is None:
            raise InputError("there is no transcript; write what is said into text")
        tids = align_equal(words, frames, pronouncer)
    except InputError as error:
        return utt, InputError(f"{utt}: {error}")
    return utt, Alignment(tids, 0.0, False)


def _write_monophones(lang: Path, out: Path) -> Path:
    """Write final.mdl, tree and phones.txt of a model without context; returns final.mdl."""
    phones, model, tree = build_monophones(lang, read_lang(lang).lexicon)
    write_mapping(phones.items(), out / "phones.txt")
    write_tree(tree, out / "tree")
    write_transition_model(model, out / "final.mdl")
    return out / "final.mdl"


def _refuse_foreign_files(out: Path) -> None:
    """Models and alignments that are not ours stay as they are."""
    # align.json marks a folder of ours: there only ali.1.gz and the model may be replaced.
    settle(out)
    alignments = {path.name for path in out.glob("ali.*.gz")}
    ours = (out / MARK).exists()
    foreign = alignments - {ALIGNMENTS} if ours else alignments.union(MODEL_FILES)
    refuse_foreign(out, foreign, "align")


def _write(
    results: Iterable[Result],
    data: DataDir,
    pronouncer_files: PronouncerFiles,
    out: Path,
    max_skipped: float,
    aligner: str,
    confidences: Mapping[str, float],
) -> AlignSummary:
    """Write the alignment directory `out`; nothing of it if more than `max_skipped` fail."""
    summary = AlignSummary(len(data.utt2spk))

    def sift() -> Iterator[tuple[str, np.ndarray]]:
        for utt, result in results:
            if isinstance(result, InputError):
                LOGGER.warning("not aligned: %s", result)
                summary.failed.append(utt)
                continue
            summary.aligned += 1
            summary.retried += result.retried
            summary.frames += len(result.transition_ids)
            yield utt, result.transition_ids
        # Raised inside `together`: too many failures leave the folder as it was.
        why = f"no alignment of {data.path}"
        report_skipped(why, summary.failed, summary.utterances, max_skipped, LIMIT)
        summary.rate(confidences)

    # Model, tree and phone table go beside the alignments, whose transition-ids mean nothing alone.
    lang, model, *_ = pronouncer_files
    copies = (model, model.parent / "tree", find_phones_file(lang, model))
    with alone_in(out), together(out):
        for path in list_files(out, None, ()) if is_there(out / MARK) else ():
            discard(path)  # of an earlier alignment; those of this one come with the results
        write_int_vectors(sift(), out / ALIGNMENTS)
        for path, name in zip(copies, MODEL_FILES, strict=True):
            with replacing(out / name) as temporary:
                shutil.copyfile(path, temporary)
        record = {"by": aligner, "data": str(data.path), **asdict(summary)}
        write_lines([json.dumps(record)], out / MARK)
    return summary
