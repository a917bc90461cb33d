"""Forced alignment of a data directory: by a trained network, or at equal lengths to begin with."""

import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from bayes_asr.base.errors import InputError, name_some
from bayes_asr.base.files import replacing, settle, together
from bayes_asr.base.lock import alone_in
from bayes_asr.base.log import LOGGER
from bayes_asr.base.processes.pool import map_utterances
from bayes_asr.base.shards import Mapper
from bayes_asr.data.directories import locate
from bayes_asr.data.features.front_end import FEATURES, FrontEnd
from bayes_asr.data.features.stored import Features
from bayes_asr.data.features.streams import report_lacking, report_skipped
from bayes_asr.data.sound.spectrum import MAX_SKIPPED
from bayes_asr.decode.align.best_path import Alignment, AlignOptions, Result
from bayes_asr.decode.align.transcript import Speech, align_evenly, read_speech
from bayes_asr.decode.align.utterance import Source, align_one
from bayes_asr.decode.forward.directory import (
    choose_limit,
    find_streams,
    log_likelihoods,
    open_streams,
    share_log_likelihoods,
)
from bayes_asr.decode.forward.log_likelihoods import load
from bayes_asr.decode.graph.lang import build_monophones, find_phones_file, read_lang
from bayes_asr.decode.search.embedded import choose_engine
from bayes_asr.kaldi_io.binary import OpenPipe
from bayes_asr.kaldi_io.integers import write_int_vectors
from bayes_asr.kaldi_io.mdl import write_transition_model
from bayes_asr.kaldi_io.text import DataDir, read_data_dir, read_text, write_mapping
from bayes_asr.kaldi_io.tree import write_tree
from bayes_asr.tasks.task import task_of
from bayes_asr.train.runs.configuration import read_configuration

LIMIT = "--max-skipped"
ALIGNMENTS, MARK = "ali.1.gz", "align.json"
MODEL_FILES = ("final.mdl", "tree", "phones.txt")


@dataclass
class AlignSummary:
    """How a data directory was aligned, and which utterances could not be."""

    utterances: int
    aligned: int = 0
    retried: int = 0
    frames: int = 0
    failed: list[str] = field(default_factory=list)


def align_run(
    run: Path,
    out: Path,
    *,
    data: Path | None = None,
    streams: Mapping[str, Path] | None = None,
    on: str | None = None,
    lang: Path | None = None,
    unknown: str | None = None,
    text: Path | None = None,
    acoustic_scale: float | None = None,
    beam: float = AlignOptions.beam,
    retry_beam: float = AlignOptions.retry_beam,
    nj: int = 1,
    max_skipped: float | None = None,
    open_pipe: OpenPipe | None = None,
    way: Mapper | None = None,
) -> AlignSummary:
    """Align the Kaldi directory `data`, or the run's own set `on`, by the network of `run`.

    streams: the directories of further streams beside `data`, by name.
    Writes what `data.SET.alignments` can name: `out`/{ali.1.gz,final.mdl,tree,phones.txt}, the
    model and tree those of the run's training alignments, and align.json, which tells how it was
    made. `lang` is by default the run's graph, the acoustic scale that of its decoding, `text` that
    of the directory. Utterances that cannot be aligned are counted and named, with the reason;
    InputError if they are a larger share than `max_skipped`, by default data.max_skipped of the
    run, and where `out` holds such files that no align wrote. way: how shards are computed; None
    for here, in `nj` processes.
    """
    _refuse_others(out)
    config = read_configuration(run)
    model = task_of(config).locate_model()
    if out.resolve() == model.parent.resolve():
        raise InputError(f"{out}: holds the alignments that the run was trained on; choose another")
    source = (lang or locate(config.data.graph, config.data, "words"), model, unknown)
    scale = config.decode.acoustic_scale if acoustic_scale is None else acoustic_scale
    limit = choose_limit(run, max_skipped)
    network, limits = load(run), (limit, open_pipe, LIMIT)
    directories = find_streams(run, [network], data, streams or {}, on or "train", open_pipe)
    directory = directories[FEATURES]
    transcripts = _read_transcripts(directory, text, read_speech(*source))
    options = AlignOptions(scale, beam, retry_beam)
    aligning = partial(align_one, source, options, choose_engine().name)
    if way:
        features = open_streams(network, directories, *limits)
        results = share_log_likelihoods(
            way, network, features, lambda utt, x: aligning(utt, (transcripts.get(utt), x))
        )
    else:
        loglikes = log_likelihoods(network, directories, *limits)
        results = map_utterances(aligning, ((u, (transcripts.get(u), x)) for u, x in loglikes), nj)
    return _write(results, directory, source, out, limit, str(run))


