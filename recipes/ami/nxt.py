"""The AMI corpus' manual annotations: who said what and when, read from the NXT XML files.

words/MEETING.AGENT.words.xml holds what was said, segments/MEETING.AGENT.segments.xml how it falls
into turns, corpusResources/meetings.xml who an agent is and which headset they wore. The encoding
is that of the XML declaration (ISO-8859-1).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from bayes_asr.base.errors import InputError

NITE = "{http://nite.sourceforge.net/}"
RANGE = re.compile(r"[^#]*#id\(([^)]+)\)(?:\.\.id\(([^)]+)\))?")
LONGEST_MEETING = 24 * 3600  # seconds
MARK = re.compile(r"[.,?!:]")
NAME = re.compile(r"[A-Za-z0-9]+")
MEETINGS = Path("corpusResources", "meetings.xml")


@dataclass(frozen=True)
class Participant:
    """Who is behind an agent's letter in a meeting: the speaker and the number of the headset."""

    meeting: str
    agent: str
    speaker: str
    channel: int


@dataclass(frozen=True)
class Turn:
    """A segment of the annotation: tokens, punctuation among them, and when each of that came.

    Times are kept as written, in seconds; `punctuation_times` leaves out marks without a time.
    transcribed: the channel that the segment names, which need not be that of the sound.
    """

    meeting: str
    channel: int
    speaker: str
    start: str
    end: str
    tokens: tuple[str, ...]
    punctuation_times: tuple[str, ...]
    transcribed: str = ""

    @property
    def marks(self) -> list[int]:
        """The places of punctuation among the tokens."""
        return [i for i, token in enumerate(self.tokens) if MARK.fullmatch(token)]


@dataclass(frozen=True)
class Event:
    """An element of a words file: a word or a punctuation mark; anything else has no `token`."""

    token: str
    punctuation: bool
    start: str | None
    end: str | None


def find_annotations(corpus: Path) -> Path:
    """The folder at or below `corpus` that holds words/, segments/ and corpusResources/."""
    candidates = [corpus, corpus / "annotations", *sorted(corpus.glob("ami_public_manual*"))]
    for folder in candidates:
        if (folder / MEETINGS).is_file():
            return folder
    raise InputError(
        f"{corpus}: no {MEETINGS} there: unpack ami_public_manual_1.6.x.zip into it, or below "
        "annotations/"
    )


def read_participants(annotations: Path) -> dict[str, list[Participant]]:
    """The participants of each meeting."""
    path = annotations / MEETINGS
    found: dict[str, list[Participant]] = {}
    for meeting in _root(path).iter("meeting"):
        name = _name(meeting, "observation", path)
        if name in found:
            raise InputError(f"{path}: the meeting {name} is there a second time")
        found[name] = [
            Participant(
                name,
                _name(speaker, "nxt_agent", path),
                _name(speaker, "global_name", path),
                _channel(speaker, path),
            )
            for speaker in meeting.iter("speaker")
        ]
    return found


def read_turns(annotations: Path, participant: Participant) -> Iterator[Turn]:
    """The turns of one participant that contain a word or a punctuation mark, in their order."""
    name = f"{participant.meeting}.{participant.agent}"
    events = _read_events(annotations / "words" / f"{name}.words.xml")
    places = {identity: place for place, identity in enumerate(events)}
    in_order = list(events.values())
    path = annotations / "segments" / f"{name}.segments.xml"
    for segment in _root(path).iter("segment"):
        inside = _inside(segment, places, in_order, path)
        if any(event.token for event in inside):
            yield _turn(segment, inside, participant, path)


def _turn(
    segment: ElementTree.Element, inside: Sequence[Event], participant: Participant, path: Path
) -> Turn:
    """The segment's own times come first, then those of what it holds."""
    starts = [event.start for event in inside if event.start]
    ends = [event.end for event in inside if event.end]
    start = _time(segment, "starttime", path) or min(starts, key=float, default=None)
    end = _time(segment, "endtime", path) or max(ends, key=float, default=None)
    if start is None or end is None:
        raise InputError(f"{path}: the segment {segment.get(NITE + 'id')} has no times")
    return Turn(
        participant.meeting,
        participant.channel,
        participant.speaker,
        start,
        end,
        tuple(token for event in inside for token in event.token.split()),
        tuple(event.start for event in inside if event.punctuation and event.start),
        segment.get("channel", ""),
    )


def _read_events(path: Path) -> dict[str, Event]:
    events: dict[str, Event] = {}
    for element in _root(path):
        identity = _required(element, f"{NITE}id", path)
        if identity in events:
            raise InputError(f"{path}: {identity} is there a second time")
        events[identity] = Event(
            (element.text or "").strip() if element.tag == "w" else "",
            element.get("punc") == "true",
            _time(element, "starttime", path),
            _time(element, "endtime", path),
        )
    return events


def _inside(
    segment: ElementTree.Element, places: dict[str, int], events: Sequence[Event], path: Path
) -> list[Event]:
    """What the ranges of a segment cover."""
    inside: list[Event] = []
    for child in segment.iter(f"{NITE}child"):
        href = _required(child, "href", path)
        match = RANGE.fullmatch(href)
        if not match:
            raise InputError(f"{path}: {href} is no range of words")
        first, last = match[1], match[2] or match[1]
        for identity in (first, last):
            if identity not in places:
                raise InputError(f"{path}: {identity} is not in the file of words")
        inside.extend(events[places[first] : places[last] + 1])
    return inside


def _root(path: Path) -> ElementTree.Element:
    try:
        return ElementTree.parse(path).getroot()  # noqa: S314 - expat expands no external entity
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}: is the annotation complete?") from error
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        raise InputError(f"{path}: not XML: {error}") from error


def _required(element: ElementTree.Element, key: str, path: Path) -> str:
    value = element.get(key)
    if not value:
        raise InputError(f"{path}: a <{element.tag}> without {key.removeprefix(NITE)}")
    return value


def _name(element: ElementTree.Element, key: str, path: Path) -> str:
    """What becomes part of file names and of Kaldi's tables."""
    name = _required(element, key, path)
    if not NAME.fullmatch(name):
        raise InputError(f"{path}: the {key} {name!r} is not of letters and digits")
    return name


def _channel(speaker: ElementTree.Element, path: Path) -> int:
    text = _required(speaker, "channel", path)
    if not (len(text) == 1 and text.isdecimal()):
        raise InputError(f"{path}: {text!r} is no channel from 0 to 9")
    return int(text)


def _time(element: ElementTree.Element, key: str, path: Path) -> str | None:
    """A time as it is written, if there is one."""
    text = element.get(key)
    try:
        if text and not 0 <= float(text) < LONGEST_MEETING:
            raise ValueError
    except ValueError:
        identity = element.get(f"{NITE}id")
        raise InputError(
            f"{path}: the {key} of {identity} is {text!r}, not seconds of a meeting"
        ) from None
    return text
