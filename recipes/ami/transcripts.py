"""From turns to utterances: split at punctuation and normalised, as Kaldi's AMI recipe does it.

The rules are those of egs/ami/s5b/local/ami_split_segments.pl, its oddities included, because the
published figures (13,098 utterances in dev, 12,643 in eval) and every result on AMI rest on them.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from nxt import Turn

MOST_WORDS = 30
DISTANT = "sdm"  # one microphone for all who take part
NUMBERED_MARK = re.compile(r"[.,?!:][0-9]+")
STOP = re.compile(r"[.?]")
SPURIOUS_COMMA = re.compile(r"[A-Z']+,[A-Z']+")
Span = tuple[int, int]
"""Start and end in hundredths of a second."""


@dataclass(frozen=True, order=True)
class Utterance:
    """What one speaker says in one go; times in hundredths of a second."""

    meeting: str
    channel: int
    speaker: str
    start: int
    end: int
    words: tuple[str, ...]
    mic: str = "ihm"

    @property
    def recording(self) -> str:
        """Kaldi's name of the recording by a headset.

        Those who speak at once into one microphone are scored apart: each has a recording of his
        own, of the same sound.
        """
        return self.person if self.mic == DISTANT else self._microphone

    @property
    def person(self) -> str:
        """Kaldi's name of who speaks."""
        return f"{self._microphone}_{self.speaker}"

    @property
    def _microphone(self) -> str:
        place = "SDM" if self.mic == DISTANT else f"H{self.channel:02d}"
        return f"AMI_{self.meeting}_{place}"

    @property
    def name(self) -> str:
        """Kaldi's utterance id."""
        return f"{self.person}_{self.start:07d}_{self.end:07d}"

    @property
    def file(self) -> str:
        """The name of the recording in an STM."""
        if self.mic == DISTANT:
            return f"{self.meeting}.Array1-01.{self.speaker}"
        return f"{self.meeting}.Headset-{self.channel}"


def utterances(turn: Turn, mic: str = "ihm") -> Iterator[Utterance]:
    """The utterances of a turn; none where its marks and their times differ in number."""
    for (start, end), text in pieces(turn).items():
        words = normalise(text)
        if words and start < end:
            who = turn.meeting, turn.channel, turn.speaker
            yield Utterance(*who, start, end, tuple(words), mic)


def count_lost(turn: Turn, spoken: Iterable[Utterance]) -> int:
    """How many words of a turn are in none of its utterances, as no time says when they were."""
    tokens = [token for place, token in enumerate(turn.tokens) if place not in turn.marks]
    text = SPURIOUS_COMMA.sub(_part, STOP.sub(" ", " ".join(tokens).upper()))
    return _count_words(normalise(text)) - sum(_count_words(u.words) for u in spoken)


def _part(commas: re.Match[str]) -> str:
    return commas[0].replace(",", " ")


def _count_words(words: Iterable[str]) -> int:
    """Those of MM-HMM, which are joined, one by one."""
    return sum(len(word.split("-")) for word in words)


def pieces(turn: Turn) -> dict[Span, str]:
    """Cut a turn at full stops and question marks, and what is still too long at commas.

    A piece goes from one stop to the next. A stop inside a word cuts as well but has no time, so
    what comes after the last time is lost.
    """
    if len(turn.marks) != len(turn.punctuation_times):
        return {}
    tokens = list(turn.tokens)
    minor: dict[str, str] = {}
    stops = [turn.start]
    for mark, time in zip(turn.marks, turn.punctuation_times, strict=True):
        if tokens[mark] in ".?":
            stops.append(time)
        else:
            tokens[mark] += str(len(minor))  # a name of its own, such as ",0"
            minor[tokens[mark]] = time
    stops.append(turn.end)
    found: dict[Span, str] = {}
    texts = STOP.split(" ".join(tokens).upper())
    for text, (start, end) in zip(texts, pairwise(stops), strict=False):
        if _is_short(text):
            found[_span(start, end)] = text
        else:
            found = _cut(text, minor, start, end) | found
    return found


def _cut(text: str, minor: Mapping[str, str], start: str, end: str) -> dict[Span, str]:
    """Cut a long text at the mark nearest to its middle, and again until its parts are short.

    If that mark is none, or not a comma, the text stays as it is.
    """
    first, last = float(start), float(end)
    middle = (first + last) / 2
    mark, nearest = "", first
    for key, time in sorted(minor.items(), key=lambda item: item[1]):  # as text: "100" < "99"
        if float(time) == last:
            break
        if float(time) != first and abs(middle - float(time)) < abs(middle - nearest):
            mark, nearest = key, float(time)
    if not mark.startswith(","):
        return {_span(start, end): text}
    found: dict[Span, str] = {}
    times = (start, minor[mark]), (minor[mark], end)
    for part, (begin, stop) in zip(re.split(rf"{mark}\s+", text), times, strict=False):
        if _is_short(part):
            found[_span(begin, stop)] = part
        else:
            found = _cut(part, minor, begin, stop) | found
    return found


def _is_short(text: str) -> bool:
    return len(text.split()) <= MOST_WORDS


def _span(start: str, end: str) -> Span:
    """Cut off after two decimals, as binary floats have them: 80.46 becomes 8045."""
    return int(float(start) * 100), int(float(end) * 100)


def normalise(text: str) -> list[str]:
    """The words of a piece without punctuation; L_C_D_ becomes L. C. D., KICK-OFF two words.

    Two words with a comma and no space between vanish, as in Kaldi.
    """
    text = SPURIOUS_COMMA.sub(" ", NUMBERED_MARK.sub("", text))
    text = " ".join(text.replace("-", " ").replace("_", ". ").split())
    return text.replace("MM HMM", "MM-HMM").replace("UH HUH", "UH-HUH").split()
