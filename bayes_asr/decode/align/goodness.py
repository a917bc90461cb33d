"""Goodness of pronunciation (GOP): how well the sound of a phone fits it, against all phones.

S. Witt & S. Young, "Phone-level pronunciation scoring and assessment for interactive language
learning", Speech Communication 30, 2000: the likelihood ratio against a phone loop. W. Hu et al.,
"Improved mispronunciation detection with deep neural network trained acoustic models and transfer
learning based logistic regression classifiers", Speech Communication 67, 2015: log phone posteriors
(LPP) of networks and their ratios (LPR). Kaldi: compute-gop.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.safe_pickle import loadable
from bayes_asr.decode.align.phone_loop import PhoneLoop
from bayes_asr.decode.graph.lexicon import strip_position
from bayes_asr.kaldi_io.transition_model import TransitionModel, phone_spans


@loadable
@dataclass(frozen=True)
class PhoneScores:
    """Scores of the phones [N] of an alignment, silences left out, against M phones.

    `phone` int64 [N]: the index into `names` [M]; `start`, `end` int64 [N]: the frames of each,
    the latter the first one after it; `lpp` float64 [N, M]: the mean over its frames of the log
    posterior of every phone; `loop_ratio` float64 [N]: the log-likelihood of a frame less that on
    the best path through the phone loop, in the mean.
    """

    names: tuple[str, ...]
    phone: np.ndarray
    start: np.ndarray
    end: np.ndarray
    lpp: np.ndarray
    loop_ratio: np.ndarray

    @property
    def log_posterior(self) -> np.ndarray:
        """The LPP of each phone itself, float64 [N]."""
        return np.asarray(self.lpp[np.arange(len(self.phone)), self.phone])

    @property
    def gop(self) -> np.ndarray:
        """The LPP of each phone less that of the likeliest phone, at most 0, float64 [N]."""
        return np.asarray(self.log_posterior - self.lpp.max(axis=1))

    @property
    def features(self) -> np.ndarray:
        """The features of a classifier, float64 [N, 2M]: LPP, then LPR, by how much the phone
        itself is likelier than each.
        """
        return np.concatenate([self.lpp, self.log_posterior[:, None] - self.lpp], axis=1)


class PronunciationScorer:
    """The scores of aligned phones by a model of HMMs, of a network or of mixtures."""

    def __init__(
        self,
        model: TransitionModel,
        phones: Mapping[str, int],
        silence: Collection[str],
        log_priors: np.ndarray,
    ) -> None:
        """Take the phone table of a model, its silence phones, and the log priors [P] of its pdfs.

        Phones that differ by the place in the word alone (_B, _I, _E, _S) are scored as one.
        InputError for a phone of the model that the table lacks.
        """
        self.model, self.log_priors, self.loop = model, log_priors, PhoneLoop(model)
        silent = {*map(strip_position, silence)}
        base = {n: strip_position(phone) for phone, n in phones.items()}
        modelled = sorted({*model.phone[1:].tolist()})
        if missing := [n for n in modelled if n not in base]:
            raise InputError(f"phone {missing[0]} of the model is not in its phone table")
        pronounced = [n for n in modelled if base[n] not in silent]
        self.names = tuple(dict.fromkeys(base[n] for n in pronounced))
        self.column = np.full(max(base) + 1, -1)
        self.column[pronounced] = [self.names.index(base[n]) for n in pronounced]
        # By phone, the pdfs of all its states and contexts; a shared one counts for each phone.
        pairs = np.concatenate([model.tuples[:, [0, 2]], model.tuples[:, [0, 3]]])
        pairs[:, 0] = self.column[pairs[:, 0]]
        pairs = np.unique(pairs[pairs[:, 0] >= 0], axis=0)
        self._pdfs = pairs[:, 1]
        self._first_pdf = np.searchsorted(pairs[:, 0], np.arange(len(self.names)))

    def score(self, loglikes: np.ndarray, transition_ids: np.ndarray) -> PhoneScores:
        """Score the phones of an alignment [T] by log-likelihoods [T, P], both unscaled.

        InputError where they are of different lengths.
        """
        if len(loglikes) != len(transition_ids):
            raise InputError(
                f"an alignment of {len(transition_ids)} frames and log-likelihoods of"
                f" {len(loglikes)}: make both of the same features"
            )
        posteriors = self.phone_posteriors(loglikes)
        pdfs = self.model.pdf[transition_ids]
        ratio = loglikes[np.arange(len(pdfs)), pdfs] - self.loop.best_scores(loglikes)
        phone, start, end = phone_spans(self.model, transition_ids)
        lengths = end - start
        means = np.add.reduceat(np.column_stack([posteriors, ratio]), start) / lengths[:, None]
        pronounced = self.column[phone] >= 0
        columns = self.column[phone], start, end, means[:, :-1], means[:, -1]
        return PhoneScores(self.names, *(values[pronounced] for values in columns))

    def phone_posteriors(self, loglikes: np.ndarray) -> np.ndarray:
        """The log posterior of each phone in each frame, float64 [T, M], of loglikes [T, P]."""
        joint = loglikes.astype(np.float64) + self.log_priors
        posteriors = joint - np.logaddexp.reduce(joint, axis=1, keepdims=True)
        columns = posteriors[:, self._pdfs]
        return np.asarray(np.logaddexp.reduceat(columns, self._first_pdf, axis=1))
