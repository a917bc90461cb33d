"""A page of pronunciation: phones coloured by their goodness under spectrograms."""

import base64
import io
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.evaluate.report.rendering import name_files, render, write_file
from bayes_asr.evaluate.report.sounds import FOLDER, RATE, write_wave

WINDOW, SHIFT = 400, 80  # samples: 25 and 5 ms
BANDS, SHADES = 128, 18
RANGE = 70  # dB below the loudest that are drawn
WORST = -5.0  # the goodness from which on a phone has the full colour
WIDTH = 340  # pixels of a second

FindSounds = Callable[[Collection[str]], Iterable[tuple[str, np.ndarray]]]

LISTED = 50
"""Utterances on the page, those with the lowest goodness; files have all."""


@dataclass(frozen=True)
class Box:
    """A phone or word on the axis of an utterance: its begin and length in per cent of it.

    strength: of the colour, in per cent; meaning: the scores in words.
    """

    label: str
    begin: float
    width: float
    strength: int
    meaning: str


@dataclass(frozen=True)
class DrawnUtterance:
    """An utterance of the page: its phones and, where they are others, its words.

    width: pixels; picture: a PNG as base64; sound: a file beside the page; both may be empty.
    """

    name: str
    gop: float
    width: int
    lanes: Sequence[Sequence[Box]]
    picture: str
    sound: str


def write_pronunciation_page(
    utterances: Sequence[Mapping[str, Any]], out: Path, command: str, find_sounds: FindSounds
) -> None:
    """Write `out`/pronunciation.html of utterances as `ScoredUtterance.describe` has them.

    find_sounds: of utterances the samples [N] at 16 kHz, as `iter_sounds`; spectrograms are drawn
    of them, and they are written beside the page.
    """
    ranked = sorted(utterances, key=lambda u: (u["gop"], u["utterance"]))
    listed = {u["utterance"]: u for u in ranked[:LISTED]}
    boxed = {name: _draw(u) for name, u in listed.items()}
    files = dict(zip(listed, name_files([[name] for name in listed]), strict=True))
    for name, samples in find_sounds(listed):
        file = f"{FOLDER}/{files[name]}.wav"
        write_wave(samples, out / file)
        boxed[name] = _draw(listed[name], samples, file)
    page = render(
        "pronunciation.html",
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        command=command,
        number=len(ranked),
        mean=float(np.mean([u["gop"] for u in ranked])),
        phones=_rank_phones(ranked),
        utterances=list(boxed.values()),
        worst=WORST,
        hues=(),
    )
    write_file(out / "pronunciation.html", page)


def _draw(
    utterance: Mapping[str, Any], samples: np.ndarray | None = None, sound: str = ""
) -> DrawnUtterance:
    words = utterance["words"]
    seconds = words[-1]["end"]
    picture = ""
    if samples is not None:
        seconds = max(len(samples) / RATE, seconds)
        picture = base64.b64encode(draw_spectrogram(samples)).decode()
    phones = [phone for word in words for phone in word["phones"]]
    lanes = [[_place(phone, phone["phone"], seconds) for phone in phones]]
    # Where each word is a phone, the second lane would say the same.
    if [word["word"] for word in words] != [phone["phone"] for phone in phones]:
        lanes.append([_place(word, word["word"], seconds) for word in words])
    width = round(WIDTH * seconds)
    return DrawnUtterance(utterance["utterance"], utterance["gop"], width, lanes, picture, sound)


def _place(scored: Mapping[str, Any], label: str, seconds: float) -> Box:
    begin, width = (100 * t / seconds for t in (scored["start"], scored["end"] - scored["start"]))
    strength = round(100 * min(max(scored["gop"] / WORST, 0.0), 1.0))
    meaning = f"{label}: goodness {scored['gop']:.2f}, loop ratio {scored['loop_ratio']:.2f}"
    if "likeliest" in scored and scored["likeliest"] != label:
        meaning += f"; it sounds like {scored['likeliest']}"
    return Box(label, round(begin, 3), round(width, 3), strength, meaning)


def _rank_phones(utterances: Iterable[Mapping[str, Any]]) -> list[list[str]]:
    """A table of the phones by their mean goodness, the lowest first, under its head."""
    scored: dict[str, list[Mapping[str, Any]]] = {}
    for utterance in utterances:
        for word in utterance["words"]:
            for phone in word["phones"]:
                scored.setdefault(phone["phone"], []).append(phone)
    rows = []
    for name, members in scored.items():
        mistaken = [p["likeliest"] for p in members if p["likeliest"] != name]
        rival = max(sorted(set(mistaken)), key=mistaken.count, default="")
        share = f"{100 * len(mistaken) / len(members):.0f} %"
        rows.append((float(np.mean([p["gop"] for p in members])), name, len(members), share, rival))
    head = ["phone", "goodness", "times", "another is likelier", "most often"]
    return [head, *([n, f"{gop:.2f}", f"{k}", s, r] for gop, n, k, s, r in sorted(rows))]


def draw_spectrogram(samples: np.ndarray) -> bytes:
    """A spectrogram of samples [N] at 16 kHz as a PNG, dark where it is loud: 200 columns a second,
    row 0 at 8 kHz. InputError without Pillow, which comes with matplotlib.
    """
    try:
        from PIL import Image
    except ImportError:
        raise InputError("spectrograms need matplotlib: pip install matplotlib") from None
    padded = np.pad(samples.astype(np.float64), (WINDOW // 2, WINDOW))
    frames = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[: len(samples) : SHIFT]
    # Pre-emphasis lifts the high bands, which are quiet in speech.
    emphasised = np.diff(frames, prepend=frames[:, :1]) * np.hanning(WINDOW)
    power = np.abs(np.fft.rfft(emphasised, 4 * BANDS)) ** 2
    bands = power[:, 1:].reshape(len(power), BANDS, 2).sum(axis=2)
    decibels = 10 * np.log10(np.maximum(bands, 1e-3))
    # Few shades make small files.
    darkness = np.clip(1 + (decibels - decibels.max()) / RANGE, 0, 1)
    shades = 255 - (darkness * (SHADES - 1)).round() * (255 // (SHADES - 1))
    file = io.BytesIO()
    Image.fromarray(shades.T[::-1].astype(np.uint8)).save(file, "png", optimize=True)
    return file.getvalue()
