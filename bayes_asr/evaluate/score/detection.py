"""Costs of taking classes of utterances for one another, as NIST measures languages."""

import numpy as np

from bayes_asr.base.errors import InputError

LRE17_TARGETS = (0.5, 0.1)
"""P_target of the two points that the primary cost of NIST's evaluation of 2017 averages."""


def detection_ratios(log_likelihoods_UL: np.ndarray) -> np.ndarray:
    """Log of each class's likelihood over the mean of those of the others, [U, L], in nats.

    log_likelihoods_UL: of each class, or log posteriors less log priors.
    """
    L = log_likelihoods_UL.shape[1]
    if L < 2:
        raise InputError(f"{L} class leaves nothing to tell apart; at least 2 are needed")
    columns = [
        # The mean of the L - 1 others is their sum, by logaddexp, less log (L - 1).
        log_likelihoods_UL[:, k]
        - np.logaddexp.reduce(np.delete(log_likelihoods_UL, k, axis=1), axis=1)
        + np.log(L - 1)
        for k in range(L)
    ]
    return np.stack(columns, 1)


def average_cost(
    ratios_UL: np.ndarray,
    labels_U: np.ndarray,
    *,
    p_target: float,
    c_miss: float = 1.0,
    c_false_alarm: float = 1.0,
) -> float:
    """C_avg of detecting each class, divided by C_miss P_target: 0 at best, about 1 for a guess.

    NIST 2017 Language Recognition Evaluation Plan, section 3.1. A class is said to be there where
    its ratio (`detection_ratios`) is log beta or more:
    beta = C_FA (1 - P_target) / (C_miss P_target),
    C_avg = 1/N sum_t [P_miss(t) + beta / (N - 1) sum_n P_FA(t, n)].
    Without the division, and at P_target 0.5, it is the C_avg of the plans up to 2011: half of it.
    labels_U: the number of each utterance's class. Classes without an utterance do not count.
    """
    if not 0 < p_target < 1:
        raise InputError(f"p_target is {p_target}; it must be between 0 and 1")
    beta = c_false_alarm * (1 - p_target) / (c_miss * p_target)
    present = np.unique(labels_U)
    if len(present) < 2:
        raise InputError("C_avg needs utterances of at least 2 classes")
    # Bayes' decision: the class is said where its ratio is beta or more.
    said_UL = ratios_UL >= np.log(beta)
    # Row t has the share of utterances of class t in which each class is said.
    share_NL = np.stack([said_UL[labels_U == k].mean(axis=0) for k in present])[:, present]
    # The diagonal are hits; what else a column has are false alarms of its class.
    misses = 1 - np.diagonal(share_NL)
    false_alarms = (share_NL.sum(axis=0) - np.diagonal(share_NL)) / (len(present) - 1)
    return float(np.mean(misses + beta * false_alarms))


def primary_cost_lre17(ratios_UL: np.ndarray, labels_U: np.ndarray) -> float:
    """The mean of `average_cost` at both points of NIST's evaluation of 2017."""
    return float(np.mean([average_cost(ratios_UL, labels_U, p_target=p) for p in LRE17_TARGETS]))
