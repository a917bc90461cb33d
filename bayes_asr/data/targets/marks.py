"""Alignments from time marks: frames and HMM states of phones whose starts are known."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bayes_asr.base import elementary
from bayes_asr.base.errors import InputError
from bayes_asr.kaldi_io.context_dependency import build_monophone_tree
from bayes_asr.kaldi_io.initial_mdl import STATES
from bayes_asr.kaldi_io.integers import write_int_vectors
from bayes_asr.kaldi_io.mdl import write_transition_model
from bayes_asr.kaldi_io.text import write_mapping
from bayes_asr.kaldi_io.transition_model import TransitionModel
from bayes_asr.kaldi_io.tree import write_tree

FRAMES_PER_SECOND, WINDOWS_PER_SECOND = 100, 40  # 10 and 25 ms, as Kaldi's front end


@dataclass(frozen=True)
class PhoneFrames:
    """Frames of the phones of an utterance: `ends` int [N], the last frame + 1 of each phone.

    `short` counts the phones that the marks give fewer frames than states, `moved` the frames that
    a neighbour ceded to them.
    """

    ends: np.ndarray
    short: int
    moved: int


def find_frames(starts: np.ndarray, frames: int, rate: int) -> PhoneFrames:
    """Find the frames of each phone: those whose middle lies in it, and at least one a state.

    starts: the first sample of each phone, int [N], not falling, at `rate` samples a second; the
    first phone has all frames before its end and the last all after its start. A phone of fewer
    than STATES frames takes them from the next phones, at the end of the utterance from the
    previous ones. Raises InputError where `frames` do not hold the phones.
    """
    count = len(starts)
    if frames < STATES * count:
        raise InputError(f"{frames} frames do not hold {count} phones of {STATES} states")
    if (np.diff(starts) < 0).any():
        raise InputError(f"phone {np.argmax(np.diff(starts) < 0) + 2} begins before the one before")
    # The middle of a frame in samples: its begin, t times 10 ms, and half of its 25 ms.
    middle = np.arange(frames) * (rate // FRAMES_PER_SECOND) + rate // WINDOWS_PER_SECOND // 2
    # Frames whose middle lies before the next phone are this phone's: the count is its end.
    exact = np.append(np.searchsorted(middle, starts[1:]), frames)
    # The ends that are possible at the earliest, where each phone has one frame a state.
    steps = STATES * np.arange(1, count + 1)
    # Forward: each end lies at least STATES frames after the one before it.
    ends = np.maximum.accumulate(np.maximum(exact - steps, 0)) + steps
    # Backward: enough frames remain for the phones that follow.
    ends = np.minimum(ends, frames - steps[::-1] + STATES)
    short = int((np.diff(exact, prepend=0) < STATES).sum())
    # Each frame by which an end moves changes the phone of one frame.
    return PhoneFrames(ends, short, int(np.abs(ends - exact).sum()))


def describe_phones(aligned: Sequence[PhoneFrames]) -> str:
    """The counts of phones and of those too short for their states, in words."""
    frames, phones = sum(int(a.ends[-1]) for a in aligned), sum(len(a.ends) for a in aligned)
    short, moved = sum(a.short for a in aligned), sum(a.moved for a in aligned)
    return (
        f"{phones} phones; {short} ({100 * short / max(phones, 1):.1f} %) lasted fewer than "
        f"{STATES} frames and were given {STATES}, which moved {moved} of {frames} frames to a "
        "neighbour"
    )


def spread_states(phones: Sequence[int], ends: np.ndarray, model: TransitionModel) -> np.ndarray:
    """The alignment int32 [T] of phone-ids: each phone's frames shared evenly among its states.

    `model` is one of `build_monophone_model`. As in Kaldi's alignments a state begins with its
    forward transition; self-loops follow.
    """
    lengths = np.diff(ends, prepend=0)
    # Frames that do not divide evenly go to the later states.
    # (length + i) // STATES for i from 0 sums up to the length.
    shares = ((lengths[:, None] + np.arange(STATES)) // STATES).ravel()
    tids = np.arange(1, model.num_transition_ids + 1)
    # A model without context has one state a pdf, so a pdf names its two transitions.
    loop, forward = np.zeros((2, model.num_pdfs), np.int32)
    loop[model.pdf[tids[model.self_loop[1:]]]] = tids[model.self_loop[1:]]
    forward[model.pdf[tids[~model.self_loop[1:]]]] = tids[~model.self_loop[1:]]
    pdf_of = {(phone, state): pdf for phone, state, pdf, _ in model.tuples.tolist()}
    pdf = np.repeat([pdf_of[phone, state] for phone in phones for state in range(STATES)], shares)
    begins = np.zeros(len(pdf), bool)
    # The running sum less the own share is the first frame of a state.
    begins[np.cumsum(shares) - shares] = True
    return np.where(begins, forward[pdf], loop[pdf]).astype(np.int32)


def count_transitions(model: TransitionModel, alignments: Iterable[np.ndarray]) -> TransitionModel:
    """The model with transition probabilities as counted in alignments [T], one added to each."""
    counts = np.ones(model.num_transition_ids + 1)
    for tids in alignments:
        counts += np.bincount(tids, minlength=len(counts))
    # All transitions of a state have its pdf, so sums by pdf are sums by state.
    total = np.bincount(model.pdf[1:], counts[1:])
    log_prob = np.append(0.0, elementary.log(counts[1:] / total[model.pdf[1:]]))
    return replace(model, log_prob=log_prob.astype(np.float32))


def write_alignments(
    alignments: Iterable[tuple[str, np.ndarray]],
    model: TransitionModel,
    phones: Mapping[str, int],
    directory: Path,
) -> None:
    """Write ali.1.gz, tree and phones.txt, and final.mdl last, of a model without context."""
    pdfs: dict[int, list[int]] = {}
    for phone, _, pdf, _ in model.tuples.tolist():
        pdfs.setdefault(phone, []).append(pdf)
    write_int_vectors(alignments, directory / "ali.1.gz")
    write_tree(build_monophone_tree(pdfs), directory / "tree")
    write_mapping({"<eps>": 0, **phones}.items(), directory / "phones.txt")
    write_transition_model(model, directory / "final.mdl")
