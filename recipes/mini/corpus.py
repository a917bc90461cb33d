"""What the mini corpus says, who says it, and how it sounds: speakers, sentences, phones, noise."""

import wave
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from espeak import Speaker, Speech, Synthesiser

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import replacing

SAMPLE_RATE = 16000
SILENCE = "sil"
SENTENCES = Path(__file__).with_name("sentences.txt")
GRAMMAR = Path(__file__).with_name("grammar.txt")

# One row a phone: the mnemonics of eSpeak NG's American English that it stands for.  Stress, length
# and reduction are dropped; a vowel with r keeps a phone of its own, as eSpeak NG has no r there.
MNEMONICS = {
    SILENCE: "_ _: _! _| _:: ?",
    "aa": "0 A: A",
    "aar": "A@",
    "ae": "a aa",
    "ah": "V",
    "ao": "O: O2 O",
    "aor": "O@ o@ U@",
    "aw": "aU",
    "ax": "@ @2 a# @5",
    "ay": "aI aI3 aI@ aI2",
    "b": "b",
    "ch": "tS",
    "d": "d",
    "dh": "D",
    "dx": "t#",
    "eh": "E",
    "ehr": "e@",
    "el": "@L",
    "er": "3 3:",
    "ey": "eI",
    "f": "f",
    "g": "g",
    "hh": "h",
    "ih": "I I2 I#",
    "ihr": "i@3 i@",
    "iy": "i: i",
    "jh": "dZ",
    "k": "k",
    "l": "l",
    "m": "m",
    "n": "n n-",
    "ng": "N",
    "ow": "oU oU#",
    "oy": "OI",
    "p": "p",
    "r": "r r-",
    "s": "s",
    "sh": "S",
    "t": "t t2",
    "th": "T",
    "uh": "U",
    "uw": "u: u",
    "v": "v",
    "w": "w",
    "y": "j ;",
    "z": "z",
    "zh": "Z",
}
PHONES = list(MNEMONICS)
_PHONE_OF = {mnemonic: phone for phone, row in MNEMONICS.items() for mnemonic in row.split()}

# Voice variants by set.  Variants that differ only in pitch or echo stay in one set.
VARIANTS = {
    "train": "m1 m2 m4 m7 f1 f2 f4 Alex Andy Annie Denis Diogo Gene Mario belinda edward grandpa "
    "iven pablo steph",
    "dev": "f3 m5 paul Reed",
    "test": "m3 m6 f5 robert shelby travis",
}


@dataclass(frozen=True)
class Utterance:
    """`samples` int16 [N] at 16 kHz; phone i goes from sample starts[i] to starts[i + 1] (or N)."""

    name: str
    speaker: str
    samples: np.ndarray
    phones: list[str]
    starts: np.ndarray
    words: list[str]


def speakers(set_name: str, rng: np.random.Generator) -> list[Speaker]:
    """One speaker a variant of the set, with a speaking rate, pitch and liveliness of its own."""
    return [
        Speaker(
            name=f"{set_name}{number:02d}",
            variant=variant,
            rate=int(rng.integers(150, 211)),
            pitch=int(rng.integers(30, 71)),
            pitch_range=int(rng.integers(30, 71)),
        )
        for number, variant in enumerate(VARIANTS[set_name].split())
    ]


