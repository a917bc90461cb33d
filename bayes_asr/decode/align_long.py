"""A recording of any length against its whole text, of which parts may be missing or moved.

Segments of speech are recognised with a language model of the text. Words that are recognised as
they follow each other in the text are anchors; what lies between is aligned with the words that may
be said there, some or none of them. The same is done once more with what is not matched. After
SailAlign (Katsamanis et al. 2011) and Kaldi's steps/cleanup/segment_long_utterances.sh.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from bayes_asr.base.errors import InputError, count_of
from bayes_asr.base.log import LOGGER
from bayes_asr.config.decoding_keys import SearchOptions
from bayes_asr.data.sound.audio import Span
from bayes_asr.data.sound.long import leave_out
from bayes_asr.data.sound.spectrum import FRAME_SHIFT
from bayes_asr.decode.align.anchors import (
    FURTHER_CHAIN,
    Island,
    find_passages,
    is_repetitive,
)
from bayes_asr.decode.align.best_path import Alignment, AlignOptions
from bayes_asr.decode.align.partial import PartialAligner
from bayes_asr.decode.align.placement import group_segments, list_candidates
from bayes_asr.decode.align.pronouncer import Pronouncer
from bayes_asr.decode.align.textgrid import TimedAlignment
from bayes_asr.decode.forward.log_likelihoods import LogLikelihoods
from bayes_asr.decode.graph.build import build_graph
from bayes_asr.decode.graph.ngram import estimate_witten_bell
from bayes_asr.decode.lattices.ctm import TimedLabel
from bayes_asr.decode.search.engine import Engine
from bayes_asr.decode.search.inputs import build_decoding_graph, check_loglikes
from bayes_asr.decode.search.search_graph import DecodingGraph
from bayes_asr.decode.search.utterance import decode_utterance
from bayes_asr.decode.speakers import RecordedSegment

ORDER = 4  # of the language model of the text, as Kaldi's make_biased_lms.py has it
BREAK = 0.5  # seconds between two words in which something else may be said
UNSAID = 0.1  # confidence below which words are none that one hears
AGREED = 0.6  # confidence, where one looks once more, and text and sound lie anywhere
LEAST_AGAIN = 2  # words in a row that are looked for, and found, once more
LEAST_EXTRA = 1.0  # seconds of speech without text that are named

ReadSegments = Callable[[Sequence[Span]], Iterator[RecordedSegment]]
TimeWords = Callable[[str, Sequence[str], np.ndarray], TimedAlignment]
"""(name, words, log-likelihoods [T, P]) -> the alignment of them all, with times."""


@dataclass(frozen=True)
class LongAlignment:
    """The words of a text in a recording: by index, in frames of the file; phones likewise.

    spans: the segments of speech, in seconds; anchors: how many words were taken for anchors.
    """

    words: dict[int, TimedLabel]
    phones: list[TimedLabel]
    spans: list[Span]
    frame_shift: float
    anchors: int = 0

    def to_timed(self, frames: int) -> TimedAlignment:
        """The words and phones as the alignment of a file of so many frames, in order of time."""
        words = sorted(self.words.values(), key=lambda word: word.start)
        lengths = np.array([word.end - word.start for word in words], float)
        confidence = np.average([word.confidence for word in words], weights=lengths)
        # Transition-ids are those of parts alone: of the whole only the length is known.
        alignment = Alignment(np.zeros(frames, np.int32), 0.0, retried=False)
        return TimedAlignment(alignment, words, self.phones, float(confidence))

    def find_unsaid(self, count: int) -> Iterator[tuple[int, int]]:
        """Yield runs [begin, end) of words, of so many, that are not in the sound."""
        uttered = [-1, *sorted(self.words), count]
        for index, following in pairwise(uttered):
            if following > index + 1:
                yield index + 1, following

    def find_extra(self) -> Iterator[Span]:
        """Yield spans of speech in seconds that are none of the words."""
        shift = self.frame_shift
        words = sorted((w.start * shift, w.end * shift) for w in self.words.values())
        yield from leave_out(self.spans, words, LEAST_EXTRA)


@dataclass(frozen=True)
class LongAligner:
    """Aligner of recordings of any length: network, pronunciations, options of both searches."""

    network: LogLikelihoods
    pronouncer: Pronouncer
    options: AlignOptions
    search: SearchOptions
    engine: Engine
    timing: TimeWords
    least: float = UNSAID
    """Confidence of a stretch of words that is taken for found."""
    least_words: int = 1
    """Words of such a stretch."""

    def align(
        self, name: str, lines: Sequence[Sequence[str]], spans: Sequence[Span], read: ReadSegments
    ) -> LongAlignment:
        """Find the words of the lines of a text; InputError where none is found.

        spans: the segments of speech of a file in seconds; read: yields what is recorded in spans.
        """
        matched = self._find(name, lines, spans, read, FURTHER_CHAIN)
        text = [word for line in lines for word in line]
        if not matched.words:
            raise InputError(f"{name}: {_explain_nothing(matched.anchors, text)}")
        unsaid = [range(*run) for run in matched.find_unsaid(len(text))]
        indices = [index for run in unsaid if len(run) >= LEAST_AGAIN for index in run]
        stretches = [*matched.find_extra()]
        if not indices or not stretches:
            return matched
        runs = [[text[index] for index in run] for run in unsaid if len(run) >= LEAST_AGAIN]
        strict = replace(self, least=AGREED, least_words=LEAST_AGAIN)
        again = strict._find(name, runs, stretches, read, LEAST_AGAIN)
        LOGGER.info("%s: %d words are found by looking once more", name, len(again.words))
        words = {indices[place]: word for place, word in again.words.items()}
        phones = [*_leave_free(matched.phones, again.phones), *again.phones]
        phones.sort(key=lambda phone: phone.start)
        return replace(matched, words=matched.words | words, phones=phones)

    def _find(
        self,
        name: str,
        lines: Sequence[Sequence[str]],
        spans: Sequence[Span],
        read: ReadSegments,
        shortest: int,
    ) -> LongAlignment:
        """The words of lines that are found in spans; shortest: words of a chain of anchors."""
        text = [word for line in lines for word in line]
        lexicon_words = [self.pronouncer.find_word(word) for word in text]
        # Pass 1: recognition with a language model of the text; words that it finds are anchors
        # where they follow each other in the text.
        recognised = self._recognise(lines, read(spans))
        chains = find_passages(lexicon_words, [word for _, word in recognised], shortest)
        anchors = _place_anchors(chains, [segment for segment, _ in recognised], len(spans))
        anchored = sum(map(len, anchors))
        LOGGER.info("%s: %d of %d words are anchors", name, anchored, len(text))
        placed: dict[int, object] = {index: None for located in anchors for index in located}
        sure = {index for chain in chains for island in chain for index in island.sure_words}
        # Pass 2: the words of the text around the anchors of a group of segments are aligned with
        # it, some or none of them, in the order of the sound.
        words: dict[int, TimedLabel] = {}
        phones: list[TimedLabel] = []
        segments = read(spans)
        for group in group_segments(anchors, [end - begin for begin, end in spans]):
            parts = [next(segments) for _ in range(group.first, group.last)]
            candidates = list_candidates(group, placed, len(text))
            for index in group.anchors:  # one that is not aligned is free for another group
                placed.pop(index, None)
            expected = sure.intersection(group.anchors)
            located, new_phones = self._align_group(parts, candidates, text, expected)
            placed |= located
            words |= located
            phones += new_phones
        return LongAlignment(words, phones, [*spans], self._shift, anchored)

    @property
    def _shift(self) -> float:
        return FRAME_SHIFT * self.network.model.output_stride

    def _recognise(
        self, lines: Sequence[Sequence[str]], segments: Iterator[RecordedSegment]
    ) -> list[tuple[int, str]]:
        """The words of all segments, each with the number of its segment."""
        graph, spelled = self._build_graph(lines)
        words: list[tuple[int, str]] = []
        for number, segment in enumerate(segments):
            sound = segment.recording
            loglikes = self.network(sound.features, sound.statistics).numpy()
            checked = check_loglikes(graph, sound.file, loglikes)
            located = decode_utterance(graph, sound.file, checked, self.search, self.engine)
            words += [(number, spelled[word]) for word in located.words]
        return words

    def _build_graph(self, lines: Sequence[Sequence[str]]) -> tuple[DecodingGraph, dict[int, str]]:
        """A graph of the words of the text, as they follow each other there, and their numbers."""
        pronouncer = self.pronouncer
        sentences = [[pronouncer.find_word(word) for word in line] for line in lines if line]
        # Segments begin and end within lines: the text is also one sentence.
        sentences.insert(0, [word for sentence in sentences for word in sentence])
        vocabulary = {*sentences[0]}
        lexicon = [entry for entry in pronouncer.lang.lexicon if entry.word in vocabulary]
        lang = replace(pronouncer.lang, lexicon=lexicon)
        language_model = estimate_witten_bell(sentences, ORDER)
        phones, model = pronouncer.phones, pronouncer.model
        built = build_graph(lang, language_model, phones, model, pronouncer.tree)
        graph = build_decoding_graph(built.hclg, model, "the graph of the text")
        return graph, {number: word for word, number in built.words.items()}

    def _align_group(
        self,
        segments: Sequence[RecordedSegment],
        candidates: Sequence[int],
        text: Sequence[str],
        expected: Collection[int],
    ) -> tuple[dict[int, TimedLabel], list[TimedLabel]]:
        """The candidates that are spoken in segments, where some are expected, and their phones."""
        if not candidates:
            return {}, []
        parts = [self.network(s.recording.features, s.recording.statistics) for s in segments]
        loglikes = np.concatenate([part.numpy() for part in parts])
        # Frame f of the segments is frame f + offset[f] of the file.
        ends = np.cumsum([len(part) for part in parts])
        begins = [round(s.span[0] / self._shift) for s in segments]
        offsets = np.repeat(
            np.array(begins) - (ends - [len(part) for part in parts]), np.diff([0, *ends])
        )
        name = segments[0].recording.file
        words_of_text = [text[index] for index in candidates]
        try:
            anchors = {i for i, index in enumerate(candidates) if index in expected}
            uttered = self._partial.align(name, words_of_text, loglikes, anchors)
        except InputError as error:
            LOGGER.warning("%s; none of its words is aligned", error)
            return {}, []
        words: dict[int, TimedLabel] = {}
        phones: list[TimedLabel] = []
        for stretch in _split_stretches(uttered, BREAK / self._shift):
            start, end = stretch[0].start, stretch[-1].end
            spoken = [words_of_text[word.index] for word in stretch]
            try:
                timed = self.timing(name, spoken, loglikes[start:end])
            except InputError as error:
                LOGGER.warning("%s; its words are left out", error)
                continue
            if timed.confidence < self.least or len(stretch) < self.least_words:
                continue
            for word, label in zip(stretch, timed.words, strict=True):
                words[candidates[word.index]] = _move(label, start, offsets)
            phones += [_move(label, start, offsets) for label in timed.phones]
        return words, phones

    @cached_property
    def _partial(self) -> PartialAligner:
        return PartialAligner(self.pronouncer, self.options, self.engine)


def _explain_nothing(anchors: int, text: Sequence[str]) -> str:
    """Why no word of a text is found, of which so many were recognised as they follow there."""
    if anchors:
        return (
            f"{count_of(anchors, 'word is', 'words are')} recognised as they follow each other in"
            " the text, but none of them can be aligned: does the network know such speech?"
        )
    if is_repetitive(text):
        return (
            f"the text of {len(text)} words repeats itself, so that words say nothing of their"
            " place; cut sound and text into parts, or take --segments none"
        )
    return (
        "no three words of the text follow each other in what is recognised: is it the text of"
        " this recording?"
    )


def _place_anchors(
    chains: Sequence[Sequence[Island]], segment_of: Sequence[int], count: int
) -> list[list[int]]:
    """The anchored words of each of so many segments, in the order of the sound.

    segment_of: that of each recognised word.
    """
    pairs = sorted(
        (island.sound + i, island.text + i)
        for chain in chains
        for island in chain
        for i in range(island.length)
    )
    anchors: list[list[int]] = [[] for _ in range(count)]
    for sound, text in pairs:
        anchors[segment_of[sound]].append(text)
    return anchors


def _split_stretches(uttered: Sequence[Any], gap: float) -> list[list[Any]]:
    """Runs of said words between which no word is skipped and no more than `gap` frames lie."""
    stretches: list[list[Any]] = []
    for word in uttered:
        last = stretches[-1][-1] if stretches else None
        if last and word.index == last.index + 1 and word.start - last.end <= gap:
            stretches[-1].append(word)
        else:
            stretches.append([word])
    return stretches


def _leave_free(phones: Sequence[TimedLabel], later: Sequence[TimedLabel]) -> list[TimedLabel]:
    """The phones that overlap no later one: silence gives way to what is found there."""
    starts, ends = sorted(p.start for p in later), sorted(p.end for p in later)
    return [p for p in phones if bisect_left(starts, p.end) == bisect_right(ends, p.start)]


def _move(label: TimedLabel, start: int, offsets: np.ndarray) -> TimedLabel:
    """A label of a stretch that begins at frame `start`, in frames of the file."""
    begin, end = int(label.start) + start, int(label.end) + start
    return label._replace(start=begin + int(offsets[begin]), end=end + int(offsets[end - 1]))
