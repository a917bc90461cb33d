"""Words of features: a run with its graph and the weights that dev chose."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError, opening
from bayes_asr.base.log import LOGGER
from bayes_asr.config.decoding_keys import SearchOptions
from bayes_asr.config.schema import Config
from bayes_asr.data.directories import locate
from bayes_asr.decode.align.best_path import AlignOptions
from bayes_asr.decode.align.forced import align_utterance, word_spans
from bayes_asr.decode.align.pronouncer import Pronouncer
from bayes_asr.decode.align.transcripts import read_pronouncer
from bayes_asr.decode.forward.interface import Streams
from bayes_asr.decode.forward.log_likelihoods import LogLikelihoods
from bayes_asr.decode.forward.network_record import describe_network
from bayes_asr.decode.lattices.ctm import FRAME_SHIFT
from bayes_asr.decode.lattices.mbr import TimedWord, decode_mbr
from bayes_asr.decode.lattices.paths import Weights, count_settled, pair_weights
from bayes_asr.decode.lattices.word_times import WordTimer
from bayes_asr.decode.search.engine import Engine
from bayes_asr.decode.search.graph_dir import load_decoding_graph
from bayes_asr.decode.search.inputs import check_loglikes
from bayes_asr.decode.search.lattice_session import LatticeSession
from bayes_asr.decode.search.search_graph import DecodingGraph
from bayes_asr.decode.search.tuned_weights import choose_weights
from bayes_asr.decode.search.utterance import choose_engine
from bayes_asr.kaldi_io.lattice import CompactLattice
from bayes_asr.kaldi_io.side_files import CONFIG
from bayes_asr.kaldi_io.symbols import WordSymbols
from bayes_asr.train.runs.run_model import locate_model


@dataclass(frozen=True)
class RecognisedWord:
    """A word (or phone) with its begin and end in seconds, and its posterior."""

    word: str
    start: float
    end: float
    confidence: float


@dataclass(frozen=True)
class RecogniserOptions:
    """Options of the search of a run.

    graph: another folder than the run's; weights: LM weight and insertion penalty, otherwise those
    that dev chose with this graph, or those of the search where it did not; hotwords: a file of
    words and phrases to prefer.
    """

    graph: Path | None = None
    weights: Weights | None = None
    hotwords: Path | None = None


OF_RUN = RecogniserOptions()
"""The graph and the weights of the run itself."""


@dataclass(frozen=True)
class Recogniser:
    """A run, ready to recognise: features to words at the weights that were chosen on dev."""

    network: LogLikelihoods
    graph_dir: Path
    model: Path
    """The final.mdl whose pdfs network and graph have."""
    graph: DecodingGraph
    words: WordSymbols
    options: SearchOptions
    weights: Weights
    engine: Engine
    pronouncer: Pronouncer | None
    """To find the times of words; None where the graph's folder has no lexicon."""
    mbr: bool = False
    """Whether words are those of least expected error, not those of the best path."""

    def recognise(self, name: str, features: Streams, cmvn: Streams) -> list[RecognisedWord]:
        """The words of features [T, F]; `cmvn`: statistics [2, F+1] where the run wants them; both
        by stream.
        """
        loglikes = check_loglikes(self.graph, name, self.network(features, cmvn).numpy())
        session = self.open(name)
        session.advance(loglikes)
        return self.name_words(name, loglikes, *session.finish())

    def open(self, name: str) -> LatticeSession:
        """Begin an utterance whose log-likelihoods arrive in pieces."""
        return LatticeSession(self.graph, name, self.options, self.engine)

    def name_words(
        self, name: str, loglikes: np.ndarray, lattice: CompactLattice | None, reached: bool
    ) -> list[RecognisedWord]:
        """The words of the lattice of log-likelihoods [T, P], whose paths may have `reached` a
        final state.
        """
        if lattice is None:
            raise InputError(
                f"{name}: no path through its {len(loglikes)} frames; try a wider beam"
            )
        if not reached:
            LOGGER.warning("%s: no path reached a final state; partial words", name)
        hypothesis = decode_mbr(lattice, *self.weights, change_words=self.mbr, name=name).words
        words = [self.words[timed.word] for timed in hypothesis]
        if spans := self._align(name, words, loglikes):
            return self._place(hypothesis, spans)
        return self._time(name, lattice, change_words=self.mbr)

    def name_settled(self, name: str, lattice: CompactLattice) -> list[RecognisedWord]:
        """The words of a lattice, not of a whole utterance, that all of its ends have in common."""
        count = count_settled(lattice, *self.weights)
        return self._time(name, lattice, change_words=False)[:count]

    def _time(
        self, name: str, lattice: CompactLattice, *, change_words: bool
    ) -> list[RecognisedWord]:
        """The words of the best path, or of least expected error, with confidences and their times
        in the mean of all paths.
        """
        words = decode_mbr(
            lattice, *self.weights, change_words=change_words, name=name, timer=self._timer
        ).words
        return self._place(words, [(word.start, word.end) for word in words])

    @cached_property
    def _timer(self) -> WordTimer | None:
        return self.pronouncer.time_words(self.words) if self.pronouncer else None

    def _place(
        self, hypothesis: list[TimedWord], spans: Sequence[tuple[float, float]]
    ) -> list[RecognisedWord]:
        # Times count frames of the output, each as long as so many of the features.
        shift = FRAME_SHIFT * self.network.model.output_stride
        return [
            RecognisedWord(
                self.words[timed.word],
                round(shift * float(start), 3),
                round(shift * float(end), 3),
                round(timed.confidence, 4),
            )
            for timed, (start, end) in zip(hypothesis, spans, strict=True)
        ]

    def _align(
        self, name: str, words: list[str], loglikes: np.ndarray
    ) -> list[tuple[float, float]] | None:
        """Frames of the words by forced alignment, where these words can be aligned."""
        if self.pronouncer is None:
            return None
        options = AlignOptions(self.options.acoustic_scale)
        try:
            aligned = align_utterance(name, words, loglikes, self.pronouncer, options, self.engine)
            return [*word_spans(words, aligned.transition_ids, self.pronouncer)]
        except InputError as error:
            LOGGER.warning("%s; times are rough", error)
            return None


def open_recogniser(
    run: Path, network: LogLikelihoods, config: Config, options: RecogniserOptions
) -> Recogniser:
    """Return a run with its graph and the weights that dev chose, or those of the options."""
    graph = options.graph or locate_graph(run, config)
    model = locate_model(run, config)
    search = SearchOptions.from_config(config.decode, allow_partial=True)
    words = WordSymbols(graph / "words.txt")
    weights = options.weights or choose_weights(
        run, graph, config.decode, describe_network(run), is_other=bool(options.graph)
    )
    (checked,) = pair_weights(*([weight] for weight in weights))
    # Kaldi's graph folders need not have a lexicon: words are recognised without it.
    pronouncer = None
    try:
        with opening():
            pronouncer = read_pronouncer(graph, model)
    except InputError as error:
        LOGGER.warning("%s; times are rough", error)
    decoding_graph = load_decoding_graph(graph, model, None, options.hotwords)
    engine = choose_engine()
    return Recogniser(
        network,
        graph,
        model,
        decoding_graph,
        words,
        search,
        checked,
        engine,
        pronouncer,
        mbr=config.decode.mbr,
    )


def locate_graph(run: Path, config: Config) -> Path:
    """Return the graph of a run; InputError, with what to do, where it is gone."""
    try:
        return locate(config.data.graph, config.data, "graph")
    except InputError as error:
        raise InputError(f"{error} in {run / CONFIG}, or give --graph DIR") from None