def sentences(set_name: str, count: int, seed: int) -> list[str]:
    """`count` sentences that only this set says: its share of the written ones, then the grammar's.

    Which written sentence belongs to which set does not depend on the seed.
    """
    written = [s for i, s in enumerate(_lines(SENTENCES)) if _set_of(i) == set_name][: count // 2]
    chosen = dict.fromkeys(written)
    rules = _grammar()
    rng = np.random.default_rng([seed, *set_name.encode()])
    while len(chosen) < count:
        sentence = _expand("START", rules, rng)
        if _set_of(zlib.crc32(sentence.encode())) == set_name:
            chosen.setdefault(sentence[0].upper() + sentence[1:])
    return list(chosen)


def _set_of(number: int) -> str:
    return ("train", "train", "train", "dev", "test")[number % 5]


def _lines(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def _grammar() -> dict[str, list[list[str]]]:
    rules = (line.split(":", 1) for line in _lines(GRAMMAR))
    return {symbol: [way.split() for way in ways.split("|")] for symbol, ways in rules}


def _expand(word: str, rules: dict[str, list[list[str]]], rng: np.random.Generator) -> str:
    symbol = word.rstrip(".?")
    if symbol not in rules:
        return word
    way = rules[symbol][rng.integers(len(rules[symbol]))]
    return " ".join(_expand(part, rules, rng) for part in way) + word[len(symbol) :]


def speak(
    synthesiser: Synthesiser, name: str, text: str, speaker: Speaker, rng: np.random.Generator
) -> Utterance:
    """Say `text` between two silences, in some noise, at some distance."""
    speech = synthesiser.speak(text, speaker)
    phones, starts = map_phonemes(speech)
    samples, starts = resample(speech.samples.astype(float), starts, speech.sample_rate)
    before, after = rng.integers(SAMPLE_RATE // 10, SAMPLE_RATE // 4, 2)
    samples = np.pad(samples, (before, after))
    phones, starts = merge_silence([SILENCE, *phones], np.concatenate([[0], starts + before]))
    samples = in_noise(samples, rng)
    words = [word.strip(".,?!").lower() for word in text.split()]
    return Utterance(name, speaker.name, samples, phones, starts, words)


def pronounce(synthesiser: Synthesiser, words: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Each word and the phones by which it is said alone, for a lexicon."""
    reader = Speaker("reader", VARIANTS["train"].split()[0])
    for word in words:
        phones, _ = map_phonemes(synthesiser.speak(word, reader))
        yield word, [phone for phone in phones if phone != SILENCE]


def map_phonemes(speech: Speech) -> tuple[list[str], np.ndarray]:
    """The phones of `speech` and their first samples; phonemes that last no time are dropped."""
    ends = np.append(speech.starts[1:], len(speech.samples))
    phones, starts = [], []
    for mnemonic, start, end in zip(speech.phonemes, speech.starts, ends, strict=True):
        bare = mnemonic.strip("',%=")
        if bare not in _PHONE_OF:
            raise InputError(f"eSpeak NG's phoneme {mnemonic!r} has no phone: add it to MNEMONICS")
        if end > start:
            phones.append(_PHONE_OF[bare])
            starts.append(start)
    return phones, np.array(starts)


def merge_silence(phones: list[str], starts: np.ndarray) -> tuple[list[str], np.ndarray]:
    """One silence for several in a row, and one at the end even if the voice stops before it."""
    keep = [i for i, p in enumerate(phones) if not (i and p == SILENCE == phones[i - 1])]
    return [phones[i] for i in keep], starts[keep]


def resample(samples: np.ndarray, marks: np.ndarray, rate: int) -> tuple[np.ndarray, np.ndarray]:
    """Bring float samples [N] and sample positions to 16 kHz, cutting the spectrum at 8 kHz."""
    block = rate // np.gcd(rate, SAMPLE_RATE)  # whole blocks give a whole number of samples
    padded = np.pad(samples, (0, -len(samples) % block))
    count = len(padded) * SAMPLE_RATE // rate
    spectrum = np.fft.rfft(padded)[: count // 2 + 1]
    out = np.fft.irfft(spectrum, count) * (count / len(padded))
    return out, np.round(marks * (SAMPLE_RATE / rate)).astype(int)


def in_noise(
    samples: np.ndarray, rng: np.random.Generator, decibels: tuple[float, float] = (5.0, 20.0)
) -> np.ndarray:
    """Add pink and white noise, so many decibels below, set a random level, and round to int16."""
    spectrum = np.fft.rfft(rng.standard_normal(len(samples)))
    spectrum /= np.maximum(np.arange(len(spectrum)), 1) ** rng.uniform(0.0, 0.5)
    noise = np.fft.irfft(spectrum, len(samples))
    snr = rng.uniform(*decibels)
    noise *= np.sqrt(np.mean(samples**2) / np.mean(noise**2)) * 10 ** (-snr / 20)
    mixed = samples + noise
    mixed *= 10 ** rng.uniform(-1.0, 0.0) * 30000 / np.abs(mixed).max()
    return np.round(mixed).astype(np.int16)


def utterances(
    set_name: str, synthesiser: Synthesiser, per_speaker: int, seed: int
) -> Iterator[Utterance]:
    """The utterances of one set, speaker by speaker: no two speakers say the same sentence."""
    rng = np.random.default_rng([seed, *set_name.encode()[::-1]])
    everyone = speakers(set_name, rng)
    texts = sentences(set_name, per_speaker * len(everyone), seed)
    for number, speaker in enumerate(everyone):
        for index, text in enumerate(texts[number :: len(everyone)]):
            yield speak(synthesiser, f"{speaker.name}_{index:03d}", text, speaker, rng)


def write_wav(samples: np.ndarray, path: Path) -> None:
    """Write int16 samples at 16 kHz as RIFF."""
    with replacing(path) as temporary, wave.open(str(temporary), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SAMPLE_RATE)
        file.writeframes(samples.astype("<i2").tobytes())
