"""A corpus shaped like AMI: annotations in NXT's XML, with what is odd in the real ones, and sound.

`python -m tests.support.ami_corpus FOLDER` writes four meetings that eSpeak NG
speaks, and a lexicon.
"""

import sys
import wave
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from tests.support.places import RECIPES

RECIPE = RECIPES / "ami"
SETS = ("train", "dev", "eval")
NITE = 'xmlns:nite="http://nite.sourceforge.net/"'
HEAD = '<?xml version="1.0" encoding="ISO-8859-1" standalone="yes"?>'
SOUNDS = {"{laugh}": "vocalsound", "{gap}": "gap", "{restart}": "disfmarker"}


@dataclass(frozen=True)
class Turn:
    """A segment: tokens with spaces between, times of the punctuation marks among them.

    `{laugh}`, `{gap}` and `{restart}` are events without text; a word that ends in ~ is cut off.
    Marks beyond `times` have none. channel: that the segment names instead of its wearer's.
    """

    start: str
    end: str
    text: str
    times: tuple[str, ...] = ()
    channel: str = ""


@dataclass(frozen=True)
class Wearer:
    """Who wears the headset `channel` of a meeting, and their turns."""

    meeting: str
    agent: str
    speaker: str
    channel: int
    turns: list[Turn] = field(default_factory=list)


def wearers(export: Path) -> list[Wearer]:
    """The lines that NXT's query prints in Kaldi's recipe."""
    found: dict[tuple[str, str], Wearer] = {}
    for line in export.read_text().splitlines():
        meeting, agent, speaker, channel, _, _, start, end, text, times = line.split("\t")
        new = Wearer(meeting, agent, speaker, int(channel))
        person = found.setdefault((meeting, agent), new)
        person.turns.append(Turn(start, end, text, tuple(times.split())))
    return list(found.values())


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
                f'<segment nite:id="{name}.sync.{len(segments)}" '
                f'channel="{turn.channel or wearer.channel}" '
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


# From here on: what is said, and its sound.
MINI = RECIPES / "mini"
MEETINGS = {  # one of Kaldi's meetings for each set, and one of five speakers; letter, name, voice
    "ES2002a": "A MEE006 m1, C FEE005 f1, B MEE007 m2, D FEE008 f2",
    "EN2001a": "A MEE068 m4, B FEO065 f4, C MEE067 m7, D MEO066 Alex, E MEO069 Andy",
    "ES2011a": "A FEE041 f3, B MEE042 m5, C FEE043 Annie, D MEE044 paul",
    "ES2004a": "A FEE013 f5, B MEO015 m3, C FEE016 belinda, D MEE014 m6",
}
DECODED = ("ES2011a", "ES2004a")  # dev and eval
TURNS = {"ES2002a": 9, "EN2001a": 9, "ES2011a": 4, "ES2004a": 4}
THINGS = ["remote", "screen", "button", "battery", "meeting", "design", "price"]
QUALITIES = ["red", "yellow", "big", "small", "cheap", "new", "nice"]
SENTENCES = (
    "Okay , we need a Q T .",
    "I like the Q T .",
    "Um the T is not Q .",
    "What is the T ?",
    "Is the T Q ?",
    "So the T is Q and Q .",
    "Yeah , I think the T is Q .",
    "We want a T with a Q T .",
    "Mm-hmm .",
    "I'm David , and I need a T .",
    "The L_C_D_ T is Q !",
    "{laugh} It's the kick-off meeting .",
    "{restart} We like the café : it is {gap} Q .",
)
LONG = " , ".join(["so the red screen is big and the small button is new"] * 3) + " ."
LEXICON = """
A AH|AND AE N D|BATTERY B AE T ER IY|BIG B IH G|BUTTON B AH T AH N|C. S IY|CAFÉ K AE F EY
CHEAP CH IY P|D. D IY|DAVID D EY V IH D|DESIGN D IH Z AY N|I AY|I'M AY M|IS IH Z|IT IH T
IT'S IH T S|KICK K IH K|L. EH L|LIKE L AY K|MEETING M IY T IH NG|MM-HMM M HH M|NEED N IY D
NEW N UW|NICE N AY S|NOT N AA T|OFF AO F|OKAY OW K EY|PRICE P R AY S|RED R EH D|REMOTE R IH M OW T
SCREEN S K R IY N|SMALL S M AO L|SO S OW|THE DH AH|THINK TH IH NG K|UM AH M|WANT W AA N T|WE W IY
WHAT W AH T|WITH W IH DH|YEAH Y AE|YELLOW Y EH L OW
"""


