"""A trained encoder-decoder network, which generates the labels of an utterance."""

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


class SequenceGenerator(LogLikelihoods):
    """A trained network with a decoder: features [T, F] -> the outputs of its encoder [M, H].

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
    def label_probabilities(self, encoded_MH: Tensor, labels: Sequence[int]) -> list[float]:
        """The probability of each label given those before; encoded_MH: of the encoder."""
        sequence = torch.tensor([*labels, END])
        targets = DecoderTargets(sequence, PackedFrames((len(sequence),)), [0])
        logits_NP = self.decoder(encoded_MH, PackedFrames((len(encoded_MH),)), targets)
        probabilities = logits_NP.softmax(1).gather(1, targets.labels_N[:, None]).flatten()
        return [float(p) for p in probabilities[:-1]]

    def name_labels(self, hypothesis: BeamHypothesis) -> list[str]:
        """The labels of a hypothesis as they are called."""
        return [self.vocabulary[label] for label in hypothesis.labels]


def load_generator(run: Path) -> SequenceGenerator:
    """The best network of a run; InputError for one without a decoder."""
    network = read_network(run)
    if not network.model.writes_sequences:
        raise InputError(
            f"{run}: this run has no decoder; generate is for runs that were trained with"
            " data.sequences"
        )
    return SequenceGenerator(network, cast(EncoderDecoder, network.model))
