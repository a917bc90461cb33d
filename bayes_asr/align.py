"""Forced alignment of a data directory: by a trained network, or at equal lengths to begin with."""

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from bayes_asr.config import load as load_config
from bayes_asr.data.features import Features
from bayes_asr.data.marks import STATES
from bayes_asr.decode.align import Alignment, AlignOptions, Result, Source, align_one
from bayes_asr.decode.embedded import choose_engine
from bayes_asr.decode.lang import phones_file, read_lang, silence_phones
from bayes_asr.decode.ngram import EPSILON
from bayes_asr.decode.parallel import map_utterances
from bayes_asr.decode.transcript import Speech, flat_alignment, read_speech
from bayes_asr.errors import InputError
from bayes_asr.files import replacing
from bayes_asr.log import LOGGER
from bayes_asr.tables.ark import write_int_vectors
from bayes_asr.tables.mdl import monophone_model, write_transition_model
from bayes_asr.tables.reader import OpenPipe
from bayes_asr.tables.text import DataDir, read_data_dir, read_symbols, write_mapping
from bayes_asr.tables.tree import monophone_tree, write_tree
from bayes_asr.train.corpus import NAMED, data_dir, located, report_skipped
from bayes_asr.train.forward import load, log_likelihoods

MAX_SKIPPED = 0.05  # as data.max_skipped of conf/base.yaml, where there is no run to say it


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
    on: str | None = None,
    lang: Path | None = None,
    unknown: str | None = None,
    acoustic_scale: float | None = None,
    beam: float = AlignOptions.beam,
    retry_beam: float = AlignOptions.retry_beam,
    nj: int = 1,
    open_pipe: OpenPipe | None = None,
) -> AlignSummary:
    """Align the Kaldi directory `data`, or the run's own set `on`, by the network of `run`.

    Writes what `data.SET.alignments` can name: `out`/{ali.1.gz,final.mdl,tree,phones.txt}, the
    model and tree those of the run's training alignments. `lang` is by default the run's graph,
    the acoustic scale that of its decoding. Utterances that cannot be aligned are counted and
    named, with the reason; InputError if they are more than data.max_skipped allows.
    """
    _refuse_others(out)
    config = load_config([run / "config.yaml"])
    model = located(config.data.train.alignments, config.data, "model") / "final.mdl"
    if out.resolve() == model.parent.resolve():
        raise InputError(f"{out}: holds the alignments that the run was trained on; choose another")
    source = (lang or located(config.data.graph, config.data, "words"), model, unknown)
    scale = config.decode.acoustic_scale if acoustic_scale is None else acoustic_scale
    if data:
        directory = read_data_dir(data, open_pipe=open_pipe)
    else:
        directory = data_dir(config, on or "train", open_pipe)
    text = _transcripts(directory, read_speech(*source))
    loglikes = log_likelihoods(load(run), directory, config, config.data.max_skipped, open_pipe)
    options = AlignOptions(scale, beam, retry_beam)
    aligning = partial(align_one, source, options, choose_engine().name)
    results = map_utterances(aligning, ((u, (text.get(u), x)) for u, x in loglikes), nj)
    return _write(results, directory, source, out, config.data.max_skipped)


def align_flat(
    data: Path, lang: Path, out: Path, model: Path | None = None, unknown: str | None = None
) -> AlignSummary:
    """Give every state of a transcript as many frames as the others: what training can start from.

    Without a `model` one is made of three states a phone, each with a pdf of its own. Files and
    faults are those of `align_run`.
    """
    _refuse_others(out)
    directory = read_data_dir(data)
    features = Features(directory)
    if model is None:
        model = _write_monophones(lang, out)
    source = (lang, model, unknown)
    speech = read_speech(*source)
    text = _transcripts(directory, speech)
    results = (
        _flat_one(utt, text.get(utt), len(features[utt]), speech) for utt in features.utterances
    )
    return _write(results, directory, source, out, MAX_SKIPPED)


def _flat_one(utt: str, words: list[str] | None, frames: int, speech: Speech) -> Result:
    try:
        if words is None:
            raise InputError("there is no transcript")
        tids = flat_alignment(words, frames, speech)
    except InputError as error:
        return utt, InputError(f"{utt}: {error}")
    return utt, Alignment(tids, 0.0, False)


def _write_monophones(lang: Path, out: Path) -> Path:
    """Write final.mdl, tree and phones.txt of a model without context; returns final.mdl.

    The phones are those of the lang folder's phones.txt, or else of its lexicon, silence first.
    """
    if (lang / "phones.txt").exists():
        table = read_symbols(lang / "phones.txt")
    else:
        said = {phone for entry in read_lang(lang).lexicon for phone in entry.phones}
        names = dict.fromkeys((EPSILON, *silence_phones(lang), *sorted(said)))
        table = {phone: number for number, phone in enumerate(names)}
    numbers = [number for phone, number in table.items() if number and phone[0] != "#"]
    model = monophone_model(numbers, STATES)
    pdfs = {n: list(range(STATES * i, STATES * (i + 1))) for i, n in enumerate(sorted(numbers))}
    write_mapping(table.items(), out / "phones.txt")
    write_tree(monophone_tree(pdfs), out / "tree")
    write_transition_model(model, out / "final.mdl")
    return out / "final.mdl"


def _transcripts(data: DataDir, speech: Speech) -> dict[str, list[str]]:
    """The words of each utterance; those that the lexicon lacks are counted and named."""
    if data.text is None:
        raise InputError(f"{data.path / 'text'}: there are no transcripts to align")
    words = Counter(word for said in data.text.values() for word in said)
    foreign = [word for word in words if word not in speech.pronunciations]
    if foreign and speech.lang.unknown:
        LOGGER.warning(
            "%s: %d of %d words are not in the lexicon and are aligned as %s: %s",
            *(data.path / "text", sum(words[word] for word in foreign), words.total()),
            *(speech.lang.unknown, ", ".join(foreign[:NAMED])),
        )
    return data.text


def _refuse_others(out: Path) -> None:
    """Alignments in several archives are not ours: they, and their model, stay as they are."""
    others = sorted({path.name for path in out.glob("ali.*.gz")} - {"ali.1.gz"})
    if others:
        raise InputError(f"{out}: holds {others[0]}, another alignment; choose another folder")


def _write(
    results: Iterable[Result], data: DataDir, source: Source, out: Path, limit: float
) -> AlignSummary:
    """Write the alignment directory `out`; ali.1.gz appears last, unless too many have failed."""
    out.mkdir(parents=True, exist_ok=True)
    lang, model, _ = source
    copies = (model, model.parent / "tree", phones_file(lang, model))
    for path, name in zip(copies, ("final.mdl", "tree", "phones.txt"), strict=True):
        if path.resolve() != (out / name).resolve():
            with replacing(out / name) as temporary:
                shutil.copyfile(path, temporary)
    summary = AlignSummary(len(data.utt2spk))

    def aligned() -> Iterator[tuple[str, np.ndarray]]:
        for utt, result in results:
            if isinstance(result, InputError):
                LOGGER.warning("not aligned: %s", result)
                summary.failed.append(utt)
                continue
            summary.aligned += 1
            summary.retried += result.retried
            summary.frames += len(result.transition_ids)
            yield utt, result.transition_ids
        report_skipped(f"no alignment of {data.path}", summary.failed, summary.utterances, limit)

    write_int_vectors(aligned(), out / "ali.1.gz")
    return summary
