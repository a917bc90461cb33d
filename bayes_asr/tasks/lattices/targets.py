"""Targets of criteria on lattices: the denominator lattice of each utterance."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import find_files
from bayes_asr.base.log import LOGGER
from bayes_asr.config.schema import Config
from bayes_asr.data.corpus.index import Index
from bayes_asr.data.corpus.labelled import LabelledSet
from bayes_asr.data.corpus.labels_index import index_vectors
from bayes_asr.data.directories import locate
from bayes_asr.data.features.skipped import report_skipped
from bayes_asr.data.targets.alignments import Alignments
from bayes_asr.data.targets.target import Labels, Target
from bayes_asr.decode.graph.lang import read_silence_ids
from bayes_asr.decode.lattices import compiled
from bayes_asr.decode.lattices.aligned import AlignedLattice, align_lattice, count_frames
from bayes_asr.decode.lattices.reference import WITH_REFERENCE, LatticeComparison, check_succession
from bayes_asr.kaldi_io.jobs import find_jobs
from bayes_asr.kaldi_io.lattice_files import iter_lattices
from bayes_asr.kaldi_io.sorted_table import join_tables
from bayes_asr.kaldi_io.vectors import StoredVectors

DENOMINATORS = "denominators"
"""Name of the target whose values are a list of `Denominator`."""

FROM_DECODING = ("acoustic_scale", "silence_phones")
"""Options that default to those of the decoding."""


@dataclass(frozen=True)
class Denominator:
    """The lattice of an utterance, whose weights are graph costs alone, not scaled.

    pdf int64 [C]: of each cell; boost, accuracy float64 [C]: see `reference.CellValues`.
    """

    lattice: AlignedLattice
    pdf: np.ndarray
    boost: np.ndarray
    accuracy: np.ndarray


@dataclass
class DenominatorLattices(Labels):
    """The packed lattices of a folder, among the labels of a set.

    lengths: of the vector of each utterance; digest: a hash of their content.
    """

    directory: Path
    vectors: Mapping[str, np.ndarray]
    lengths: Mapping[str, int]
    digest: str


def add_lattices(config: Config, name: str, data: LabelledSet, index: Index) -> LabelledSet:
    """Return the set `name` (train or dev) with the lattices that its criterion reads.

    Utterances without one are reported, and skipped if they are few. InputError where lattices
    cannot be read, have no alignment, or are not there.
    """
    if not compiled.LIBRARY.usable:
        LOGGER.warning(
            "%s: sums over lattices in Python, about 5 times slower", compiled.LIBRARY.fault
        )
    # A dev set that is split off the training set has its lattices in the same folders.
    folders = getattr(config.data, name).lattices or config.data.train.lattices
    parts = [_open_lattices(Path(config.data.dir) / path, index) for path in folders]
    available = join_tables([(part.directory, part.lengths) for part in parts], "has a lattice")
    selected, missing = data.select(available)
    directories = " and ".join(str(part.directory) for part in parts)
    if not selected.lengths:
        raise InputError(
            f"{directories}: has no lattice of the {len(data.lengths)} utterances of {name}; name"
            f" the folder of its own lattices as data.{name}.lattices"
        )
    report_skipped(
        f"{name}: no lattice in {directories}", missing, len(data.lengths), config.data.max_skipped
    )
    alignments = cast(Alignments, data.first_labels)
    labels = partial(_read_denominator, parts, alignments, _build_comparison(config, alignments))
    _check_before_training(parts, selected.lengths, alignments)
    hashed = {f"{DENOMINATORS} {part.directory}": part for part in parts}
    labels(next(iter(selected.lengths)))  # what cannot be read ends the run here, not in an epoch
    return replace(
        selected,
        further_labels={**data.further_labels, **hashed},
        targets={**data.targets, DENOMINATORS: Target(labels, 0, per="value")},
    )


def _open_lattices(directory: Path, index: Index) -> DenominatorLattices:
    """The lattices of a folder, in the index in the form in which they are used."""
    if not find_files(directory, "lat.*.gz"):
        raise InputError(f"{directory}: there is no lat.*.gz; make lattices by bayes-asr denlats")
    files = find_jobs(directory, "lat")
    vectors, digest = index_vectors(
        "lattices", directory, files, lambda: _iter_packed(files), index
    )
    # Vectors of the index are files, whose lengths are known without reading them.
    lengths = (
        vectors.lengths
        if isinstance(vectors, StoredVectors)
        else {utt: len(vector) for utt, vector in vectors.items()}
    )
    return DenominatorLattices(directory, vectors, lengths, digest)


def _iter_packed(files: Sequence[Path]) -> Iterator[tuple[str, np.ndarray]]:
    """Utterances and their lattices, packed; acoustic costs, of another network, are left out."""
    utterances: set[str] = set()
    for path in files:
        for utt, lattice in iter_lattices(path):
            if utt in utterances:
                raise InputError(f"{path}: {utt} has a second lattice; keep one of them")
            utterances.add(utt)
            if not lattice.num_states:
                LOGGER.warning("%s: the lattice of %s has no path", path, utt)
                continue
            try:
                yield utt, align_lattice(lattice, acoustic_scale=0).pack()
            except InputError as error:
                raise InputError(f"{path}: {utt}: {error}") from None


def _check_before_training(
    parts: Sequence[DenominatorLattices], utterances: Mapping[str, int], alignments: Alignments
) -> None:
    """InputError for a lattice of other frames than the alignment: late, it would end an epoch."""
    for part in parts:
        for utt in filter(part.lengths.__contains__, utterances):
            frames, expected = count_frames(part.vectors[utt]), alignments.lengths[utt]
            if frames != expected:
                raise InputError(
                    f"{part.directory}: {utt}: the lattice has {frames} frames, but {expected} in"
                    " the alignment; make both of the same features"
                )


def _read_denominator(
    parts: Sequence[DenominatorLattices],
    alignments: Alignments,
    comparison: LatticeComparison,
    utt: str,
) -> Denominator:
    """Denominator of an utterance; InputError unless lattice and alignment agree."""
    part = next(part for part in parts if utt in part.vectors)
    lattice = AlignedLattice.unpack(part.vectors[utt])
    try:
        compared = comparison.of(lattice, alignments.transition_ids(utt))
        check_succession(lattice, comparison.model)
    except InputError as error:
        raise InputError(f"{part.directory}: {utt}: {error}") from None
    return Denominator(lattice, comparison.model.pdf[lattice.tid].astype(np.int64), *compared)


def complete_sequence_options(config: Config, begun: Config | None = None) -> Config:
    """Fill in the options of a criterion on lattices that default to those of the decoding.

    begun: configuration of the run that goes on, whose values are kept however one decodes by now.
    """
    options = config.train.sequence
    # Values of the run come first, then those of the decoding as configured now.
    if begun:
        for name in FROM_DECODING:
            if getattr(options, name) is None:
                options = replace(options, **{name: getattr(begun.train.sequence, name)})
    if options.acoustic_scale is None:
        options = replace(options, acoustic_scale=config.decode.acoustic_scale)
    if options.silence_phones is None and config.train.criterion in WITH_REFERENCE:
        options = replace(options, silence_phones=_find_silence(config))
    return replace(config, train=replace(config.train, sequence=options))


def _build_comparison(config: Config, alignments: Alignments) -> LatticeComparison:
    """Comparison of lattices with the alignment by the criterion of a configuration."""
    options = config.train.sequence
    try:
        return LatticeComparison(
            config.train.criterion,
            alignments.model,
            options.silence_phones or (),
            options.one_silence_class,
            options.boost,
            options.max_silence_error,
        )
    except InputError as error:
        raise InputError(f"train.sequence.silence_phones: {error}") from None


def _find_silence(config: Config) -> tuple[int, ...]:
    """The silence phones of the decoding graph."""
    try:
        return read_silence_ids(locate(config.data.graph, config.data, "decoding graph"))
    except InputError as error:
        raise InputError(
            f"{error}; or set train.sequence.silence_phones to the numbers of these phones"
        ) from None
