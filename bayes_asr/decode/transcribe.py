"""From sound to words with times: front end, network and search of a run in a row."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.log import LOGGER
from bayes_asr.config.decoding_keys import SearchOptions
from bayes_asr.config.schema import CONFIG, Config
from bayes_asr.data.directories import locate
from bayes_asr.data.features.front_end import cmvn_statistics
from bayes_asr.data.sound.audio import Channel, load_library
from bayes_asr.data.sound.spectrum import FRAME_SHIFT
from bayes_asr.decode.align.best_path import AlignOptions
from bayes_asr.decode.align.spans import word_spans
from bayes_asr.decode.align.transcript import Pronouncer, read_pronouncer
from bayes_asr.decode.align.utterance import align_utterance
from bayes_asr.decode.forward.generator import SequenceGenerator, load_generator
from bayes_asr.decode.forward.log_likelihoods import LogLikelihoods, load
from bayes_asr.decode.lattices.mbr import decode_risk
from bayes_asr.decode.lattices.paths import Weights, pair_weights
from bayes_asr.decode.recordings import RecordingFrontEnd, Streams
from bayes_asr.decode.search.embedded import choose_engine, decode_utterance
from bayes_asr.decode.search.engine import Engine
from bayes_asr.decode.search.graph_dir import load_decoding_graph
from bayes_asr.decode.search.inputs import check_loglikes
from bayes_asr.decode.search.search_graph import DecodingGraph
from bayes_asr.decode.search.tuned_weights import choose_weights
from bayes_asr.kaldi_io.text import read_symbols
from bayes_asr.nn import beam_search
from bayes_asr.tasks.task import task_of
from bayes_asr.train.runs.configuration import read_configuration

TAIL = 0.05  # of the attention for a label: the share before its begin, and after its end


@dataclass(frozen=True)
class RecognisedWord:
    """A word (or phone) with its begin and end in seconds, and its posterior."""

    word: str
    start: float
    end: float
    confidence: float


@dataclass(frozen=True)
class Transcript:
    """The words recognised in a file of so many seconds."""

    file: str
    seconds: float
    words: list[RecognisedWord]


@dataclass(frozen=True)
class Recogniser:
    """A run, ready to recognise: features to words at the weights that were chosen on dev."""

    network: LogLikelihoods
    graph: DecodingGraph
    words: dict[int, str]
    options: SearchOptions
    weights: Weights
    engine: Engine
    pronouncer: Pronouncer | None
    """To find the times of words; None where the graph's folder has no lexicon."""

    def recognise(self, name: str, features: Streams, cmvn: Streams) -> list[RecognisedWord]:
        """The words of features [T, F]; `cmvn`: statistics [2, F+1] where the run wants them; both
        by stream.
        """
        loglikes = check_loglikes(self.graph, name, self.network(features, cmvn).numpy())
        result = decode_utterance(self.graph, name, loglikes, self.options, self.engine)
        if result.lattice is None:
            raise InputError(
                f"{name}: no path through its {len(loglikes)} frames; try a wider beam"
            )
        if not result.reached_final:
            LOGGER.warning("%s: no path reached a final state; partial words", name)
        # The words of the best path stay; risk gives each its confidence and, roughly, its times.
        hypothesis = decode_risk(result.lattice, *self.weights, change_words=False).words
        words = [self.words[timed.word] for timed in hypothesis]
        spans = self._align(name, words, loglikes) or [(t.start, t.end) for t in hypothesis]
        # Times count frames of the output, each as long as so many of the features.
        shift = FRAME_SHIFT * self.network.model.output_stride
        return [
            RecognisedWord(
                word,
                round(shift * float(start), 3),
                round(shift * float(end), 3),
                round(timed.confidence, 4),
            )
            for timed, word, (start, end) in zip(hypothesis, words, spans, strict=True)
        ]

    def _align(
        self, name: str, words: list[str], loglikes: np.ndarray
    ) -> list[tuple[float, float]] | None:
        """Frames of the words by forced alignment: words of a lattice have no exact times."""
        if self.pronouncer is None:
            return None
        options = AlignOptions(self.options.acoustic_scale)
        try:
            aligned = align_utterance(name, words, loglikes, self.pronouncer, options, self.engine)
            return [*word_spans(words, aligned.transition_ids, self.pronouncer)]
        except InputError as error:
            LOGGER.warning("%s; times are rough", error)
            return None


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