def align_flat(
    data: Path,
    lang: Path,
    out: Path,
    model: Path | None = None,
    unknown: str | None = None,
    text: Path | None = None,
    max_skipped: float = MAX_SKIPPED,
    open_pipe: OpenPipe | None = None,
) -> AlignSummary:
    """Give every state of a transcript as many frames as the others: what training can start from.

    Without a `model` one is made of three states a phone, each with a pdf of its own. Files and
    faults are those of `align_run`.
    """
    _refuse_others(out)
    directory = read_data_dir(data, open_pipe=open_pipe)
    features = Features(directory, FrontEnd(), open_pipe=open_pipe)
    report_lacking({FEATURES: directory}, max_skipped, LIMIT)
    with TemporaryDirectory() as made:
        source = (lang, model or _write_monophones(lang, Path(made)), unknown)
        speech = read_speech(*source)
        transcripts = _read_transcripts(directory, text, speech)
        results = (
            _align_one_flat(utt, transcripts.get(utt), len(features[utt]), speech)
            for utt in features.utterances
        )
        return _write(results, directory, source, out, max_skipped, "equal lengths")


def _align_one_flat(utt: str, words: list[str] | None, frames: int, speech: Speech) -> Result:
    try:
        if words is None:
            raise InputError("there is no transcript")
        tids = align_evenly(words, frames, speech)
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


def _read_transcripts(data: DataDir, text: Path | None, speech: Speech) -> dict[str, list[str]]:
    """The words of each utterance; those that the lexicon lacks are counted and named."""
    transcripts = read_text(text) if text else data.text
    if transcripts is None:
        raise InputError(f"{data.path / 'text'}: there are no transcripts to align")
    words = Counter(word for said in transcripts.values() for word in said)
    foreign = [word for word in words if word not in speech.pronunciations]
    if foreign and speech.lang.unknown:
        LOGGER.warning(
            "%s: %d of %d words are not in the lexicon and are aligned as %s: %s",
            *(text or data.path / "text", sum(words[word] for word in foreign), words.total()),
            *(speech.lang.unknown, name_some(foreign)),
        )
    return transcripts


def _refuse_others(out: Path) -> None:
    """Models and alignments that are not ours stay as they are."""
    settle(out)
    others = {path.name for path in out.glob("ali.*.gz")}
    if (out / MARK).exists():
        others -= {ALIGNMENTS}
    else:
        others |= {name for name in MODEL_FILES if (out / name).exists()}
    if others:
        raise InputError(
            f"{out}: holds {min(others)}, which bayes-asr align did not write; choose another"
            " folder, or remove what is there"
        )


def _write(
    results: Iterable[Result],
    data: DataDir,
    source: Source,
    out: Path,
    max_skipped: float,
    aligner: str,
) -> AlignSummary:
    """Write the alignment directory `out`; nothing of it if more than `limit` have failed."""
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
        why = f"no alignment of {data.path}"
        report_skipped(why, summary.failed, summary.utterances, max_skipped, LIMIT)

    lang, model, _ = source
    copies = (model, model.parent / "tree", find_phones_file(lang, model))
    with alone_in(out), together(out):
        write_int_vectors(sift(), out / ALIGNMENTS)
        for path, name in zip(copies, MODEL_FILES, strict=True):
            with replacing(out / name) as temporary:
                shutil.copyfile(path, temporary)
        made = {"by": aligner, "data": str(data.path), **asdict(summary)}
        with replacing(out / MARK) as temporary:
            temporary.write_text(json.dumps(made) + "\n", encoding="utf-8")
    return summary
