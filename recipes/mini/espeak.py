"""Speech with exact phone times from eSpeak NG, through the library that espeakng-loader ships.

The library keeps its state in globals: one voice, one utterance at a time, from one thread.
"""

import atexit
import ctypes
import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bayes_asr.base.errors import InputError

INSTALL = "pip install espeakng-loader"
LONGEST_DATA_PATH = 120  # the library copies it, with a file name appended, into 160 bytes

# espeak/speak_lib.h
AUDIO_OUTPUT_SYNCHRONOUS = 2
INITIALIZE_PHONEME_EVENTS = 0x0001
INITIALIZE_DONT_EXIT = 0x8000
CHARACTERS_UTF8 = 1
POSITION_CHARACTER = 1
RATE, PITCH, RANGE = 1, 3, 4
EVENT_END, EVENT_WORD, EVENT_PHONEME = 0, 1, 7


class EventId(ctypes.Union):
    """The name of what begins: phoneme mnemonics come as up to eight bytes."""

    _fields_ = (
        ("number", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("string", ctypes.c_char * 8),
    )


class Event(ctypes.Structure):
    """espeak_EVENT."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("unique_identifier", ctypes.c_uint),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("audio_position", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("id", EventId),
    )


SynthCallback = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(Event)
)


@dataclass(frozen=True)
class Speaker:
    """A voice: a variant that eSpeak NG ships, words a minute, pitch and its range (0 to 100).

    language: that the voice speaks, as eSpeak NG calls it.
    """

    name: str
    variant: str
    rate: int = 175
    pitch: int = 50
    pitch_range: int = 50
    language: str = "en-us"


@dataclass(frozen=True)
class Speech:
    """int16 samples [N] at `sample_rate`; phoneme i goes from starts[i] to starts[i + 1] (or N)."""

    samples: np.ndarray
    sample_rate: int
    phonemes: list[str]
    starts: np.ndarray


class Synthesiser:
    """The one eSpeak NG of this process.

    Breath and flutter of a voice are drawn as it speaks: a new process that says the same with the
    same `seed` in the same order gives the same samples.
    """

    def __init__(self, seed: int) -> None:
        self._library, data = _load()
        flags = INITIALIZE_PHONEME_EVENTS | INITIALIZE_DONT_EXIT
        self.sample_rate: int = self._library.espeak_Initialize(
            AUDIO_OUTPUT_SYNCHRONOUS, 0, os.fsencode(_short(data)), flags
        )
        if self.sample_rate <= 0:
            raise InputError(f"eSpeak NG cannot read its data in {data}: reinstall it ({INSTALL})")
        self._variants = {path.name for path in (data / "voices" / "!v").iterdir()}
        self._library.espeak_ng_SetRandSeed(ctypes.c_long(seed))

    def speak(self, text: str, speaker: Speaker) -> Speech:
        """Say `text` as one utterance; InputError for an unknown voice or a failed synthesis."""
        voice = f"{speaker.language}+{speaker.variant}"
        known = speaker.variant in self._variants  # the library takes any name, and ignores it
        if not known or self._library.espeak_SetVoiceByName(voice.encode()) != 0:
            raise InputError(f"eSpeak NG has no voice {voice!r} (speaker {speaker.name})")
        for parameter, value in (
            (RATE, speaker.rate),
            (PITCH, speaker.pitch),
            (RANGE, speaker.pitch_range),
        ):
            self._library.espeak_SetParameter(parameter, value, 0)
        heard = Collector()
        callback = SynthCallback(heard)
        self._library.espeak_SetSynthCallback(callback)
        coded = text.encode()
        with deferred_interrupt():
            status = self._library.espeak_Synth(
                coded, len(coded) + 1, 0, POSITION_CHARACTER, 0, CHARACTERS_UTF8, None, None
            )
        if heard.error:
            raise heard.error
        if status != 0 or not heard.chunks or not heard.marks:
            raise InputError(f"eSpeak NG did not say {text!r} as {voice!r} (status {status})")
        starts = np.array([sample for sample, _ in heard.marks])
        phonemes = [phoneme for _, phoneme in heard.marks]
        return Speech(np.concatenate(heard.chunks), self.sample_rate, phonemes, starts)


def _load() -> tuple[Any, Path]:
    try:
        import espeakng_loader
    except ImportError as error:
        raise InputError(f"the mini recipe needs eSpeak NG: {INSTALL}") from error
    path = espeakng_loader.get_library_path()
    try:
        library = ctypes.CDLL(path)
        data = Path(espeakng_loader.get_data_path())
    except (OSError, RuntimeError) as error:
        raise InputError(
            f"eSpeak NG does not load on this machine ({error}): reinstall it ({INSTALL}), "
            "or prepare the recipe on another machine and copy its folder"
        ) from error
    return library, data


def _short(data: Path) -> Path:
    """`data`, or a link to it that lasts as long where its name outgrows the library's buffer."""
    if len(os.fsencode(data)) <= LONGEST_DATA_PATH:
        return data
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    link = Path(folder.name) / data.name
    link.symlink_to(data)
    return link


@dataclass
class Collector:
    """A callback that collects the samples of an utterance, and where its phonemes begin.

    error: that of the callback itself. ctypes would print it and let the library go on, so that a
    part of the utterance were lost in silence.
    """

    chunks: list[np.ndarray] = field(default_factory=list)
    marks: list[tuple[int, str]] = field(default_factory=list)
    error: Exception | None = None

    def __call__(self, wave: Any, count: int, events: Any) -> int:
        """Take samples and events; returns 1, which ends the synthesis, after an error."""
        try:
            self._take(wave, count, events)
        except Exception as error:  # raised again behind the library
            self.error = error
            return 1
        return 0

    def _take(self, wave: Any, count: int, events: Any) -> None:
        if wave and count > 0:
            self.chunks.append(np.ctypeslib.as_array(wave, (count,)).copy())
        index = 0
        while events[index].type != EVENT_END:
            if events[index].type == EVENT_PHONEME:
                self.marks.append((events[index].sample, events[index].id.string.decode()))
            index += 1


@contextmanager
def deferred_interrupt() -> Iterator[None]:
    """Let Ctrl-C wait for the end of the block: in a callback from C it would be swallowed."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python interrupts the main thread alone
        return
    noted: list[int] = []
    previous = signal.signal(signal.SIGINT, lambda number, _: noted.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
    if noted:
        signal.raise_signal(signal.SIGINT)
