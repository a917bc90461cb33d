"""Criteria on lattices: values by enumeration of paths, gradients by differences in double."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bayes_asr.config.merge import load
from bayes_asr.config.training_keys import SequenceConfig
from bayes_asr.decode.lattices.reference import LatticeComparison
from bayes_asr.nn.frames import PackedFrames
from bayes_asr.tasks.lattices.criterion import LatticeCriterion
from bayes_asr.tasks.lattices.targets import DENOMINATORS, Denominator
from tests.support.aligned_cases import cells_of, list_paths, random_aligned
from tests.support.small_corpus import MODEL

P = MODEL.num_pdfs
FRAMES = (5, 4, 2)
KINDS = ("mmi", "bmmi", "mpe", "smbr")
PRIORS = torch.log_softmax(torch.linspace(-1, 1, P, dtype=torch.float64), 0)
OPTIONS = replace(
    load([]).train.sequence, acoustic_scale=0.7, lm_scale=0.8, boost=0.3, drop_frames=False
)


def make_batch(
    kind: str, seed: int
) -> tuple[list[Denominator], list[np.ndarray], Tensor, dict[str, Any]]:
    """Lattices, references, logits [N, P] and targets of three utterances, packed."""
    rng = np.random.default_rng(seed)
    comparison = LatticeComparison(
        kind, MODEL, (2,), OPTIONS.one_silence_class, OPTIONS.boost, OPTIONS.max_silence_error
    )
    denominators, references = [], []
    for number, frames in enumerate(FRAMES):
        lattice = random_aligned(10 * seed + number, frames, MODEL.num_transition_ids)
        reference = rng.integers(1, MODEL.num_transition_ids + 1, frames)
        pdf = MODEL.pdf[lattice.tid].astype(np.int64)
        denominators.append(Denominator(lattice, pdf, *comparison.of(lattice, reference)))
        references.append(reference)
    labels = torch.from_numpy(np.concatenate([MODEL.pdf[ids] for ids in references])).long()
    packed = torch.empty_like(labels)
    packed[order_of(FRAMES)] = labels
    logits = torch.from_numpy(rng.normal(0, 2, (sum(FRAMES), P)))
    return denominators, references, logits, {"pdfs": packed, DENOMINATORS: denominators}


def order_of(lengths: tuple[int, ...]) -> Tensor:
    """Where the frames of the utterances, one after the other, lie in a packed batch."""
    layout = PackedFrames(lengths)
    return torch.cat(
        [torch.tensor([layout.starts[t] + b for t in range(n)]) for b, n in enumerate(lengths)]
    )


def criterion(kind: str, **changes: Any) -> LatticeCriterion:
    options: SequenceConfig = replace(OPTIONS, **changes)
    return LatticeCriterion({"pdfs": 1.0}, kind, options, PRIORS)


def by_enumeration(
    kind: str, one: Denominator, reference: np.ndarray, scores_TP: np.ndarray
) -> float:
    """The loss of an utterance, path by path."""
    logs, right = [], []
    for path in list_paths(one.lattice):
        cells = cells_of(one.lattice, path)
        log = OPTIONS.lm_scale * one.lattice.weight[list(path)].sum()
        correct = 0
        for frame, cell in enumerate(cells):
            tid = one.lattice.tid[cell]
            phones, pdfs = (label[[tid, reference[frame]]] for label in (MODEL.phone, MODEL.pdf))
            log += OPTIONS.acoustic_scale * scores_TP[frame, MODEL.pdf[tid]]
            if kind == "bmmi" and phones[0] != phones[1] and phones[0] != 2:
                log += OPTIONS.boost
            same = pdfs if kind == "smbr" else phones
            correct += bool(same[0] == same[1] or (phones == 2).all())
        logs.append(log)
        right.append(correct)
    total = np.logaddexp.reduce(logs)
    if kind in ("mpe", "smbr"):
        return len(reference) - float(np.exp(np.array(logs) - total) @ right)
    path = scores_TP[np.arange(len(reference)), MODEL.pdf[reference]].sum()
    return float(total - OPTIONS.acoustic_scale * path)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_loss_is_that_of_all_paths(kind: str, seed: int) -> None:
    denominators, references, logits, targets = make_batch(kind, seed)
    cost = criterion(kind)({"pdfs": logits}, targets, 22)
    unpacked = (torch.log_softmax(logits, 1) - PRIORS)[order_of(FRAMES)].split(list(FRAMES))
    expected = sum(
        by_enumeration(kind, one, reference, scores.numpy())
        for one, reference, scores in zip(denominators, references, unpacked, strict=True)
    )
    assert cost.loss.item() == pytest.approx(expected / 22, abs=1e-10)
    assert cost.objective.item() == cost.loss.item()
    assert int(cost.errors) == int((logits.argmax(1) != targets["pdfs"]).sum())


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_gradient_is_that_of_differences(kind: str, seed: int) -> None:
    _, _, logits, targets = make_batch(kind, seed)
    how = criterion(kind)
    torch.autograd.gradcheck(
        lambda x: how({"pdfs": x}, targets, 22).objective,
        (logits.requires_grad_(),),
        atol=1e-8,
    )


def gradient_of(kind: str, logits: Tensor, targets: Mapping[str, Any], **changes: Any) -> Tensor:
    x = logits.clone().requires_grad_()
    criterion(kind, **changes)({"pdfs": x}, targets, 22).objective.backward()
    assert x.grad is not None
    return x.grad


def test_frames_of_which_the_lattice_lacks_the_pdf_are_dropped() -> None:
    denominators, _, logits, targets = make_batch("mmi", 1)
    absent = torch.ones(sum(FRAMES), dtype=torch.bool)
    layout = PackedFrames(FRAMES)
    for place, one in enumerate(denominators):
        for frame, pdf in zip(one.lattice.frame.tolist(), one.pdf.tolist(), strict=True):
            row = layout.starts[frame] + place
            absent[row] &= bool(targets["pdfs"][row] != pdf)
    assert absent.any()
    assert not absent.all()
    kept, dropped = (
        gradient_of("mmi", logits, targets, drop_frames=drop) for drop in (False, True)
    )
    assert not dropped[absent].any()
    assert kept[absent].any()
    assert torch.equal(dropped[~absent], kept[~absent])


def test_cross_entropy_is_added_by_its_weight() -> None:
    _, _, logits, targets = make_batch("smbr", 2)
    x = logits.clone().requires_grad_()
    (torch.nn.functional.cross_entropy(x, targets["pdfs"], reduction="sum") / 22).backward()
    assert x.grad is not None
    plain, smooth = (
        gradient_of("smbr", logits, targets, xent_regularize=weight) for weight in (0.0, 0.25)
    )
    torch.testing.assert_close(smooth, plain + 0.25 * x.grad)


@pytest.mark.parametrize("kind", KINDS)
def test_parts_of_a_batch_add_up(kind: str) -> None:
    """As processes compute it: also where one has no utterance."""
    denominators, references, logits, targets = make_batch(kind, 4)
    whole = gradient_of(kind, logits, targets)
    order = order_of(FRAMES)
    begin = 0
    for one, reference in zip(denominators, references, strict=True):
        rows = order[begin : begin + len(reference)]
        begin += len(reference)
        alone = {"pdfs": targets["pdfs"][rows], DENOMINATORS: [one]}
        torch.testing.assert_close(gradient_of(kind, logits[rows], alone), whole[rows])
    nothing = {"pdfs": torch.empty(0, dtype=torch.long), DENOMINATORS: []}
    assert gradient_of(kind, torch.empty(0, P), nothing).shape == (0, P)


def test_outputs_that_are_not_finite_are_seen() -> None:
    """The step refuses what is not finite."""
    _, _, logits, targets = make_batch("smbr", 5)
    logits[3] = float("nan")
    assert torch.isnan(criterion("smbr")({"pdfs": logits}, targets, 22).objective)