def transcribe(
    run: Path,
    files: Sequence[Path],
    *,
    channel: Channel | None = None,
    one_speaker: bool = False,
    weights: Weights | None = None,
    graph: Path | None = None,
) -> tuple[list[Transcript], list[str]]:
    """Recognise the words of sound files by the best network of `run`; - is standard input.

    Returns transcripts, and a line for each file in which nothing can be recognised. Sound of
    another rate than the front end's is resampled, with a warning. Where the run normalises by or
    adapts to the speaker, each file is one, or all are if `one_speaker`. channel: of several,
    counted from 0, or their mean. `graph`: another folder than the run's. `weights`: LM weight and
    insertion penalty, otherwise those that dev chose with this graph, or those of the search where
    it did not. Runs with a decoder have neither. InputError for a run that is not complete, or
    whose features the front end cannot make.
    """
    load_library()
    config = read_configuration(run)
    network = load_generator(run) if task_of(config).recogniser == "generate" else load(run)
    front_end = RecordingFrontEnd.open(run, network.front_ends, config)
    recogniser = _make_recogniser(run, network, config, weights, graph)
    refused: list[str] = []
    recordings = []
    for file in files:
        with _collect_errors(refused):
            recordings.append(front_end.read(str(file), channel))
    # All files are read first: statistics of one speaker are those of all of them.
    speakers = [recordings] if one_speaker and recordings else [[sound] for sound in recordings]
    transcripts = []
    if speakers:
        together = f"all {len(recordings)} files as of one speaker"
        front_end.describe_speakers(together if one_speaker else "each file by itself")
    for sounds in speakers:
        with _collect_errors(refused):
            front_end.adapt(sounds)
            for sound in sounds:
                with _collect_errors(refused):
                    words = recogniser.recognise(sound.file, sound.features, sound.statistics)
                    transcripts.append(Transcript(sound.file, round(sound.seconds, 3), words))
    return transcripts, refused


def compute_features(
    run: Path, file: Path, channel: Channel | None = None
) -> tuple[Streams, Streams]:
    """Features [T, F] of a sound file by stream, and CMVN statistics [2, F+1] of the file alone.

    Made as those that `run` was trained on; its network takes both. InputError as of `transcribe`.
    """
    front_end = RecordingFrontEnd.open(run, load(run).front_ends, read_configuration(run))
    recording = front_end.read(str(file), channel)
    front_end.adapt([recording])
    features = recording.features
    return features, {name: cmvn_statistics([matrix]) for name, matrix in features.items()}


@contextmanager
def _collect_errors(refused: list[str]) -> Iterator[None]:
    """Collect the error of a file, so that the others are recognised all the same."""
    try:
        yield
    except InputError as error:
        refused.append(str(error))


def _make_recogniser(
    run: Path,
    network: LogLikelihoods,
    config: Config,
    weights: Weights | None,
    other_graph: Path | None,
) -> Recogniser | GeneratingRecogniser:
    if isinstance(network, SequenceGenerator):
        if weights or other_graph:
            raise InputError(
                f"{run}: its decoder writes without a graph and an LM weight; leave --lmwt, --wip"
                " and --graph"
            )
        return GeneratingRecogniser(network, config.decode.beam_width, config.decode.length_penalty)
    graph = other_graph or _locate_graph(run, config)
    model = task_of(config).locate_model()
    search = SearchOptions.from_config(config.decode, allow_partial=True)
    words = {number: word for word, number in read_symbols(graph / "words.txt").items()}
    weights = weights or choose_weights(run, graph, search, is_other=bool(other_graph))
    (checked,) = pair_weights(*([weight] for weight in weights))
    # Kaldi's graph folders need not have a lexicon: words are recognised without it.
    pronouncer = None
    try:
        pronouncer = read_pronouncer(graph, model)
    except (InputError, OSError) as error:
        LOGGER.warning("%s; times are rough", error)
    decoding_graph, engine = load_decoding_graph(graph, model), choose_engine()
    return Recogniser(network, decoding_graph, words, search, checked, engine, pronouncer)


def _locate_graph(run: Path, config: Config) -> Path:
    """The graph of a run; InputError, with the option that names another, where it is gone."""
    try:
        return locate(config.data.graph, config.data, "graph")
    except InputError as error:
        raise InputError(f"{error} in {run / CONFIG}, or give --graph DIR") from None
