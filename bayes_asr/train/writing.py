"""How many labels a decoder writes wrongly where nobody tells it the right ones."""

from bayes_asr.nn.beam_search import write_greedily
from bayes_asr.nn.encoder_decoder import EncoderDecoder
from bayes_asr.nn.frames import unpack
from bayes_asr.score.counts import count_errors
from bayes_asr.train.batch import Batch


def count_errors_of_writing(model: EncoderDecoder, batch: Batch) -> int:
    """Substitutions, insertions and deletions of greedy search in a batch, the least there can be.

    A decoder writes up to one label for each frame of the features.
    """
    told = batch.told
    if told is None or not told.order:
        return 0
    encoded = model.hidden(batch.streams, batch.frames)
    lengths = list(batch.frames.lengths)
    found = write_greedily(model.decoder, encoded, model.steps(batch.frames), lengths)
    errors = 0
    for place, right in enumerate(unpack(told.labels_N, told.steps, told.order)):
        reference = list(map(str, right[:-1].tolist()))
        errors += count_errors(reference, list(map(str, found[place])), "levenshtein").errors
    return errors
