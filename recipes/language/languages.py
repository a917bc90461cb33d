"""Who says what in which language: numbers, which eSpeak NG reads out in all of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle

import numpy as np
from corpus import SAMPLE_RATE, in_noise, resample
from espeak import Speaker, Synthesiser

CLUSTERS = {
    "iberian": {"es": "es", "es-419": "es-419", "pt": "pt", "pt-br": "pt-br"},
    "slavic": {"cs": "cs", "pl": "pl", "ru": "ru"},
    "english": {"en-gb": "en", "en-us": "en-us"},
    "uralic": {"et": "et", "fi": "fi", "hu": "hu"},
}
"""Languages by cluster, and what eSpeak NG calls each."""

LANGUAGES = {name: voice for cluster in CLUSTERS.values() for name, voice in cluster.items()}

# Voice variants by set.  Variants that differ only in pitch or echo stay in one set.
VARIANTS = {
    "train": "m1 m2 m4 m7 f1 f2 f4 Alex Andy Annie Denis Diogo Gene Mario belinda edward grandpa "
    "iven pablo steph adam boris ian linda",
    "dev": "f3 m5 paul Reed quincy anika",
    "test": "m3 m6 f5 robert shelby travis david Alicia john zac",
}


@dataclass(frozen=True)
class Kind:
    """What the recordings of a set are like.

    voices: a key of `VARIANTS`; seconds: the range of their lengths; each: how many of each voice
    in each language; together: how many voices take turns in one; numbers: what a voice says in a
    turn; cuts: how many parts of so many seconds are utterances; without them the recording is one.
    """

    voices: str
    seconds: tuple[float, float]
    each: int = 1
    together: int = 1
    numbers: int = 8
    cuts: Mapping[int, int] = field(default_factory=dict)


SETS = {
    "train": Kind("train", (3.0, 10.0), each=2),
    "dev": Kind("dev", (3.0, 10.0), each=2),
    "test": Kind("test", (30.0, 30.0), cuts={3: 2, 10: 2, 30: 1}),
    "test_several": Kind("test", (30.0, 30.0), together=3, numbers=3, cuts={30: 1}),
}

DECIBELS = (-5.0, 10.0)
"""How far speech is above its noise."""

LARGEST = (20, 100, 1000, 10_000)


@dataclass(frozen=True)
class Recording:
    """`samples` int16 [N] at 16 kHz of a voice in a language."""

    name: str
    speaker: str
    language: str
    samples: np.ndarray

    @property
    def seconds(self) -> float:
        """How long it is."""
        return len(self.samples) / SAMPLE_RATE


@dataclass(frozen=True)
class Part:
    """So many seconds of a recording, from `start` on: an utterance."""

    name: str
    recording: str
    speaker: str
    language: str
    start: float
    seconds: float


def recordings(
    set_name: str, synthesiser: Synthesiser, seed: int, voices: int | None = None
) -> Iterator[Recording]:
    """The recordings of a set: each voice, or the first few, in each language.

    Where several take turns, each begins once, and those who come next in `VARIANTS` answer.
    """
    kind = SETS[set_name]
    rng = np.random.default_rng([seed, *set_name.encode()])
    variants = VARIANTS[kind.voices].split()[:voices]
    for first in range(len(variants)):
        together = min(kind.together, len(variants))
        turns = [(first + turn) % len(variants) for turn in range(together)]
        for language in LANGUAGES:
            for index in range(kind.each):
                speakers = [
                    draw(f"{kind.voices}{number:02d}", variants[number], language, rng)
                    for number in turns
                ]
                name = "+".join(speaker.name for speaker in speakers)
                seconds = rng.uniform(*kind.seconds)
                samples = speak(synthesiser, speakers, seconds, rng, kind.numbers)
                yield Recording(f"{name}_{language}_{index}", name, language, samples)


def draw(name: str, variant: str, language: str, rng: np.random.Generator) -> Speaker:
    """A voice as it speaks in one recording."""
    return Speaker(
        name=name,
        variant=variant,
        rate=int(rng.integers(130, 230)),
        pitch=int(rng.integers(20, 81)),
        pitch_range=int(rng.integers(20, 81)),
        language=LANGUAGES[language],
    )


def speak(
    synthesiser: Synthesiser,
    speakers: Sequence[Speaker],
    seconds: float,
    rng: np.random.Generator,
    each: int,
) -> np.ndarray:
    """So many seconds of numbers in noise, `each` by one speaker after the other, int16 [N] at 16
    kHz; they begin inside a number.
    """
    wanted = int(seconds * SAMPLE_RATE)
    skipped = int(rng.uniform(0.0, 1.0) * SAMPLE_RATE)
    parts: list[np.ndarray] = []
    turns = cycle(speakers)
    while sum(map(len, parts)) < skipped + wanted:
        speech = synthesiser.speak(numbers(rng, each), next(turns))
        samples, _ = resample(speech.samples.astype(float), np.zeros(1), speech.sample_rate)
        parts.append(samples)
    return in_noise(np.concatenate(parts)[skipped : skipped + wanted], rng, DECIBELS)


def numbers(rng: np.random.Generator, count: int) -> str:
    """So many numbers in digits, small ones as often as large ones."""
    return ", ".join(
        str(rng.integers(0, LARGEST[rng.integers(len(LARGEST))])) for _ in range(count)
    )


def cut(recording: Recording, cuts: Mapping[int, int], rng: np.random.Generator) -> Iterator[Part]:
    """Parts of a recording, or the whole without `cuts`; those of one length do not overlap."""
    if not cuts:
        yield take(recording, "", 0.0, recording.seconds)
    for seconds, count in cuts.items():
        room = recording.seconds / count - seconds
        for index in range(count):
            start = round(index * recording.seconds / count + rng.uniform(0.0, room), 2)
            yield take(recording, f"-{seconds:02d}-{index}", start, seconds)


def take(recording: Recording, ending: str, start: float, seconds: float) -> Part:
    """A part of a recording, which has its name and an ending."""
    of = (recording.name, recording.speaker, recording.language)
    return Part(f"{recording.name}{ending}", *of, start, seconds)
