"""From a sound file and its text to the goodness of pronunciation of phones and words."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bayes_asr.data.sound.long import LongSound
from bayes_asr.data.sound.spectrum import FRAME_SHIFT
from bayes_asr.decode.align.best_path import AlignOptions
from bayes_asr.decode.align.spelling import open_pronouncer
from bayes_asr.decode.align.transcripts import TranscriptSource
from bayes_asr.decode.align.utterance_scorer import ScoredUtterance, UtteranceScorer
from bayes_asr.decode.forward.log_likelihoods import load
from bayes_asr.decode.recordings import RecordingFrontEnd
from bayes_asr.decode.search.utterance import choose_engine
from bayes_asr.decode.speakers import recording_name
from bayes_asr.train.runs.configuration import read_configuration
from bayes_asr.train.runs.run_model import locate_model


def score_file(
    run: Path,
    sound: LongSound,
    words: Sequence[str],
    transcripts: TranscriptSource,
    options: AlignOptions,
) -> ScoredUtterance:
    """Score the words that are spoken in a file, by the best network of a run.

    The file is a speaker of its own. The utterance has the name of the recording, messages have
    that of the file. InputError for words that the lexicon lacks and cannot spell, and where it
    cannot be aligned.
    """
    config, network = read_configuration(run), load(run)
    model = locate_model(run, config)
    pronouncer = open_pronouncer(Path(sound.name), model, transcripts, words)
    front_end = RecordingFrontEnd.open(run, network.front_ends, config)
    recording = front_end.read(sound)
    scorer = UtteranceScorer.open(
        pronouncer,
        transcripts.lang,
        network.log_priors.numpy(),
        options,
        choose_engine().name,
        FRAME_SHIFT * network.model.output_stride,
    )
    loglikes = network(recording.features, recording.statistics).numpy()
    scored = scorer.score(sound.name, words, loglikes)
    return replace(scored, utt=recording_name(Path(sound.name)))
