"""LF-MMI of a batch: its terms, its derivatives, each utterance as if it were alone."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from bayes_asr.base.errors import InputError
from bayes_asr.tasks.chain.leaky_hmm import LeakyHmm, sum_paths_in_torch
from bayes_asr.tasks.chain.numerator import NumeratorBuilder, Tolerance
from bayes_asr.tasks.chain.objective import Regularization, compute_lfmmi, sum_numerator
from tests.support.chain_models import GRAPH, MODEL, SAID, TREE

LEAK = 0.1
HMM = LeakyHmm(GRAPH, LEAK)
MAKER = NumeratorBuilder(MODEL, TREE, GRAPH, Tolerance())
NUMERATORS = [MAKER.build(phones, [4 + place] * len(phones)) for place, phones in enumerate(SAID)]
PLAIN, FULL = Regularization(0.0, 0.0), Regularization(0.3, 0.01)


def random_outputs(seed: int = 0) -> torch.Tensor:
    frames = sum(one.num_frames for one in NUMERATORS)
    values = np.random.default_rng(seed).normal(0, 2, (frames, MODEL.num_pdfs))
    return torch.from_numpy(values).requires_grad_()


def test_derivatives_are_those_of_differences() -> None:
    """By torch's gradcheck, of each head; for the second, posteriors are constants."""
    few = NUMERATORS[:2]
    frames = sum(one.num_frames for one in few)
    first, second = (random_outputs(n)[:frames].detach().requires_grad_() for n in (0, 1))
    assert torch.autograd.gradcheck(lambda y: compute_lfmmi(y, few, HMM, FULL).loss, first)
    fixed = first.detach()
    assert torch.autograd.gradcheck(lambda x: compute_lfmmi(fixed, few, HMM, FULL, x).loss, second)


def test_terms_are_as_they_are_defined() -> None:
    outputs, logits = random_outputs(), random_outputs(1)
    found = compute_lfmmi(outputs, NUMERATORS, HMM, FULL, logits)
    ends = np.cumsum([one.num_frames for one in NUMERATORS])[:-1].tolist()
    parts = torch.tensor_split(outputs.detach(), ends)
    mmi, cross_entropy = 0.0, 0.0
    for one, y, x in zip(NUMERATORS, parts, torch.tensor_split(logits, ends), strict=True):
        likelihood, share = sum_numerator(one, y.numpy())
        mmi += sum_paths_in_torch(GRAPH, LEAK, y).item() - likelihood
        cross_entropy -= (torch.from_numpy(share) * x.log_softmax(1)).sum().item()
    squares = outputs.square().sum().item()
    assert found.mmi == pytest.approx(mmi, abs=1e-8)
    assert found.loss.item() == pytest.approx(mmi + 0.3 * cross_entropy + 0.005 * squares, abs=1e-8)


def test_utterances_do_not_touch_each_other() -> None:
    """In float32, as networks give them: the bytes of the gradient are those of it alone."""
    whole = random_outputs().detach().float().requires_grad_()
    compute_lfmmi(whole, NUMERATORS, HMM, PLAIN).loss.backward()
    first = NUMERATORS[0].num_frames
    alone = whole[:first].detach().requires_grad_()
    compute_lfmmi(alone, NUMERATORS[:1], HMM, PLAIN).loss.backward()
    assert torch.equal(alone.grad, whole.grad[:first])
    assert whole.grad.sum(1).abs().max() < 1e-5


def test_threads_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for threads in (1, 5):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        outputs = random_outputs()
        objective = compute_lfmmi(outputs, NUMERATORS, HMM, PLAIN)
        objective.loss.backward()
        results.append((objective.mmi, objective.errors, outputs.grad))
    (mmi, errors, gradient), several = results
    assert several[:2] == (mmi, errors)
    assert torch.equal(several[2], gradient)


def test_steps_along_the_gradient_tell_what_was_said_from_all_else() -> None:
    outputs = torch.zeros(random_outputs().shape, dtype=torch.float64, requires_grad=True)
    values = []
    for _ in range(40):
        found = compute_lfmmi(outputs, NUMERATORS, HMM, PLAIN)
        values.append(found.mmi)
        (gradient,) = torch.autograd.grad(found.loss, outputs)
        outputs = (outputs - gradient).detach().requires_grad_()
    assert all(after < before for before, after in pairwise(values))
    assert 0 < values[-1] < 0.5 * values[0]


def test_outputs_of_another_frame_rate_are_refused() -> None:
    with pytest.raises(InputError, match="frame subsampling factor"):
        compute_lfmmi(random_outputs()[1:], NUMERATORS, HMM, PLAIN)
