"""A trained encoder-decoder network, which writes the labels of an utterance."""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from bayes_asr.base.errors import InputError
from bayes_asr.decode.forward.log_likelihoods import LogLikelihoods
from bayes_asr.nn.beam_search import BeamHypothesis
from bayes_asr.nn.decoder import AttentionDecoder
from bayes_asr.nn.encoder_decoder import EncoderDecoder
from bayes_asr.nn.frames import END, DecoderTargets, PackedFrames
from bayes_asr.train.runs.trained_network import TrainedNetwork, read_network


class Writer(LogLikelihoods):
    """A trained network with a decoder: features [T, F] -> what its decoder reads [M, H].

    Its decoder computes in double precision, as the heads of `LogLikelihoods`.
    """

    decoder: AttentionDecoder

    def __init__(self, network: TrainedNetwork, model: EncoderDecoder) -> None:
        """Take the network of a run, and its model."""
        super().__init__(network)
        self.decoder, self.vocabulary = model.decoder, network.classes

    def _read_out(self, hidden: Tensor) -> Tensor:
        return hidden.to(self.log_priors)

    @torch.no_grad()
    def rate_labels(self, encoded_MH: Tensor, labels: Sequence[int]) -> list[float]:
        """The probability of each label after those before, by what the decoder reads."""
        told = DecoderTargets(torch.tensor([*labels, END]), PackedFrames((len(labels) + 1,)), [0])
        logits_NP = self.decoder(encoded_MH, PackedFrames((len(encoded_MH),)), told)
        found = logits_NP.softmax(1).gather(1, told.labels_N[:, None]).flatten()
        return [float(one) for one in found[:-1]]

    def name_labels(self, hypothesis: BeamHypothesis) -> list[str]:
        """The labels of a hypothesis as they are called."""
        return [self.vocabulary[label] for label in hypothesis.labels]


def load_writer(run: Path) -> Writer:
    """The best network of a run; InputError for one without a decoder."""
    network = read_network(run)
    if not network.model.writes_sequences:
        raise InputError(
            f"{run}: this run has no decoder; generate is for runs that were trained with"
            " data.sequences"
        )
    return Writer(network, cast(EncoderDecoder, network.model))
