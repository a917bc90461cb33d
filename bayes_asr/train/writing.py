"""How many labels a decoder writes wrongly where nobody tells it the right ones."""

from bayes_asr.evaluate.score.counts import count_errors
from bayes_asr.nn.beam_search import search_greedily
from bayes_asr.nn.decoder import DecoderTargets
from bayes_asr.nn.encoder_decoder import EncoderDecoder
from bayes_asr.nn.frames import PackedFrames, unpack
from bayes_asr.nn.network import Streams


def count_errors_of_writing(
    model: EncoderDecoder, streams: Streams, frames: PackedFrames, told: DecoderTargets
) -> int:
    """Substitutions, insertions and deletions of greedy search in a batch, the least there can be.

    told: the right labels.
    """
    if not told.order:  # other processes have all utterances
        return 0
    encoded = model.hidden(streams, frames)
    longest = [model.decoder.max_length(length) for length in frames.lengths]
    found = search_greedily(model.decoder, encoded, model.steps(frames), longest)
    errors = 0
    for place, right in enumerate(unpack(told.labels_N, told.steps, told.order)):
        reference, written = map(str, right[:-1].tolist()), map(str, found[place])
        errors += count_errors(list(reference), list(written), "levenshtein").errors
    return errors
