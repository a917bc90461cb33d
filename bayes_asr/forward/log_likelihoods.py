"""Log-likelihoods: log posterior minus log prior of every pdf at every frame."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bayes_asr.config import FeatureConfig
from bayes_asr.config import load as load_config
from bayes_asr.errors import InputError
from bayes_asr.features.arriving import Arriving
from bayes_asr.features.transforms import prepared, speaker_normalised
from bayes_asr.forward.stream import Normalise, Stream
from bayes_asr.nn.frames import pack, unpack
from bayes_asr.nn.network import AcousticModel, States
from bayes_asr.runs import checkpoint
from bayes_asr.targets.alignments import log_priors, read_counts

BLOCK_FRAMES = 1000


class LogLikelihoods(nn.Module):
    """A trained network: features [T, F] -> log p(pdf|x) - log p(pdf) [T, P], unscaled float32.

    Deltas, context and normalisation of the run are applied here, so the features are those on
    disk. It computes in double precision: in single, the sums of a matrix product depend on the
    size of the batch, and the neighbours of an utterance moved its log-likelihoods by 1.1e-5 in a
    trained network of 3 x 256 units.
    """

    mean: Tensor
    deviation: Tensor
    log_priors: Tensor

    def __init__(self, content: dict[str, Any], features: FeatureConfig) -> None:
        """Build it from the content of a checkpoint."""
        super().__init__()
        self.features = features
        self.model: AcousticModel = checkpoint.built_model(content)
        for name in ("mean", "deviation", "log_priors"):
            self.register_buffer(name, content[name])
        self.double().eval().requires_grad_(False)

    def forward(self, features: Tensor | np.ndarray, cmvn: np.ndarray | None = None) -> Tensor:
        """Log-likelihoods [T, P] of one utterance [T, F].

        cmvn: Kaldi's CMVN statistics [2, F+1] of the speaker, needed where the run normalises by
        speaker.
        """
        matrix = self._normaliser(cmvn)(features)
        return self.of_prepared([prepared(matrix, **self._shape)])[0]

    def stream(self, cmvn: np.ndarray | None = None) -> Stream:
        """A stream of utterances [T, F] in chunks; cmvn: as in `forward`.

        InputError if log-likelihoods of this network depend on all later frames.
        """
        self.check_causal()
        return Stream(self.advance, self._normaliser(cmvn), Arriving(**self._shape))

    @torch.no_grad()
    def of_prepared(self, matrices: Sequence[np.ndarray]) -> list[Tensor]:
        """Log-likelihoods [T, P] of utterances [T, F'] with deltas and context already."""
        x_NF, frames, order = pack([self._input(matrix) for matrix in matrices])
        hidden = unpack(self.model.hidden(x_NF, frames), frames, order)
        return [self._read_out(one) for one in hidden]

    @torch.no_grad()
    def advance(self, matrix: np.ndarray, states: States) -> tuple[Tensor, States]:
        """Log-likelihoods [T, P] of the next frames [T, F'] of one utterance, as `of_prepared`.

        states: what the call for the frames before returned beside its log-likelihoods, [] where
        there are none before.
        """
        if not len(matrix):
            return torch.empty(0, len(self.log_priors)), states
        hidden, states = self.model.advance(self._input(matrix), states)
        return self._read_out(hidden), states

    def check_causal(self) -> None:
        """InputError if log-likelihoods depend on all later frames: `advance` needs that they do
        not.
        """
        if self.model.looks_ahead:
            raise InputError(
                "this network reads an utterance from its end too, so it cannot be computed in"
                " chunks: train one with model.bidirectional: false (and model.smooth: false)"
            )

    def _normaliser(self, cmvn: np.ndarray | None) -> Normalise:
        """What is done to features before deltas and context."""
        options = self.features
        how, context = options.cmvn, options.left_context + 1 + options.right_context
        if how != "none" and cmvn is None:
            raise ValueError(
                f"this run normalises by speaker (features.cmvn = {how}): pass the"
                " speaker's CMVN statistics [2, F+1] as `cmvn`"
            )
        stats = None if how == "none" else cmvn
        width = len(self.mean) // ((options.deltas + 1) * context)

        def normalise(features: Tensor | np.ndarray) -> np.ndarray:
            matrix = np.asarray(features, dtype=np.float32)
            if matrix.ndim != 2 or matrix.shape[1] != width:
                shape = list(matrix.shape)
                raise ValueError(f"features are {shape}, but the network reads [T, {width}]")
            return matrix if stats is None else speaker_normalised(matrix, how, stats)

        return normalise

    @property
    def _shape(self) -> dict[str, int]:
        options = self.features
        left, right = options.left_context, options.right_context
        return {"order": options.deltas, "left": left, "right": right}

    def _input(self, matrix: np.ndarray) -> Tensor:
        """What the first layer reads [T, F']."""
        return (torch.from_numpy(matrix).to(self.mean) - self.mean) / self.deviation

    def _read_out(self, hidden: Tensor) -> Tensor:
        """Log-likelihoods [T, P] by what the heads read [T, D*H]; in double precision only a block
        of frames at a time.
        """
        blocks = hidden.split(BLOCK_FRAMES)
        return torch.cat([(self.model.log_posteriors(b) - self.log_priors).float() for b in blocks])


def load(run: Path | str, counts: Path | None = None) -> LogLikelihoods:
    """Load the best network of a run.

    counts: a file of pdf counts, as Kaldi's analyze-counts writes it, instead of the training ones.
    """
    run = Path(run)
    if not (run / "config.yaml").exists():
        raise InputError(f"{run}: not a run directory, it has no config.yaml; train first")
    content = checkpoint.read(run / "best.pt")
    if counts is not None:
        pdfs = content["architecture"]["outputs"][0]
        content["log_priors"] = torch.from_numpy(log_priors(read_counts(counts, pdfs)))
    try:
        return LogLikelihoods(content, load_config([run / "config.yaml"]).features)
    except (RuntimeError, TypeError, KeyError, AttributeError) as error:
        raise InputError(
            f"{run / 'best.pt'}: does not hold the network that it describes"
            f" ({' '.join(str(error).split())[:100]}); train it again"
        ) from None
