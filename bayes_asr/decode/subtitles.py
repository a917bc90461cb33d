"""Subtitles, as SRT and WebVTT, of words with times.

Cues keep to the usual conventions: at most two lines of 42 characters, one to seven seconds. Where
they break is the cheapest choice over all words of a file (as Knuth & Plass 1981 break lines).
"""

import html
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from bayes_asr.kaldi_io.text import write_lines

WIDTH = 42  # characters of a line; a longer word has a line of its own
SHORTEST, LONGEST = 1.0, 7.0  # seconds of a cue
# Costs: of a cue, of each second that one is too short, and of each second of a pause inside one.
OF_CUE, OF_SHORTNESS, OF_PAUSE = 1.0, 100.0, 4.0
Format = Literal["srt", "vtt"]


class Timed(Protocol):
    """A word with its begin and end in seconds."""

    @property
    def word(self) -> str: ...
    @property
    def start(self) -> float: ...
    @property
    def end(self) -> float: ...


@dataclass(frozen=True)
class Cue:
    """Lines that are shown from a time to another, in seconds."""

    start: float
    end: float
    lines: tuple[str, ...]


@dataclass(frozen=True)
class _Placed:
    word: str
    start: float
    end: float


def make_cues(timed_words: Sequence[Timed], seconds: float = math.inf) -> list[Cue]:
    """The cues of words in the order of the text; no word is left out, and no two cues overlap.

    The last ends by the end of a sound of so many seconds, if its words begin before that.
    """
    close = seconds if all(word.start < seconds for word in timed_words) else math.inf
    words = _spread(timed_words, close)
    # best[i]: the least cost of all cues of the words before i, and where the last of them begins.
    best: list[tuple[float, int]] = [(0.0, 0)] + [(math.inf, 0)] * len(words)
    for end in range(1, len(words) + 1):
        for begin in range(end - 1, -1, -1):
            cue = words[begin:end]
            if len(cue) > 1 and (_last(cue) - cue[0].start > LONGEST or not _wrap(cue)):
                break  # a cue of more words does not fit either
            behind = words[end].start if end < len(words) else close
            cost = best[begin][0] + _rate(cue, behind)
            best[end] = min(best[end], (cost, begin))
    bounds = [len(words)]
    while bounds[-1]:
        bounds.append(best[bounds[-1]][1])
    spans = list(zip(bounds[:0:-1], bounds[-2::-1], strict=True))
    return [
        _make_cue(words[begin:end], words[end].start if end < len(words) else close)
        for begin, end in spans
    ]


def _spread(words: Sequence[Timed], close: float) -> list[Timed]:
    """The words, where those that begin no later than one before share the time of their tie.

    An attention looks at several words at once, or back; without one all words begin together.
    close: when the sound ends.
    """
    begins = itertools.accumulate((word.start for word in words), max)
    groups = itertools.groupby(zip(begins, words, strict=True), key=lambda pair: pair[0])
    ties = [(begin, [word for _, word in group]) for begin, group in groups]
    placed: list[Timed] = []
    for (begin, tied), (behind, _) in itertools.pairwise([*ties, (close, [])]):
        end = min(behind, max(begin + SHORTEST, _last(tied)))
        placed += _share(tied, begin, end) if len(tied) > 1 else tied
    return placed


def _share(words: Sequence[Timed], begin: float, end: float) -> list[Timed]:
    """The words one after the other, each with an equal part of the time."""
    step = (end - begin) / len(words)
    return [
        _Placed(timed.word, begin + step * number, begin + step * (number + 1))
        for number, timed in enumerate(words)
    ]


def write_subtitles(cues: Sequence[Cue], path: Path, form: Format) -> None:
    """Write a file of subtitles, complete or not at all."""
    write_lines(format_srt(cues) if form == "srt" else format_vtt(cues), path)


def format_srt(cues: Sequence[Cue]) -> Iterator[str]:
    """Lines of SubRip: number, times, text, an empty line."""
    for number, cue in enumerate(cues, 1):
        times = f"{_clock(cue.start)} --> {_clock(cue.end)}".replace(".", ",")
        yield from (str(number), times, *cue.lines, "")


def format_vtt(cues: Sequence[Cue]) -> Iterator[str]:
    """Lines of WebVTT, in which &, < and > are escaped."""
    yield from ("WEBVTT", "")
    for cue in cues:
        lines = (html.escape(line, quote=False) for line in cue.lines)
        yield from (f"{_clock(cue.start)} --> {_clock(cue.end)}", *lines, "")


def _last(cue: Sequence[Timed]) -> float:
    return max(word.end for word in cue)


def _rate(cue: Sequence[Timed], behind: float) -> float:
    """The cost of a cue; behind: the begin of the word after it, until which it may be shown."""
    lacking = max(0.0, SHORTEST - (behind - cue[0].start))
    pauses = sum(max(0.0, b.start - a.end) for a, b in itertools.pairwise(cue))
    return OF_CUE + OF_SHORTNESS * lacking + OF_PAUSE * pauses


def _make_cue(cue: Sequence[Timed], behind: float) -> Cue:
    start = cue[0].start
    end = min(max(_last(cue), start + SHORTEST), start + LONGEST, behind)
    return Cue(start, end, _wrap(cue) or (cue[0].word,))


def _wrap(cue: Sequence[Timed]) -> tuple[str, ...]:
    """One line, or two of about the same length; none where they are too long."""
    words = [timed.word for timed in cue]
    if len(entire := " ".join(words)) <= WIDTH:
        return (entire,)
    halves = ((" ".join(words[:i]), " ".join(words[i:])) for i in range(1, len(words)))
    fitting = [pair for pair in halves if max(map(len, pair)) <= WIDTH]
    # Of equal ones the first: the lower line is the longer.
    return min(fitting, key=lambda pair: max(map(len, pair)), default=())


def _clock(seconds: float) -> str:
    """Hours, minutes, seconds and milliseconds."""
    total = round(1000 * seconds)
    return (
        f"{total // 3600000:02}:{total // 60000 % 60:02}:{total // 1000 % 60:02}.{total % 1000:03}"
    )
