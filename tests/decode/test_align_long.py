"""Long recordings against texts: whatever is missing or moved, each utterance is found or named."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bayes_asr.base.errors import InputError
from bayes_asr.config.decoding_keys import SearchOptions
from bayes_asr.data.sound.audio import Span
from bayes_asr.data.sound.feature_directories import write_features
from bayes_asr.data.sound.spectrum import Analysis
from bayes_asr.decode.align.anchors import FURTHER_CHAIN
from bayes_asr.decode.align.best_path import AlignOptions
from bayes_asr.decode.align.pronouncer import Pronouncer
from bayes_asr.decode.align.textgrid import TimedAlignment
from bayes_asr.decode.align.timing_aligner import TimingAligner
from bayes_asr.decode.align_long import LEAST_EXTRA, LongAligner, LongAlignment
from bayes_asr.decode.graph.lang import Lang
from bayes_asr.decode.graph.lexicon import Pronunciation
from bayes_asr.decode.lattices.ctm import TimedLabel
from bayes_asr.decode.long_report import LongReport, list_report
from bayes_asr.decode.search.utterance import choose_engine
from bayes_asr.decode.speakers import RecordedSegment, RecordingFeatures
from bayes_asr.kaldi_io.ark import iter_matrices
from bayes_asr.kaldi_io.context_dependency import build_monophone_tree
from bayes_asr.kaldi_io.initial_mdl import build_monophone_model
from tests.support.sounds import riff

PHONES = "abcdefgh"
WORDS = [a + b + c for a in PHONES for b in PHONES for c in PHONES if a != b != c]
FRAMES, PAUSE = 4, 30  # of a state, of which a phone has two; and before an utterance
PASSAGES = 6
ENGINE = choose_engine()


def toy() -> Pronouncer:
    """Words of three of eight phones, each of two states, without context."""
    names = {"<eps>": 0, "sil": 1} | {phone: number for number, phone in enumerate(PHONES, 2)}
    numbers = [*names.values()][1:]
    tree = build_monophone_tree({n: [2 * n - 2, 2 * n - 1] for n in numbers})
    lexicon = [Pronunciation(word, 1.0, tuple(word)) for word in WORDS]
    return Pronouncer(
        Lang(lexicon, "sil", 0.5, None), names, build_monophone_model(numbers, 2), tree
    )


SPEECH = toy()


def speak(utterances: Sequence[Sequence[str]]) -> tuple[np.ndarray, list[Span]]:
    """Log-likelihoods [T, 18] of utterances with a pause before each, and where these are."""
    pdfs: list[int] = []
    spans = []
    for words in utterances:
        pdfs += [0] * (PAUSE // 2) + [1] * (PAUSE // 2)
        begin = len(pdfs)
        numbers = [SPEECH.phones[phone] for word in words for phone in word]
        pdfs += [2 * n - 2 + state for n in numbers for state in (0, 1) for _ in range(FRAMES)]
        spans.append((begin / 100, len(pdfs) / 100))
    loglikes = np.full((len(pdfs), 18), -60, np.float32)
    loglikes[np.arange(len(pdfs)), (np.array(pdfs) + 3) % 18] = -4
    loglikes[np.arange(len(pdfs)), pdfs] = 0
    return loglikes, spans


def hear(features: Any, statistics: Any) -> torch.Tensor:
    """The network: log-likelihoods are in the features."""
    return torch.from_numpy(features["features"])


def align(
    lines: Sequence[Sequence[str]],
    sound: Sequence[Sequence[str]],
    timing: type[TimingAligner] = TimingAligner,
) -> tuple[Any, Any]:
    """The alignment of lines with utterances, and where these are."""
    loglikes, spans = speak(sound)

    def read(parts: Sequence[Span]) -> Iterator[RecordedSegment]:
        for begin, end in parts:
            x = loglikes[round(100 * begin) : round(100 * end)]
            yield RecordedSegment(
                (begin, end), RecordingFeatures("x", end - begin, {"features": x})
            )

    network = cast(Any, hear)
    network.model = SimpleNamespace(output_stride=1)
    timed = timing(SPEECH, AlignOptions(0.1), ENGINE)
    search = SearchOptions(acoustic_scale=0.1, allow_partial=True)
    aligner = LongAligner(network, SPEECH, AlignOptions(0.1), search, ENGINE, timed.align)
    return aligner.align("x", lines, spans, read), spans


@pytest.mark.parametrize("seed", [*range(8), 56, 80])
def test_every_utterance_is_found_or_named(seed: int) -> None:
    """Passages of one to three utterances are moved, said by nobody, or not in the text."""
    rng = random.Random(seed)
    order = rng.sample(range(PASSAGES), PASSAGES)
    unsaid, without_text = (rng.sample(range(PASSAGES), rng.randint(0, 2)) for _ in range(2))
    passages = [
        [tuple(rng.sample(WORDS, rng.randint(2, 6))) for _ in range(rng.randint(1, 3))]
        for _ in range(PASSAGES)
    ]
    lines = [line for n, part in enumerate(passages) if n not in without_text for line in part]
    sound = [line for n in order if n not in unsaid for line in passages[n]]
    text = [word for line in lines for word in line]
    aligned, spans = align(lines, sound)
    report = LongReport.of(aligned, lines)
    missing = {index for run in aligned.find_unsaid(len(text)) for index in range(*run)}
    assert sorted([*aligned.words, *missing]) == [*range(len(text))]
    assert sum(len(passage.words) for passage in report.unsaid) == len(missing)
    for line, (begin, end) in zip(sound, spans, strict=True):
        inside = sorted(
            (word.start, word.label)
            for word in aligned.words.values()
            if begin <= word.start / 100 and word.end / 100 <= end
        )
        # What is found in an utterance are phones of it, also where they end one word there.
        assert all(label in "".join(line) for _, label in inside)
        without_words = sum(max(0, min(b, end) - max(a, begin)) for a, b in report.extra)
        if line not in lines and end - begin >= LEAST_EXTRA:
            assert inside or without_words >= end - begin - 0.02
        if len(line) >= FURTHER_CHAIN and line in lines:
            assert inside


def test_passages_are_lines_that_follow_each_other() -> None:
    starts = {2: 0, 3: 10, 0: 20}
    words = {i: TimedLabel("abcd"[i], start, start + 5, 1.0) for i, start in starts.items()}
    report = LongReport.of(LongAlignment(words, [], [(0.0, 2.0)], 0.01), [[x] for x in "abcd"])
    assert report.order == [[3, 4], [1, 1]]
    said = report.summarise()
    assert "line 1: said behind lines 3 to 4" in said
    assert "line 2: 1 word is not in the sound: b" in said
    assert [passage.words for passage in report.unsaid] == [["b"]]
    assert report.extra == [[0.25, 2.0]]


def place_words(starts: Mapping[int, int]) -> LongAlignment:
    """Words of which each lasts a frame of a second, in speech that lasts from 0 to 100 s."""
    words = {
        index: TimedLabel(str(index), start, start + 1, 1.0) for index, start in starts.items()
    }
    return LongAlignment(words, [], [(0.0, 100.0)], 1.0)


def test_a_line_lies_where_most_of_its_words_follow_each_other(tmp_path: Path) -> None:
    # The fourth word is heard behind the second line, the first of the third line before all.
    aligned = place_words({0: 10, 1: 11, 2: 12, 3: 16, 4: 13, 5: 14, 6: 15, 7: 9, 8: 17, 9: 18})
    lines = [["w"] * 4, ["w"] * 3, ["w"] * 3]
    report = LongReport.of(aligned, lines)
    assert [(x.spoken, x.together, x.start, x.end) for x in report.lines] == [
        *((4, 3, 10, 13), (3, 3, 13, 16), (3, 2, 17, 19))
    ]
    assert report.order == [[1, 3]]
    report.write("x", tmp_path / "x.wav", lines, tmp_path)
    assert (tmp_path / "segments").read_text() == "x-000002 x 13.00 16.00\n"


def write_lines_of(starts: Mapping[int, int], lines: list[list[str]], out: Path) -> None:
    """The report of words of a second each in x.wav of the working folder."""
    LongReport.of(place_words(starts), lines).write("x", Path("x.wav"), lines, out)


@pytest.mark.parametrize(
    ("starts", "words", "stay"),
    [
        ({0: 5, 1: 6, 2: 7, 3: 8}, "abcd", True),
        ({0: 5, 1: 6, 2: 8, 3: 9}, "abcd", False),
        ({0: 5, 1: 6, 2: 7, 3: 8}, "abce", False),
    ],
    ids=["equal", "elsewhere", "other words"],
)
def test_features_of_other_lines_go(
    starts: dict[int, int], words: str, stay: bool, tmp_path: Path
) -> None:
    write_lines_of({0: 5, 1: 6, 2: 7, 3: 8}, [["a", "b"], ["c", "d"]], tmp_path)
    features = {"feats.scp", "feats.ark", "cmvn.scp", "cmvn.ark", "frontend.json"}
    for name in features:
        (tmp_path / name).touch()
    write_lines_of(starts, [[*words[:2]], [*words[2:]]], tmp_path)
    there = {path.name for path in tmp_path.iterdir()}
    assert features & there == (features if stay else set())
    assert features <= {path.name for path in list_report(tmp_path)}


@pytest.mark.parametrize("side", [0, 1])
def test_features_of_lines_are_of_the_channel_that_was_aligned(
    side: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, messages: Callable[[], str]
) -> None:
    pytest.importorskip("kaldi_native_fbank")
    samples = np.random.default_rng(0).integers(-999, 999, (16000, 2)).astype(np.int16)
    (tmp_path / "x.wav").write_bytes(riff(samples))
    monkeypatch.chdir(tmp_path)
    report, data = LongReport.of(place_words({0: 0}), [["a"]]), tmp_path / "data"
    report.write("x", Path("x.wav"), [["a"]], data, side)
    analysis = Analysis("fbank", bands=23)
    write_features(data, analysis)
    found = dict(iter_matrices(data / "feats.scp"))
    assert np.array_equal(found["x-000001"], analysis(samples[:, side].astype(np.float32)))
    report.write("x", Path("x.wav"), [["a"]], data, "mean")
    assert (data / "segments").read_text() == "x-000001 x 0.00 1.00\n"
    assert "--channel mean" in messages()


def test_lines_that_are_left_out_of_a_passage_are_none_of_it() -> None:
    report = LongReport.of(place_words({0: 0, 3: 1, 4: 2, 1: 3, 2: 4}), [["w"]] * 5)
    assert report.order == [[1, 1], [4, 5], [2, 3]]


@given(st.permutations(range(9)), st.sets(st.integers(0, 8)), st.sets(st.integers(0, 8)))
def test_words_are_together_between_which_nothing_else_is_said(
    order: list[int], unsaid: set[int], followed: set[int]
) -> None:
    """followed: places in the sound behind which speech without text lasts two seconds."""
    starts, sequence = {}, [-1]
    for index in order:
        if index not in unsaid:
            starts[index] = len(sequence)
            sequence += [index, -1, -1] if len(starts) in followed else [index]
    report = LongReport.of(place_words(starts), [["w"] * 4, ["w"] * 5])
    for line, indices in zip(report.lines, (range(4), range(4, 9)), strict=True):
        said = [index for index in indices if index in starts]
        parts = [said[i:j] for i in range(len(said)) for j in range(i + 1, len(said) + 1)]
        lengths = [
            len(part)
            for part in parts
            if any(sequence[k : k + len(part)] == part for k in range(len(sequence)))
        ]
        assert line.together == max(lengths, default=0)


class Deaf(TimingAligner):
    """An aligner that aligns nothing."""

    def align(self, utt: str, words: Sequence[str], loglikes: np.ndarray) -> TimedAlignment:
        raise InputError("no path")


def test_why_nothing_is_found_is_said() -> None:
    line = [*WORDS[:6]]
    with pytest.raises(InputError, match=r"x: 6 words are .* but none of them can be aligned"):
        align([line], [line], Deaf)
    with pytest.raises(InputError, match="text of 60 words repeats itself"):
        align([["abc", "bcd"] * 30], [["abc", "bcd"] * 30])
    with pytest.raises(InputError, match="no three words"):
        align([line], [line[:1]])


class EarlySilence(TimingAligner):
    """An aligner that hears the last frames of a stretch as a silence behind its last word."""

    def align(self, utt: str, words: Sequence[str], loglikes: np.ndarray) -> TimedAlignment:
        timed, end = super().align(utt, words, loglikes), len(loglikes)
        for labels in (timed.words, timed.phones):
            labels[-1] = labels[-1]._replace(end=end - FRAMES)
        timed.phones.append(TimedLabel("sil", end - FRAMES, end, 0.5))
        return timed


def test_silence_gives_way_to_a_word_that_is_found_later() -> None:
    rng = random.Random(1)
    first = [*rng.sample(WORDS, 4), "cab"]
    # In place of the end of "b", the network would also take the begin of "d".
    moved, further, second = ["dah", "gec"], rng.sample(WORDS, 4), rng.sample(WORDS, 5)
    lines, sound = [first, second, moved], [[*first, *moved, *further], second]
    phones = align(lines, sound, EarlySilence)[0].phones
    exact = align(lines, sound)[0].phones
    assert "".join(p.label for p in phones if p.label != "sil") == "".join(
        p.label for p in exact if p.label != "sil"
    )
    assert all(earlier.end <= later.start for earlier, later in pairwise(phones))
