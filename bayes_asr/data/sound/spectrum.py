"""MFCC, log mel energies, PLP and pitch of sound, equal to Kaldi's.

Also the samples around each frame, which networks on raw sound read.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from bayes_asr.base import elementary
from bayes_asr.base.errors import InputError
from bayes_asr.data.sound.audio import BLOCK
from bayes_asr.data.sound.pitch import SLOWEST, pitch_features
from bayes_asr.data.sound.plp import LOWEST, LPC_ORDER, perceptual_cepstra

Kind = Literal["mfcc", "fbank", "plp", "pitch", "mfcc-pitch", "fbank-pitch", "plp-pitch", "samples"]
FRAME_SHIFT = 0.01  # seconds; a frame sees 25 ms
FRAME_LENGTH = 0.025
WINDOWS = (25, 1000)  # ms
MOST_BANDS = 200
SAMPLE_RATES = (1000, 1_000_000)  # Hz
MOST_DITHER = 1000  # steps of int16
NOISE_PERIOD = 1 << 20  # samples


@dataclass(frozen=True)
class Analysis:
    """Sound to features, as compute-mfcc-feats --use-energy=false, compute-fbank-feats and
    compute-plp-feats --use-energy=false do it, and compute-kaldi-pitch-feats with
    process-kaldi-pitch-feats; `KIND-pitch` is both, side by side.

    bands: mel bands, the features of fbank; cepstra: the features of mfcc and plp; dither: noise
    of the spectrum, in steps of the int16 samples (Kaldi's default is 1), so that digital silence
    is like other silence; window: ms, the features of samples, which are those around the middle of
    a frame.
    """

    kind: Kind = "mfcc"
    sample_rate: int = 16000
    bands: int = 23
    cepstra: int = 13
    dither: float = 0.0
    window: int = 200

    def __post_init__(self) -> None:
        """Refuse what no features can be computed with."""
        if self.kind not in get_args(Kind):
            raise InputError(f"front end {self.kind!r}; known: {', '.join(get_args(Kind))}")
        low, high = SAMPLE_RATES
        if not (1 <= self.cepstra <= self.bands <= MOST_BANDS and low <= self.sample_rate <= high):
            raise InputError(
                f"front end: {self.cepstra} cepstra of {self.bands} mel bands at"
                f" {self.sample_rate} Hz: up to {MOST_BANDS} bands, no more cepstra than bands, and"
                f" {low} to {high} Hz"
            )
        if self.spectrum in {"mfcc", "fbank", "plp"} and _has_empty_band(
            self.bands, self.sample_rate
        ):
            raise InputError(
                f"front end: {self.bands} mel bands at {self.sample_rate} Hz; the narrowest lie"
                " between two frequencies of the spectrum and are constant: take fewer --bands"
            )
        if self.spectrum == "plp" and self.cepstra > LPC_ORDER + 1:
            raise InputError(
                f"front end: {self.cepstra} cepstra of plp; linear prediction of the order"
                f" {LPC_ORDER} has {LPC_ORDER + 1}"
            )
        if self.kind.endswith("pitch") and self.sample_rate < SLOWEST:
            raise InputError(
                f"front end: pitch at {self.sample_rate} Hz; it wants sound of {SLOWEST} Hz or more"
            )
        if not WINDOWS[0] <= self.window <= WINDOWS[1]:
            raise InputError(
                f"front end: windows of {self.window} ms; they have {WINDOWS[0]} to {WINDOWS[1]} ms"
            )
        if not 0 <= self.dither <= MOST_DITHER:
            raise InputError(f"front end: a dither of {self.dither}; it is from 0 to {MOST_DITHER}")
        if self.dither and self.spectrum in {"samples", "pitch"}:
            raise InputError(f"front end: a dither, but features of {self.kind} have none")

    @property
    def spectrum(self) -> str:
        """The kind without pitch."""
        return self.kind.removesuffix("-pitch")

    def __call__(self, samples: np.ndarray, place: int = 0) -> np.ndarray:
        """Features float32 [T, F] of samples [N] in the range of int16; T is 0 below 25 ms.

        place: of the first sample in its sound, on which the dither depends.
        """
        if self.kind == "samples":
            return cut_windows(samples, self.sample_rate, self.window)
        if self.kind == "pitch":
            return pitch_features(samples, self.sample_rate)
        computer = self._computer()
        # The computer copies what it is given: in parts, that costs no memory.
        for begin in range(0, len(samples), BLOCK):
            block = samples[begin : begin + BLOCK]
            computer.accept_waveform(
                self.sample_rate, _add_dither(block, self.dither, place + begin)
            )
        computer.input_finished()
        frames = [computer.get_frame(i) for i in range(computer.num_frames_ready)]
        # The reshape gives [0, F] where the sound is too short for one frame.
        features = np.array(frames, np.float32).reshape(-1, computer.dim)
        if self.spectrum == "plp":
            features = perceptual_cepstra(features, self.sample_rate, self.cepstra)
        if self.spectrum == self.kind:
            return features
        pitch = pitch_features(samples, self.sample_rate)
        count = min(len(features), len(pitch))  # at some rates one is a frame longer
        return np.hstack([features[:count], pitch[:count]])

    def _computer(self) -> Any:
        try:
            import kaldi_native_fbank as knf
        except ImportError as error:
            raise InputError(
                f"computing features needs a package: pip install kaldi-native-fbank ({error})"
            ) from error
        options = knf.MfccOptions() if self.spectrum == "mfcc" else knf.FbankOptions()
        options.frame_opts.samp_freq = self.sample_rate
        options.frame_opts.dither = 0  # of another kind in each run
        options.mel_opts.num_bins = self.bands
        if self.spectrum == "mfcc":
            options.num_ceps, options.use_energy = self.cepstra, False
            return knf.OnlineMfcc(options)
        options.use_log_fbank = self.spectrum == "fbank"
        return knf.OnlineFbank(options)


def _add_dither(samples: np.ndarray, size: float, place: int) -> np.ndarray:
    """Samples [N] with Gaussian noise of so many steps, which depends on their place in the sound
    alone: neither on runs nor on the pieces in which they come.
    """
    if not size:
        return samples
    return samples + np.float32(size) * _noise()[(place + np.arange(len(samples))) % NOISE_PERIOD]


@cache
def _noise() -> np.ndarray:
    # Of NumPy's generators this is the one whose numbers no version changes.
    return np.random.RandomState(0).standard_normal(NOISE_PERIOD).astype(np.float32)


def _has_empty_band(bands: int, rate: int) -> bool:
    """Whether a mel band has no frequency of the spectrum, as Kaldi's MelBanks refuses it."""
    # A frame is padded to a power of two.
    size = 1 << (int(rate * FRAME_LENGTH) - 1).bit_length()
    mels = _mel(np.arange(size // 2) * rate / size)
    edges = np.linspace(_mel(LOWEST), _mel(rate / 2), bands + 2)
    # Strictly inside: of a frequency at an edge, the weight is 0.
    inside = np.searchsorted(mels, edges[2:], "left") - np.searchsorted(mels, edges[:-2], "right")
    return bool((inside <= 0).any())


def _mel(hertz: np.ndarray | float) -> np.ndarray:
    return 1127 * elementary.log(1 + np.asarray(hertz) / 700)


def cut_windows(samples: np.ndarray, rate: int, window: int) -> np.ndarray:
    """The samples of `window` ms around the middle of each frame of Kaldi's, float32 [T, F].

    Beyond the ends they are 0, and the middle is that of pytorch-kaldi's save_raw_fea.py.
    """
    length, shift, width = (int(rate * s) for s in (FRAME_LENGTH, FRAME_SHIFT, window / 1000))
    # Only whole frames count, as with Kaldi's snip-edges=true.
    frames = (len(samples) - length) // shift + 1
    if frames < 1:
        return np.empty((0, width), np.float32)
    # Samples by which a window begins before its frame of 25 ms, so that both middles agree.
    padding = width // 2 - (length // 2 - 1)
    # A negative padding cuts samples: a window that begins after its frame.
    padded = np.pad(samples.astype(np.float32), (max(padding, 0), width))[max(-padding, 0) :]
    return sliding_window_view(padded, width)[: frames * shift : shift].copy()
