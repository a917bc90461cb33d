"""Label sequences of utterances by beam search with a trained encoder-decoder network."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from bayes_asr.base.progress import follow
from bayes_asr.data.corpus.streams import StoredStreams
from bayes_asr.decode.forward.batches import in_batches
from bayes_asr.decode.forward.directory import choose_batch_frames
from bayes_asr.decode.forward.generator import SequenceGenerator
from bayes_asr.kaldi_io.ark import write_matrices
from bayes_asr.kaldi_io.text import write_lines, write_text
from bayes_asr.nn.beam_search import BeamHypothesis, search


def generate_sequences(
    generator: SequenceGenerator, features: StoredStreams, *, beam_width: int, length_penalty: float
) -> Iterator[tuple[str, BeamHypothesis]]:
    """Yield utterances and the best hypotheses."""
    matrices = ((utt, features[utt]) for utt in follow(features.utterances, "generate"))
    for utt, encoded in in_batches(generator, matrices, choose_batch_frames([generator])):
        yield (
            utt,
            search(
                generator.decoder,
                torch.from_numpy(encoded),
                width=beam_width,
                max_length=generator.decoder.max_length(features.count_frames(utt)),
                length_penalty=length_penalty,
            ),
        )


def write_generated(
    generator: SequenceGenerator,
    hypotheses: Sequence[tuple[str, BeamHypothesis]],
    out: Path,
    *,
    attention: bool,
) -> None:
    """Write words.txt and log_probabilities, and perhaps attention.{ark,scp}, below `out`."""
    write_text(((utt, generator.name_labels(best)) for utt, best in hypotheses), out / "words.txt")
    write_lines(
        (f"{utt} {best.log_probability:.6f}" for utt, best in hypotheses), out / "log_probabilities"
    )
    if attention:
        weights = ((utt, best.weights_LT.float().numpy()) for utt, best in hypotheses)
        write_matrices(weights, out / "attention.ark", out / "attention.scp")