def write_corpus(folder: Path) -> None:
    """Write annotations, recordings and a lexicon; the meetings are in Kaldi's lists.

    Who speaks overlaps with the others; in eval the second turn of each begins in the first one.
    Of each set, a turn is too short for a frame. In dev and eval, a turn begins after all sound,
    and who speaks last changes headsets: the new one has no sound in dev, digital silence in eval.
    A microphone far away hears all of a meeting.
    """
    sys.path.insert(0, str(MINI))
    from espeak import Speaker, Synthesiser

    synthesiser, rng = Synthesiser(1), np.random.default_rng(1)
    wearers = []
    for meeting, people in MEETINGS.items():
        heard: list[np.ndarray] = []
        for channel, person in enumerate(people.split(", ")):
            agent, name, voice = person.split()
            speaker = Speaker(name, voice, int(rng.integers(150, 190)))
            turns = TURNS[meeting]
            texts = [_said(turns * channel + i, rng) for i in range(turns)]
            texts += [LONG] if meeting == "ES2002a" else []
            spoken = [_spoken(text, speaker, synthesiser) for text in texts]
            wearer = Wearer(meeting, agent, name, channel)
            heard.append(_record(wearer, texts, spoken, folder, rng))
            wearers.append(wearer)
        end, longest = len(heard[-1]) / 16000, max(map(len, heard))
        wearer.turns.append(_okay(end - 0.08, end - 0.03))
        if meeting in DECODED:
            wearer.turns.append(_okay(longest / 16000 + 2, longest / 16000 + 3))
            wearers.append(Wearer(meeting, "F", wearer.speaker, 5, [_okay(1, 2)]))
        everybody = sum(np.pad(samples, (0, longest - len(samples))) for samples in heard)
        _write_sound(np.asarray(everybody) / 2, folder, meeting, "Array1-01")
    _write_sound(np.zeros(48000), folder, "ES2004a", "Headset-5")
    wearers[0].turns.extend(
        [
            wearers[0].turns[0],
            Turn("1.0", "2.0", "-"),
            Turn("1.0", "2.0", "One . Two .", ("1.5",)),
        ]
    )
    write_annotations(wearers, folder / "annotations")
    entries = LEXICON.strip().replace("|", "\n")
    (folder / "lexicon.txt").write_text(f"{entries}\n", encoding="utf-8")


def _okay(start: float, end: float) -> Turn:
    return Turn(f"{start:.2f}", f"{end:.2f}", "Okay .", (f"{end:.2f}",))


def _said(number: int, rng: np.random.Generator) -> str:
    """A sentence, or two; now and then with a word that breaks off, which no lexicon has."""
    first = SENTENCES[number % len(SENTENCES)]
    text = " ".join([first, *rng.choice(SENTENCES, rng.integers(0, 2))])
    for slot, words in (("Q", QUALITIES), ("T", THINGS)):
        while f" {slot} " in text:
            text = text.replace(f" {slot} ", f" {rng.choice(words)} ", 1)
    return text.replace("I need", "I nee~ need") if rng.random() < 0.2 else text


def _spoken(text: str, speaker: object, synthesiser: object) -> list[np.ndarray]:
    """The sound of each stretch up to a punctuation mark, at 16 kHz."""
    from corpus import resample

    stretches, words = [], []
    for token in text.split():
        if token in (*".,?!:",):
            speech = synthesiser.speak(" ".join(words), speaker)  # type: ignore[attr-defined]
            samples = speech.samples.astype(float)
            stretches.append(resample(samples, speech.starts, speech.sample_rate)[0])
            words = []
        elif token not in SOUNDS:
            words.append(token.rstrip("~").replace("_", " "))
    return stretches


def _record(
    wearer: Wearer,
    texts: Sequence[str],
    spoken: Sequence[Sequence[np.ndarray]],
    folder: Path,
    rng: np.random.Generator,
) -> np.ndarray:
    """Write the recording [N] of a headset, and the turns of its wearer with their times."""
    sound, now = [np.zeros(16000 * wearer.channel)], 16000 * wearer.channel
    for text, stretches in zip(texts, spoken, strict=True):
        start, times = now, []
        for stretch in stretches:
            sound.append(stretch)
            now += len(stretch)
            times.append(f"{now / 16000:.2f}")
        begins = start / 16000 - (0.1 if len(wearer.turns) == 1 else 0)
        wearer.turns.append(Turn(f"{begins:.2f}", times[-1], text, tuple(times)))
        pause = rng.integers(1600, 8000) if len(wearer.turns) > 1 else 0
        sound.append(np.zeros(pause))
        now += pause
    samples = np.concatenate(sound)
    samples += rng.normal(0, 30, len(samples))
    _write_sound(samples, folder, wearer.meeting, f"Headset-{wearer.channel}")
    return samples


def _write_sound(samples: np.ndarray, folder: Path, meeting: str, microphone: str) -> None:
    path = folder / meeting / "audio" / f"{meeting}.{microphone}.wav"
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, 16000, 0, "NONE", ""))
        file.writeframes(np.clip(samples, -32768, 32767).astype("<i2").tobytes())


if __name__ == "__main__":
    write_corpus(Path(sys.argv[1]))
