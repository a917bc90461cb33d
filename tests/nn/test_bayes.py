"""The units are Bayes's theorem: with the weights of known densities they give its posteriors.

Section 2 of the paper; its equations 6a and 6b are misprinted, as the first test shows.
"""

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import expit, log_expit, logit

from bayes_asr.nn.frames import PackedFrames
from bayes_asr.nn.recurrent import RecurrentLayer
from bayes_asr.nn.units.activations import softplus
from tests.support.nn_units import layer

RNG = np.random.default_rng(0)
F, H, T = 3, 4, 6
SPREAD = RNG.standard_normal((H, F, F))
COVARIANCE = SPREAD @ SPREAD.transpose(0, 2, 1) + np.eye(F)
PRESENT, ABSENT = RNG.standard_normal((2, H, F))  # mu and nu of each feature
PRIOR = RNG.uniform(0.1, 0.9, H)
X = RNG.standard_normal((T, F))


def set_weights(net: RecurrentLayer, W: np.ndarray, b: np.ndarray, V: np.ndarray | None) -> None:
    """Give a layer of one direction the weights W [H, F], b [H] and V [H, H] (to, from)."""
    with torch.no_grad():
        net.W.weight.copy_(torch.from_numpy(W))
        net.W.bias.copy_(torch.from_numpy(b))
        if net.V is not None:
            net.V.zero_() if V is None else net.V[0].copy_(torch.from_numpy(V.T))


def outputs(net: RecurrentLayer) -> np.ndarray:
    with torch.no_grad():
        return net(torch.from_numpy(X), PackedFrames((T,))).numpy()


def likelihoods(means: np.ndarray) -> np.ndarray:
    """p(x_t | mean of each feature) [T, H]."""
    normal = [stats.multivariate_normal(m, c) for m, c in zip(means, COVARIANCE, strict=True)]
    return np.stack([density.pdf(X) for density in normal], axis=1)


def gaussian_weights() -> tuple[np.ndarray, np.ndarray]:
    """W and b such that log p(x|present) / p(x|absent) = W x + b."""
    inverse = np.linalg.inv(COVARIANCE)
    W = np.einsum("hf,hfg->hg", PRESENT - ABSENT, inverse)
    squares = [np.einsum("hf,hfg,hg->h", m, inverse, m) for m in (PRESENT, ABSENT)]
    return W, -0.5 * (squares[0] - squares[1])


def posterior(present: np.ndarray, absent: np.ndarray) -> np.ndarray:
    return present / (present + absent)


def test_sigmoid_of_a_linear_function_is_bayes_for_two_gaussians() -> None:
    W, b = gaussian_weights()
    expected = posterior(likelihoods(PRESENT) * PRIOR, likelihoods(ABSENT) * (1 - PRIOR))
    net = layer(unit="rnn", options={"activation": "sigmoid"}, bidirectional=False, norm="none")
    set_weights(net, W, b + logit(PRIOR), None)
    np.testing.assert_allclose(outputs(net), expected, atol=1e-12)
    # As printed: (nu - mu)^T S^-1 and -1/2 (nu^T S^-1 nu + mu^T S^-1 mu).
    set_weights(net, -W, b + logit(PRIOR), None)
    assert np.abs(outputs(net) - expected).max() > 0.1


def test_bru_is_bayes_with_beta_distributed_probabilities_before() -> None:
    W, b = gaussian_weights()
    alpha1, alpha2 = RNG.uniform(0.5, 3, (2, H, H))  # of each feature, for each earlier one
    log_beta = [-np.log(alpha).sum(1) for alpha in (alpha1, alpha2)]  # B(a, 1) = 1 / a
    bias = b + log_beta[1] - log_beta[0] + logit(PRIOR)
    net = layer(unit="bru", bidirectional=False, norm="none", hand_on="prob")
    set_weights(net, W, bias, alpha1 - alpha2)
    computed, h = outputs(net), np.full(H, 0.5)
    present, absent = likelihoods(PRESENT) * PRIOR, likelihoods(ABSENT) * (1 - PRIOR)
    for t in range(T):
        of_beta = [stats.beta(alpha, 1).pdf(h).prod(1) for alpha in (alpha1, alpha2)]
        h = posterior(present[t] * of_beta[0], absent[t] * of_beta[1])
        np.testing.assert_allclose(computed[t], h, atol=1e-12)


def test_features_that_never_change_accumulate_evidence() -> None:
    W, b = gaussian_weights()
    net = layer(unit="ubru", bidirectional=False, norm="none", hand_on="prob")
    set_weights(net, W, b, None)
    with torch.no_grad():
        net.cell.stay.fill_(60.0)
        net.cell.enter.fill_(-60.0)
    whole = posterior(*(np.cumprod(likelihoods(m), axis=0) for m in (PRESENT, ABSENT)))
    np.testing.assert_allclose(outputs(net), whole, atol=1e-12)


@pytest.mark.parametrize("size", [1.0, 30.0, 1e3])
def test_identities_of_the_paper(size: float) -> None:
    a = size * torch.linspace(-1, 1, 201, dtype=torch.float64)
    np.testing.assert_allclose(a.tanh().numpy(), 2 * expit(2 * a.numpy()) - 1, atol=1e-12)
    np.testing.assert_allclose(
        softplus(a).numpy(), np.logaddexp(0, a.numpy()), rtol=1e-14, atol=1e-300
    )
    np.testing.assert_allclose(softplus(a).numpy(), -log_expit(-a.numpy()), rtol=1e-14, atol=1e-300)
    inside = a[a.abs() <= 30].numpy()
    np.testing.assert_allclose(logit(expit(inside)), inside, rtol=1e-3, atol=1e-12)
