"""A corpus shaped like AMI: annotations in NXT's XML, with what is odd in the real ones."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

NITE = 'xmlns:nite="http://nite.sourceforge.net/"'
HEAD = '<?xml version="1.0" encoding="ISO-8859-1" standalone="yes"?>'
SOUNDS = {"{laugh}": "vocalsound", "{gap}": "gap", "{restart}": "disfmarker"}


@dataclass(frozen=True)
class Turn:
    """A segment: tokens with spaces between, times of the punctuation marks among them.

    `{laugh}`, `{gap}` and `{restart}` are events without text; a word that ends in ~ is cut off.
    Marks beyond `times` have none.
    """

    start: str
    end: str
    text: str
    times: tuple[str, ...] = ()


@dataclass(frozen=True)
class Wearer:
    """Who wears the headset `channel` of a meeting, and their turns."""

    meeting: str
    agent: str
    speaker: str
    channel: int
    turns: list[Turn] = field(default_factory=list)


def write_annotations(wearers: Sequence[Wearer], folder: Path) -> None:
    """Write words, segments and meetings in ISO-8859-1."""
    (folder / "corpusResources").mkdir(parents=True, exist_ok=True)
    _write(folder / "AMI-metadata.xml", "corpus", [])
    meetings: dict[str, list[Wearer]] = {}
    for wearer in wearers:
        meetings.setdefault(wearer.meeting, []).append(wearer)
        name = f"{wearer.meeting}.{wearer.agent}"
        words, segments = [], []
        for turn in wearer.turns:
            events = list(_events(turn))
            first = f"{name}.words{len(words)}"
            words += [_element(name, len(words) + i, *event) for i, event in enumerate(events)]
            last = f"{name}.words{len(words) - 1}"
            inside = f"id({first})" + (f"..id({last})" if last != first else "")
            segments.append(
                f'<segment nite:id="{name}.sync.{len(segments)}" channel="{wearer.channel}" '
                f'transcriber_start="{turn.start}" transcriber_end="{turn.end}">'
                f'<nite:child href="{name}.words.xml#{inside}"/></segment>'
            )
        _write(folder / "words" / f"{name}.words.xml", f"{name}.words", words)
        _write(folder / "segments" / f"{name}.segments.xml", f"{name}.segs", segments)
    lines = []
    for meeting, people in meetings.items():
        lines.append(f'<meeting nite:id="{meeting}" observation="{meeting}" type="scenario">')
        lines += [
            f'<speaker nite:id="{meeting}_{p.agent}" channel="{p.channel}" '
            f'nxt_agent="{p.agent}" global_name="{p.speaker}" role="PM"/>'
            for p in people
        ]
        lines.append("</meeting>")
    _write(folder / "corpusResources" / "meetings.xml", "meet.00", lines)


def _events(turn: Turn) -> Iterator[tuple[str, str, str]]:
    """Kind, attributes and text of each token; the first and the last have the turn's times."""
    times = iter(turn.times)
    tokens = turn.text.split()
    for place, token in enumerate(tokens):
        start, end = (turn.start if place == 0 else ""), ""
        attributes = ""
        if token in (*".,?!:",):
            start = end = next(times, "")  # an end after the last word comes from a gap
            attributes = ' punc="true"'
        elif token in SOUNDS:
            attributes = ' type="laugh"'
        elif token.endswith("~"):
            token, attributes = token[:-1], ' trunc="true"'
        if place == len(tokens) - 1 and not attributes.startswith(" punc"):
            end = turn.end
        for key, value in (("starttime", start), ("endtime", end)):
            attributes += f" {key}={quoteattr(value)}" if value else ""
        yield SOUNDS.get(token, "w"), attributes, "" if token in SOUNDS else token
    if tokens[-1] in (*".,?!:",) and turn.end not in turn.times:
        yield "gap", f' endtime="{turn.end}"', ""


def _element(name: str, number: int, kind: str, attributes: str, text: str) -> str:
    content = escape(text, {"'": "&#39;"})
    return f'<{kind} nite:id="{name}.words{number}"{attributes}>{content}</{kind}>'


def _write(path: Path, identity: str, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    body = "\n".join([HEAD, f'<nite:root nite:id="{identity}" {NITE}>', *lines, "</nite:root>\n"])
    path.write_text(body, encoding="iso-8859-1")
