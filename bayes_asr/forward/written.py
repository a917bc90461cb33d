"""The labels that a trained encoder-decoder network writes of utterances."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from bayes_asr.errors import InputError
from bayes_asr.features.streams import StoredStreams
from bayes_asr.forward.directory import choose_batch_frames, in_batches
from bayes_asr.forward.log_likelihoods import LogLikelihoods
from bayes_asr.nn.beam_search import Hypothesis, search
from bayes_asr.nn.decoder import END, Decoder, Told
from bayes_asr.nn.encoder_decoder import EncoderDecoder
from bayes_asr.nn.frames import Frames
from bayes_asr.progress import follow
from bayes_asr.runs.trained_network import TrainedNetwork, read_network
from bayes_asr.tables.ark import write_matrices
from bayes_asr.tables.text import write_lines, write_text


class Writer(LogLikelihoods):
    """A trained network with a decoder: features [T, F] -> what its decoder reads [M, H].

    Its decoder computes in double precision, as the heads of `LogLikelihoods`.
    """

    decoder: Decoder

    def __init__(self, network: TrainedNetwork, model: EncoderDecoder) -> None:
        """Take the network of a run, and its model."""
        super().__init__(network)
        self.decoder, self.vocabulary = model.decoder, network.classes

    def _read_out(self, hidden: Tensor) -> Tensor:
        return hidden.to(self.log_priors)

    @torch.no_grad()
    def rate_labels(self, encoded_MH: Tensor, labels: Sequence[int]) -> list[float]:
        """The probability of each label after those before, by what the decoder reads."""
        told = Told(torch.tensor([*labels, END]), Frames((len(labels) + 1,)), [0])
        logits_NP = self.decoder(encoded_MH, Frames((len(encoded_MH),)), told)
        found = logits_NP.softmax(1).gather(1, told.labels_N[:, None]).flatten()
        return [float(one) for one in found[:-1]]

    def name_labels(self, hypothesis: Hypothesis) -> list[str]:
        """The labels of a hypothesis as they are called."""
        return [self.vocabulary[label] for label in hypothesis.labels]


def load_writer(run: Path) -> Writer:
    """The best network of a run; InputError for one without a decoder."""
    network = read_network(run)
    if not isinstance(network.model, EncoderDecoder):
        raise InputError(
            f"{run}: this run has no decoder; generate is for runs that were trained with"
            " data.sequences"
        )
    return Writer(network, network.model)


def write_sequences(
    writer: Writer, features: StoredStreams, *, beam_width: int, length_penalty: float
) -> Iterator[tuple[str, Hypothesis]]:
    """Yield utterances and the best hypotheses, of at most one label for each frame."""
    matrices = ((utt, features[utt]) for utt in follow(features.utterances, "generate"))
    for utt, encoded in in_batches(writer, matrices, choose_batch_frames([writer])):
        yield (
            utt,
            search(
                writer.decoder,
                torch.from_numpy(encoded),
                width=beam_width,
                longest=features.count_frames(utt),
                length_penalty=length_penalty,
            ),
        )


def write_folder(
    writer: Writer, hypotheses: Sequence[tuple[str, Hypothesis]], out: Path, *, attention: bool
) -> None:
    """Write words.txt and log_probabilities, and perhaps attention.{ark,scp}, below `out`."""
    write_text(((utt, writer.name_labels(one)) for utt, one in hypotheses), out / "words.txt")
    write_lines(
        (f"{utt} {one.log_probability:.6f}" for utt, one in hypotheses), out / "log_probabilities"
    )
    if attention:
        weights = ((utt, one.weights_LT.float().numpy()) for utt, one in hypotheses)
        write_matrices(weights, out / "attention.ark", out / "attention.scp")
