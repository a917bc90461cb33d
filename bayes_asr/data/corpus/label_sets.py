"""Several label sets of the same utterances: what kinds there are, and whether they go together."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from bayes_asr.base.errors import InputError
from bayes_asr.data.targets.alignments import Alignments, check_transitions
from bayes_asr.data.targets.labels import IntegerLabels
from bayes_asr.data.targets.target import Labels, Target, advise_lengths

Kind = TypeVar("Kind", bound=Labels)


def name_targets(labels: Mapping[str, Labels]) -> dict[str, Target]:
    """The targets in label sets: `tri2.pdfs` of alignments, `tri2` of numbers."""
    return {
        f"{name}.{kind}".rstrip("."): target
        for name, label_set in labels.items()
        for kind, target in label_set.targets.items()
    }


def check_lengths(first: Labels, further: Labels, lengths: Mapping[str, int]) -> None:
    """InputError for an utterance with more or fewer labels in one set than in the other."""
    # A dictionary is looked up faster than the index's sorted table, once for each utterance.
    counts = dict(further.lengths.items())
    for utt, frames in lengths.items():
        if counts[utt] != frames:
            fewer, more = sorted((frames, counts[utt]))  # either set may be of LF-MMI
            raise InputError(
                f"{further.where(utt)}: {utt} has {counts[utt]} labels, but {frames} in"
                f" {first.where(utt)}; {advise_lengths(frames=more, labels=fewer)}"
            )


def join_labels(parts: Sequence[Kind]) -> Kind:
    """Labels of several directories as if they were one's.

    InputError where they do not mean the same, and for an utterance that two of them have.
    """
    first, *further = parts
    for part in further:
        _check_kind(first, part)
    return first.join(parts) if further else first


def check_labels(train: Labels, labels: Labels) -> None:
    """InputError where another set has labels that the training set does not know."""
    _check_kind(train, labels)
    if isinstance(train, IntegerLabels) and isinstance(labels, IntegerLabels):
        utt, label = labels.greatest
        # Fewer labels are no fault: the training set may know some that dev lacks.
        if label > train.greatest[1]:
            raise InputError(
                f"{labels.where(utt)}: {utt} has the label {label}, but those of"
                f" {train.directory} are from 0 to {train.greatest[1]}; count both alike"
            )


def _check_kind(reference: Labels, labels: Labels) -> None:
    """InputError where one is of alignments and the other is not, or by another model."""
    if isinstance(reference, Alignments) and isinstance(labels, Alignments):
        check_transitions(reference.model, reference.path_of_model, labels)
    elif isinstance(reference, Alignments) or isinstance(labels, Alignments):
        kinds = {True: "alignments by its final.mdl", False: "whole numbers"}
        raise InputError(
            f"{labels.directory} has {kinds[isinstance(labels, Alignments)]}, but"
            f" {reference.directory} {kinds[isinstance(reference, Alignments)]}; take one kind"
        )
