"""Who says what in which language: numbers, which eSpeak NG reads out in all of them."""

from collections.abc import Iterator
from dataclasses import dataclass

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
PER_VOICE = {"train": 2, "dev": 2, "test": 1}
"""Recordings of each voice in each language."""

SECONDS = {"train": (3.0, 10.0), "dev": (3.0, 10.0), "test": (30.0, 30.0)}
"""How long a recording is."""

CUTS = {3: 2, 10: 2, 30: 1}
"""Of a recording of the test set: how many parts of so many seconds are scored."""

DECIBELS = (-5.0, 10.0)
"""How far speech is above its noise."""

LARGEST = (20, 100, 1000, 10_000)
NUMBERS_A_CALL = 8


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
    """The recordings of a set: each voice, or the first few, in each language."""
    rng = np.random.default_rng([seed, *set_name.encode()])
    for number, variant in enumerate(VARIANTS[set_name].split()[:voices]):
        for language, called in LANGUAGES.items():
            for index in range(PER_VOICE[set_name]):
                speaker = Speaker(
                    name=f"{set_name}{number:02d}",
                    variant=variant,
                    rate=int(rng.integers(130, 230)),
                    pitch=int(rng.integers(20, 81)),
                    pitch_range=int(rng.integers(20, 81)),
                    language=called,
                )
                yield Recording(
                    f"{speaker.name}_{language}_{index}",
                    speaker.name,
                    language,
                    speak(synthesiser, speaker, rng.uniform(*SECONDS[set_name]), rng),
                )


def speak(
    synthesiser: Synthesiser, speaker: Speaker, seconds: float, rng: np.random.Generator
) -> np.ndarray:
    """So many seconds of numbers in noise, int16 [N] at 16 kHz; they begin inside a number."""
    wanted = int(seconds * SAMPLE_RATE)
    skipped = int(rng.uniform(0.0, 1.0) * SAMPLE_RATE)
    parts: list[np.ndarray] = []
    while sum(map(len, parts)) < skipped + wanted:
        speech = synthesiser.speak(numbers(rng), speaker)
        samples, _ = resample(speech.samples.astype(float), np.zeros(1), speech.sample_rate)
        parts.append(samples)
    return in_noise(np.concatenate(parts)[skipped : skipped + wanted], rng, DECIBELS)


def numbers(rng: np.random.Generator) -> str:
    """Some numbers in digits, small ones as often as large ones."""
    return ", ".join(
        str(rng.integers(0, LARGEST[rng.integers(len(LARGEST))])) for _ in range(NUMBERS_A_CALL)
    )


def cut(recording: Recording, rng: np.random.Generator) -> Iterator[Part]:
    """Parts of a recording; those of one length do not overlap."""
    for seconds, count in CUTS.items():
        room = recording.seconds / count - seconds
        for index in range(count):
            start = round(index * recording.seconds / count + rng.uniform(0.0, room), 2)
            yield take(recording, f"-{seconds:02d}-{index}", start, seconds)


def take(recording: Recording, ending: str, start: float, seconds: float) -> Part:
    """A part of a recording, which has its name and an ending."""
    of = (recording.name, recording.speaker, recording.language)
    return Part(f"{recording.name}{ending}", *of, start, seconds)
