"""From sound to words with times: front end, network and search of a run in a row."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.log import LOGGER
from bayes_asr.config.schema import Config
from bayes_asr.data.sound.audio import Channel, load_library
from bayes_asr.data.sound.long import LongSound
from bayes_asr.data.sound.spectrum import FRAME_SHIFT
from bayes_asr.decode.forward.generator import SequenceGenerator, load_generator
from bayes_asr.decode.forward.interface import Streams
from bayes_asr.decode.forward.log_likelihoods import LogLikelihoods, load
from bayes_asr.decode.recognise import (
    OF_RUN,
    RecognisedWord,
    Recogniser,
    RecogniserOptions,
    open_recogniser,
)
from bayes_asr.decode.recordings import RecordingFrontEnd
from bayes_asr.decode.segments import Segmentation, SegmentedFile, Segmenter, SilenceModel
from bayes_asr.decode.speakers import RecordingFeatures, Speaker
from bayes_asr.kaldi_io.mdl import read_transition_model
from bayes_asr.nn import beam_search
from bayes_asr.tasks.task import task_of
from bayes_asr.train.runs.configuration import read_configuration

TAIL = 0.05  # of the attention for a label: the share before its begin, and after its end


@dataclass(frozen=True)
class GeneratingRecogniser:
    """A run with a decoder, ready to recognise: features to the labels that it writes."""

    generator: SequenceGenerator
    beam_width: int
    length_penalty: float

    def recognise(self, name: str, features: Streams, cmvn: Streams) -> list[RecognisedWord]:
        """As of `Recogniser`: the probability of a label is that after the labels before, its time
        where nine tenths of the attention for it lie.
        """
        encoded_MH = self.generator(features, cmvn)
        frames = len(next(iter(features.values())))
        hypothesis = beam_search.search(
            self.generator.decoder,
            encoded_MH,
            width=self.beam_width,
            max_length=self.generator.decoder.max_length(frames),
            length_penalty=self.length_penalty,
        )
        probabilities = self.generator.label_probabilities(encoded_MH, hypothesis.labels)
        seconds = FRAME_SHIFT * frames
        if self.generator.decoder.attention is None:
            LOGGER.warning("%s: a decoder without attention knows no times; those are of all", name)
            spans = [(0.0, seconds)] * len(probabilities)
        else:
            # The last row of weights [L + 1, T] is that of the end of the sequence.
            spans = [_find_span(weights.numpy(), seconds) for weights in hypothesis.weights_LT[:-1]]
        return [
            RecognisedWord(label, round(start, 3), round(end, 3), round(probability, 4))
            for label, (start, end), probability in zip(
                self.generator.name_labels(hypothesis), spans, probabilities, strict=True
            )
        ]


def _find_span(weights_M: np.ndarray, seconds: float) -> tuple[float, float]:
    """Begin and end of a label by its attention weights [M], over frames of so many seconds."""
    # Quantiles of the attention, as times: a step of the decoder looks at many frames.
    cumulative = weights_M.cumsum()
    begin, end = np.searchsorted(cumulative, [TAIL, 1 - TAIL])
    step = seconds / len(weights_M)
    return step * int(begin), step * (min(int(end), len(weights_M) - 1) + 1)


@dataclass(frozen=True)
class Transcript:
    """The words recognised in a file of so many seconds.

    segments: of speech, in which words were looked for; unheard: those of them in which nothing
    could be recognised; both [begin, end] in seconds.
    """

    file: str
    seconds: float
    words: list[RecognisedWord]
    segments: list[list[float]] = field(default_factory=list)
    unheard: list[list[float]] = field(default_factory=list)


def transcribe(
    run: Path,
    files: Sequence[Path],
    options: RecogniserOptions = OF_RUN,
    *,
    channel: Channel | None = None,
    one_speaker: bool = False,
    segmenter: Segmenter | None = None,
) -> Iterator[Transcript | InputError]:
    """Recognise the words of sound files by the best network of `run`; - is standard input.

    Yields the transcript of each file as soon as it is made, or the error of one in which nothing
    can be recognised. Sound of another rate than the front end's is resampled, with a warning.
    Where the run normalises by or adapts to the speaker, each file is one, or all are if
    `one_speaker`. options: a run with a decoder has none. channel: of several, counted from 0, or
    their mean. segmenter: finds speech, whose segments are recognised one by one; None cuts what is
    longer than a minute. InputError for a run that is not complete, or whose features the front end
    cannot make, and where what `segmenter` needs is absent.
    """
    load_library()
    config = read_configuration(run)
    network = load_generator(run) if task_of(config).recogniser == "generate" else load(run)
    front_end = RecordingFrontEnd.open(run, network.front_ends, config)
    recogniser = _choose_recogniser(run, network, config, options)
    segmentation = _make_segmentation(recogniser, front_end, segmenter)
    segmentation.prepare(segmenter)
    if not one_speaker:
        front_end.describe_speakers("each file by itself")
    for names in [files] if one_speaker else [[name] for name in files]:
        sounds: list[tuple[SegmentedFile, list[RecordingFeatures]]] = []
        for name in names:
            try:
                file = segmentation.open(str(name), channel)
                sounds.append((file, file.sample()))
            except InputError as error:
                yield error
        if sounds:
            if one_speaker:
                front_end.describe_speakers(f"all {len(sounds)} files as of one speaker")
            yield from _recognise_speaker(recogniser, front_end, sounds)


def _recognise_speaker(
    recogniser: Recogniser | GeneratingRecogniser,
    front_end: RecordingFrontEnd,
    sounds: Sequence[tuple[SegmentedFile, list[RecordingFeatures]]],
) -> Iterator[Transcript | InputError]:
    """Recognise files with samples of them, of which the statistics of their speaker are made."""
    who = f"all {len(sounds)} files" if len(sounds) > 1 else sounds[0][0].sound.name
    try:
        speaker = front_end.estimate(who, [x for _, sample in sounds for x in sample])
    except InputError as error:
        yield error
        return
    for file, _ in sounds:
        try:
            result: Transcript | InputError = _recognise_file(recogniser, file, speaker)
        except InputError as error:
            result = error
        yield result


def _choose_recogniser(
    run: Path, network: LogLikelihoods, config: Config, options: RecogniserOptions
) -> Recogniser | GeneratingRecogniser:
    if not isinstance(network, SequenceGenerator):
        return open_recogniser(run, network, config, options)
    if options != OF_RUN:
        raise InputError(
            f"{run}: its decoder writes without a graph and an LM weight; leave --lmwt, --wip,"
            " --graph and --hotwords"
        )
    return GeneratingRecogniser(network, config.decode.beam_width, config.decode.length_penalty)


def _recognise_file(
    recogniser: Recogniser | GeneratingRecogniser, file: SegmentedFile, speaker: Speaker
) -> Transcript:
    """The words of all segments of a file; InputError where nothing can be recognised in any."""
    spans = file.find_speech(speaker)
    words: list[RecognisedWord] = []
    unheard, faults = [], []
    for segment in file.read(spans, speaker):
        sound, begin = segment.recording, segment.span[0]
        try:
            recognised = recogniser.recognise(sound.file, sound.features, sound.statistics)
        except InputError as error:
            unheard.append([*segment.span])
            faults.append(error)
            continue
        words += [_shift(word, begin) for word in recognised]
    if faults and len(faults) == len(spans):
        raise faults[0]
    for fault in faults:
        LOGGER.warning("%s", fault)
    segments = [[round(begin, 3), round(end, 3)] for begin, end in spans]
    seconds = round(file.sound.seconds, 3)
    return Transcript(file.sound.name, seconds, words, segments, unheard)


def _shift(word: RecognisedWord, begin: float) -> RecognisedWord:
    """A word of a segment with its times in the file, where the segment begins at `begin`."""
    return replace(word, start=round(word.start + begin, 3), end=round(word.end + begin, 3))


def _make_segmentation(
    recogniser: Recogniser | GeneratingRecogniser,
    front_end: RecordingFrontEnd,
    segmenter: Segmenter | None,
) -> Segmentation:
    if isinstance(recogniser, Recogniser):

        def open_silence() -> SilenceModel:
            transitions = read_transition_model(recogniser.model)
            return SilenceModel.open(recogniser.network, recogniser.graph_dir, transitions)

        return Segmentation(front_end.compute, segmenter, "network", open_silence)

    def refuse() -> SilenceModel:
        raise InputError("a decoder with attention does not hear silence; take --segments vad")

    return Segmentation(front_end.compute, segmenter, "vad", refuse)


def compute_features(
    run: Path, file: Path, channel: Channel | None = None
) -> tuple[Streams, Streams]:
    """Features [T, F] of a sound file by stream, and CMVN statistics [2, F+1] of the file alone.

    Made as those that `run` was trained on; its network takes both. Digital silence has features,
    and no part in the statistics. InputError as of `transcribe`.
    """
    front_end = RecordingFrontEnd.open(run, load(run).front_ends, read_configuration(run))
    recording = front_end.read(LongSound.open(str(file), channel))
    return recording.features, recording.statistics
