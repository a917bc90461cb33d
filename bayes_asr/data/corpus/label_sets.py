"""Several label sets of the same utterances: what kinds there are, and whether they go together."""

from collections.abc import Mapping, Sequence
from typing import cast

from bayes_asr.base.errors import InputError
from bayes_asr.data.targets.alignments import Alignments, JoinedAlignments, check_transitions
from bayes_asr.data.targets.labels import IntegerLabels, JoinedIntegers
from bayes_asr.data.targets.target import Labels, Target


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
            raise InputError(
                f"{further.where(utt)}: {utt} has {counts[utt]} labels, but {frames} in"
                f" {first.where(utt)}; make both of the same features"
            )


def join_labels(parts: Sequence[Labels]) -> Labels:
    """Label sets of several directories as one; InputError where they are of two kinds."""
    if len(parts) == 1:
        return parts[0]
    for part in parts[1:]:
        _check_kind(parts[0], part)
    if isinstance(parts[0], Alignments):
        return JoinedAlignments(cast(Sequence[Alignments], parts))
    return JoinedIntegers(cast(Sequence[IntegerLabels], parts))


def check_labels(train: Labels, labels: Labels) -> None:
    """InputError where another set has labels that the training set does not know."""
    _check_kind(train, labels)
    if isinstance(train, Alignments) and isinstance(labels, Alignments):
        check_transitions(train.model, train.path_of_model, labels)
    elif isinstance(train, IntegerLabels) and isinstance(labels, IntegerLabels):
        utt, label = labels.greatest
        # Fewer labels are no fault: the training set may know some that dev lacks.
        if label > train.greatest[1]:
            raise InputError(
                f"{labels.where(utt)}: {utt} has the label {label}, but those of"
                f" {train.directory} are from 0 to {train.greatest[1]}; count both alike"
            )


def _check_kind(reference: Labels, labels: Labels) -> None:
    if isinstance(reference, Alignments) != isinstance(labels, Alignments):
        kinds = {True: "alignments by its final.mdl", False: "whole numbers"}
        raise InputError(
            f"{labels.directory} has {kinds[isinstance(labels, Alignments)]}, but"
            f" {reference.directory} {kinds[isinstance(reference, Alignments)]}; take one kind"
        )
