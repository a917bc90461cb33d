"""Kaldi alignments: the pdf and the phone of every frame."""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.log import LOGGER
from bayes_asr.data.targets.target import Labels, Target
from bayes_asr.kaldi_io.ark import iter_int_vectors, read_vector
from bayes_asr.kaldi_io.jobs import find_alignments
from bayes_asr.kaldi_io.mdl import read_transition_model
from bayes_asr.kaldi_io.transition_model import TransitionModel, begin_hash
from bayes_asr.kaldi_io.vectors import StoredVectors

LOOKED_AT = 50  # utterances of a directory, so many or a few less: another model shows in all


class Alignments(Labels):
    """The alignments of a directory (`ali.*.gz` and `final.mdl`), as transition-ids.

    Labels are absolute: pdf-ids are those of `final.mdl`, phones those of its topology. `lengths`:
    frames of each utterance that is aligned. `digest`: a hash of what the alignments and the model
    say, however they are compressed.
    """

    def __init__(
        self, directory: Path, stored: StoredVectors | None = None, digest: str = ""
    ) -> None:
        """Read the alignments into memory, or use those that are `stored`, with their digest."""
        self.directory = Path(directory)
        self.model: TransitionModel = read_transition_model(self.path_of_model)
        # Entry 0 of the model's tables is no transition: ids count from 1.
        self._phones, self._monophones = np.unique(self.model.phone[1:], return_inverse=True)
        total = begin_hash(self.model)
        if stored is None:
            self._values = dict(add_to_hash(iter_alignments(self.directory, self.model), total))
            self.lengths = {utt: len(ids) for utt, ids in self._values.items()}
            self.digest = total.hexdigest()
        else:
            self._values, self.lengths, self.digest = stored, stored.lengths, digest
        self._warn_of_another_model()

    def _warn_of_another_model(self) -> None:
        """Say where neighbours in some utterances cannot follow one another by the model."""
        some = list(self.lengths)[:: 1 + len(self.lengths) // LOOKED_AT]
        wrong = []
        for utt in some:
            ids = self.transition_ids(utt)
            strays = ~self.model.may_follow(ids[:-1], ids[1:])
            if strays.any():
                wrong.append((utt, ids, int(strays.argmax())))
        if wrong:
            utt, ids, frame = wrong[0]
            LOGGER.warning(
                "%s: by %s no phone has the transition-ids %d and %d, which follow one another in"
                " %s from frame %d (and so in %d of %d utterances that were looked at): take the"
                " model that made the alignments, unless frames were left out of them",
                *(self.directory, self.path_of_model, ids[frame], ids[frame + 1], utt, frame),
                *(len(wrong), len(some)),
            )

    @property
    def path_of_model(self) -> Path:
        """The file of the model."""
        return self.directory / "final.mdl"

    def __contains__(self, utt: str) -> bool:
        return utt in self.lengths

    def __len__(self) -> int:
        return len(self.lengths)

    def items(self) -> Iterable[tuple[str, np.ndarray]]:
        """Utterances and their transition-ids, int32 [T]."""
        return self._values.items()

    @property
    def num_monophones(self) -> int:
        """The number of phones of the model."""
        return len(self._phones)

    def transition_ids(self, utt: str) -> np.ndarray:
        """Transition-id of every frame, int32 [T]."""
        return self._values[utt]

    def pdfs(self, utt: str) -> np.ndarray:
        """Pdf-id of every frame, int32 [T], as Kaldi's ali-to-pdf."""
        return self.model.pdf[self._values[utt]]

    def phones(self, utt: str) -> np.ndarray:
        """Phone of every frame, int32 [T], as Kaldi's ali-to-phones --per-frame."""
        return self.model.phone[self._values[utt]]

    def monophones(self, utt: str) -> np.ndarray:
        """Phone of every frame counted from 0, [T]: its place among the phones of the model."""
        # The table lacks the unused entry 0, so an id is one more than its place.
        return self._monophones[self._values[utt] - 1]

    @property
    def targets(self) -> dict[str, Target]:
        """The targets that a network may learn: pdfs and monophones."""
        return {
            "pdfs": Target(self.pdfs, self.model.num_pdfs),
            "monophones": Target(self.monophones, self.num_monophones),
        }


def check_transitions(model: TransitionModel, where: Path, alignments: Alignments) -> None:
    """InputError where the model of alignments has other transitions than ours, in a file."""
    if not np.array_equal(model.tuples, alignments.model.tuples):
        raise InputError(
            f"{alignments.path_of_model} ({alignments.model.num_pdfs} pdfs) has other transitions"
            f" than {where} ({model.num_pdfs} pdfs); align all with one model"
        )


def read_counts(path: Path, pdfs: int) -> np.ndarray:
    """Pdf counts [P] from a file such as Kaldi's analyze-counts writes: [ 12.5 3.5 ... ]."""
    counts = read_vector(path)
    if len(counts) != pdfs:
        raise InputError(
            f"{path}: {len(counts)} counts, but the network has {pdfs} pdfs; count"
            " the pdfs of the alignments that it was trained on"
        )
    if not (np.isfinite(counts).all() and (counts >= 0).all() and counts.sum() > 0):
        raise InputError(
            f"{path}: counts must be finite, not negative and not all 0; count the pdfs again"
        )
    return counts


def iter_alignments(directory: Path, model: TransitionModel) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the utterances of all `ali.*.gz` and their transition-ids int32 [T], all of `model`.

    InputError for a transition-id that the model has not, and for an utterance that is repeated.
    """
    utterances: set[str] = set()
    last = model.num_transition_ids
    for path in find_alignments(directory):
        for utt, transition_ids in iter_int_vectors(path):
            if utt in utterances:
                raise InputError(f"{path}: {utt} is aligned a second time; keep one alignment")
            utterances.add(utt)
            outside = np.flatnonzero((transition_ids < 1) | (transition_ids > last))
            if len(outside):
                frame = outside[0]
                raise InputError(
                    f"{path}: {utt}, frame {frame} has transition-id {transition_ids[frame]}, but"
                    f" {directory / 'final.mdl'} has 1 to {last}; use the model that made the"
                    " alignment"
                )
            yield utt, transition_ids


def add_to_hash(
    aligned: Iterable[tuple[str, np.ndarray]], total: "hashlib.blake2b"
) -> Iterator[tuple[str, np.ndarray]]:
    """Add alignments, or other vectors by name, to a hash while they pass."""
    for utt, transition_ids in aligned:
        total.update(f"{utt} {len(transition_ids)} ".encode())
        total.update(transition_ids.tobytes())
        yield utt, transition_ids
