"""Training of a decoder with teacher forcing; on dev it is judged by greedy search."""

from typing import cast

from bayes_asr.evaluate.score.counts import count_errors
from bayes_asr.nn.beam_search import search_greedily
from bayes_asr.nn.encoder_decoder import EncoderDecoder
from bayes_asr.nn.frames import unpack
from bayes_asr.nn.network import AcousticModel
from bayes_asr.train.batch import Batch
from bayes_asr.train.task_training import TaskTraining


class SequencesTraining(TaskTraining):
    """Training by the cross entropy of each label, given the correct labels before it."""

    def count_errors(self, model: AcousticModel, batch: Batch) -> int:
        """Substitutions, insertions and deletions of greedy search in a batch."""
        targets, decoder = batch.decoder_targets, cast(EncoderDecoder, model).decoder
        if targets is None or not targets.order:  # other processes have all utterances
            return 0
        encoded = model.hidden(batch.streams, batch.frames)
        longest = [decoder.max_length(length) for length in batch.frames.lengths]
        hypotheses = search_greedily(decoder, encoded, model.output_frames(batch.frames), longest)
        errors = 0
        for index, labels in enumerate(unpack(targets.labels_N, targets.steps, targets.order)):
            # The last label is END, which a hypothesis does not have.
            reference = list(map(str, labels[:-1].tolist()))
            hypothesis = list(map(str, hypotheses[index]))
            errors += count_errors(reference, hypothesis, "levenshtein").errors
        return errors
