"""MFCC, log mel energies, PLP and pitch equal to Kaldi's, of sound and of the sound of a data
directory.

Also the samples around each frame, which networks on raw sound read.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby, starmap
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from bayes_asr.base import elementary
from bayes_asr.base.errors import InputError, name_some
from bayes_asr.base.files import is_there, replacing, settle, together
from bayes_asr.base.log import LOGGER
from bayes_asr.base.progress import follow
from bayes_asr.base.shards import Mapper
from bayes_asr.data.features.front_end import cmvn_statistics
from bayes_asr.data.features.skipped import check_limit
from bayes_asr.data.sound.audio import (
    BLOCK,
    Announce,
    Channel,
    bring_to_rate,
    change_speed,
    read_channels,
    split_speed,
    take_channel,
)
from bayes_asr.data.sound.pitch import SLOWEST, pitch_features
from bayes_asr.data.sound.plp import LOWEST, LPC_ORDER, perceptual_cepstra
from bayes_asr.kaldi_io.ark import read_scp, write_matrices
from bayes_asr.kaldi_io.binary import iter_lines
from bayes_asr.kaldi_io.byte_reader import OpenPipe
from bayes_asr.kaldi_io.text import Segment, read_mapping, read_segments

Kind = Literal["mfcc", "fbank", "plp", "pitch", "mfcc-pitch", "fbank-pitch", "plp-pitch", "samples"]
Remark = tuple[str, str]  # a sound, and what was done to it
FRAME_SHIFT = 0.01  # seconds; a frame sees 25 ms
FRAME_LENGTH = 0.025
WINDOWS = (25, 1000)  # ms
SHORTEST = float(np.float32(0.1))  # seconds of a segment, in the precision of extract-segments
OVERSHOOT = 0.5  # seconds of a segment past its recording, as there
MAX_SKIPPED = 0.05  # share of utterances: data.max_skipped of conf/base.yaml, without a run
FIRST_SIDES = ("A", "a", "0", "1")
MOST_BANDS = 200
SAMPLE_RATES = (1000, 1_000_000)  # Hz


@dataclass(frozen=True)
class Analysis:
    """Sound to features, as compute-mfcc-feats --use-energy=false, compute-fbank-feats and
    compute-plp-feats --use-energy=false do it, and compute-kaldi-pitch-feats with
    process-kaldi-pitch-feats; `KIND-pitch` is both, side by side.

    bands: mel bands, the features of fbank; cepstra: the features of mfcc and plp; dither: noise in
    steps of the int16 samples (Kaldi's default is 1, with which no two runs agree); window: ms, the
    features of samples, which are those around the middle of a frame.
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

    @property
    def spectrum(self) -> str:
        """The kind without pitch."""
        return self.kind.removesuffix("-pitch")

    def __call__(self, samples: np.ndarray) -> np.ndarray:
        """Features float32 [T, F] of samples [N] in the range of int16; T is 0 below 25 ms."""
        if self.kind == "samples":
            return cut_windows(samples, self.sample_rate, self.window)
        if self.kind == "pitch":
            return pitch_features(samples, self.sample_rate)
        computer = self._computer()
        # The computer copies what it is given: in parts, that costs no memory.
        for begin in range(0, len(samples), BLOCK):
            computer.accept_waveform(self.sample_rate, samples[begin : begin + BLOCK])
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
        options.frame_opts.dither = self.dither
        options.mel_opts.num_bins = self.bands
        if self.spectrum == "mfcc":
            options.num_ceps, options.use_energy = self.cepstra, False
            return knf.OnlineMfcc(options)
        options.use_log_fbank = self.spectrum == "fbank"
        return knf.OnlineFbank(options)


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


def write_features(
    data_dir: Path,
    front_end: Analysis,
    max_skipped: float = MAX_SKIPPED,
    *,
    channel: Channel | None = None,
    open_pipe: OpenPipe | None = None,
    mapper: Mapper | None = None,
) -> None:
    """Write feats.{ark,scp}, cmvn.{ark,scp} by speaker and frontend.json in a Kaldi data directory.

    Reads wav.scp, segments where there is one, and utt2spk. Utterances of utt2spk that are not
    there, are too short, outside their recording or of digital silence, and those of recordings
    that wav.scp lacks get no features: they are counted and named, and why is said.
    Sound of another rate is resampled, and of several channels the first is taken unless `segments`
    or `channel` names another; both are announced. open_pipe: runs the commands of wav.scp, which
    are refused without it. Raises InputError if a larger share than `max_skipped`, or all, get no
    features, and for sound that cannot be read; what was there then stays, all of it. mapper: None
    to compute here.
    """
    data_dir = Path(data_dir)
    settle(data_dir)
    utt2spk = read_mapping(data_dir / "utt2spk")
    stats: dict[str, np.ndarray] = {}
    sounds = Recordings(data_dir, front_end.sample_rate, channel, open_pipe)

    def compute(
        recording: str, segments: Sequence[Segment]
    ) -> tuple[list[tuple[str, np.ndarray]], list[Remark]]:
        remarks: list[Remark] = []
        utterances = read_utterances(
            sounds, recording, segments, lambda sound, remark: remarks.append((sound, remark))
        )
        return [(utt, front_end(samples)) for utt, samples in utterances], remarks

    recordings = list_recordings(data_dir, sounds, len(utt2spk), max_skipped)
    # A function for other processes returns its remarks, as their logs are not read here.
    computed = mapper(compute, recordings) if mapper else starmap(compute, recordings)

    # Features, statistics and the analysis replace the old ones together, or not at all.
    with together(data_dir):
        sifted = _sift(computed, data_dir, utt2spk, stats, max_skipped)
        matrices = follow(sifted, "features", total=len(utt2spk))
        write_matrices(matrices, data_dir / "feats.ark", data_dir / "feats.scp")
        write_matrices(stats.items(), data_dir / "cmvn.ark", data_dir / "cmvn.scp")
        with replacing(data_dir / "frontend.json") as temporary:
            temporary.write_text(json.dumps(asdict(front_end)) + "\n", encoding="utf-8")


def _sift(
    computed: Iterable[tuple[Iterable[tuple[str, np.ndarray]], list[Remark]]],
    data_dir: Path,
    utt2spk: Mapping[str, str],
    stats: dict[str, np.ndarray],
    max_skipped: float,
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the utterances that have frames, add their statistics to `stats` by speaker, and report
    what was done to sounds and which utterances have none.
    """
    missing = dict.fromkeys(utt2spk)
    remarks: list[Remark] = []
    for matrices, new_remarks in computed:
        remarks += new_remarks
        for utt, matrix in matrices:
            if utt not in utt2spk:
                raise InputError(f"{data_dir / 'utt2spk'}: lacks the utterance {utt}; add it")
            if len(matrix):
                missing.pop(utt, None)  # a second one is refused where it is written
                speaker = utt2spk[utt]
                # The statistics are sums, so those of a speaker add up by utterance.
                stats[speaker] = stats.get(speaker, 0.0) + cmvn_statistics([matrix])
                yield utt, matrix
    _report_remarks(remarks)
    _report_left(data_dir, [*missing], len(utt2spk), max_skipped)


def _report_left(data_dir: Path, missing: list[str], total: int, limit: float) -> None:
    """Name the utterances that get no features; InputError if they are too many, or all."""
    if not missing:
        return
    message = (
        f"{data_dir}: {len(missing)} of {total} utterances have too little sound, or none, and get"
        f" no features: {name_some(missing)}"
    )
    if len(missing) == total:
        raise InputError(f"{message}; nothing is left to write")
    check_limit(message, len(missing), total, limit, "--max-skipped")
    LOGGER.warning("%s", message)


class Recordings:
    """The sound of a data directory's wav.scp at one rate."""

    def __init__(
        self, data_dir: Path, rate: int, channel: Channel | None, open_pipe: OpenPipe | None
    ) -> None:
        """Read the tables."""
        self.table = data_dir / "wav.scp"
        self.files = read_scp(self.table, open_pipe=open_pipe)
        self.rate, self.channel, self.open_pipe = rate, channel, open_pipe
        self.sides = _read_sides(data_dir / "reco2file_and_channel")

    def read(self, name: str, channel: int | None, announce: Announce) -> np.ndarray:
        """Samples [N] of a recording; channel: of `segments`, which precedes the general one."""
        what = f"{self.files[name]} ({name})"
        try:
            file, speed = split_speed(self.files[name])
            samples, rate = read_channels(file, open_pipe=self.open_pipe)
        except InputError as error:
            raise InputError(f"{self.table}: {name}: {error}") from None
        selected = self.channel if channel is None else channel
        if selected is None and samples.shape[1] > 1 and name in self.sides:
            raise InputError(
                f"{what}: has {samples.shape[1]} channels, and reco2file_and_channel says"
                f" {self.sides[name]}, which only scoring reads; name the channel, from 0, in the"
                " fifth column of segments, or by --channel"
            )
        mono = take_channel(samples, selected, what, announce)
        return change_speed(bring_to_rate(mono, rate, self.rate, what, announce), speed)


def _report_remarks(remarks: Iterable[Remark]) -> None:
    """Say what was done, and to how many recordings."""
    sounds: dict[str, list[str]] = {}
    for sound, remark in remarks:
        sounds.setdefault(remark, []).append(sound)
    for remark, names in sounds.items():
        further = f" (and {len(names) - 1} more)" * (len(names) > 1)
        LOGGER.warning("%s%s: %s", names[0], further, remark)


def _read_sides(path: Path) -> dict[str, str]:
    """The sides of a conversation (reco2file_and_channel) other than the first, by recording."""
    if not is_there(path):
        return {}
    lines = (fields for _, fields in iter_lines(path))
    return {fields[0]: fields[-1] for fields in lines if fields[-1] not in FIRST_SIDES}


def list_recordings(
    data_dir: Path, sounds: Recordings, total: int, limit: float
) -> list[tuple[str, list[Segment]]]:
    """Each recording and, where `segments` is there, those that follow one another in it.

    Recordings that wav.scp lacks are named; InputError if more than `limit` of the `total`
    utterances are of these.
    """
    if not is_there(data_dir / "segments"):
        return [(utt, []) for utt in sounds.files]
    segments = read_segments(data_dir / "segments")
    # A group is a run of segments of one recording and channel, so its sound is read once.
    grouped = [(key[0], [*parts]) for key, parts in groupby(segments, key=lambda s: s[1:3])]
    absent: dict[str, list[Segment]] = {}
    for recording, parts in grouped:
        if recording not in sounds.files:
            absent.setdefault(recording, []).extend(parts)
    if absent:
        recording, (segment, *_) = next(iter(absent.items()))
        count = sum(map(len, absent.values()))
        message = (
            f"{sounds.table}: lacks {recording}, of the segment {segment[0]}; recordings of {count}"
            f" of {total} utterances are not there: {name_some([*absent])}"
        )
        check_limit(message, count, total, limit, "--max-skipped")
        LOGGER.warning("%s", message)
    return [(recording, parts) for recording, parts in grouped if recording in sounds.files]


def read_utterances(
    sounds: Recordings, recording: str, segments: Sequence[Segment], announce: Announce
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the samples [N] of a recording, or of its segments where there are some.

    There are none of what Kaldi's extract-segments passes over, and of digital silence.
    """
    samples = sounds.read(recording, segments[0][2] if segments else None, announce)
    entire: list[Segment] = [(recording, recording, None, 0.0, len(samples) / sounds.rate)]
    for utt, _, _, start, end in segments or entire:
        cut, fault = _cut(samples, sounds.rate, start, end) if segments else (samples, "")
        # A constant signal has no energy without its mean: features would be the floor of the log.
        if len(cut) and not np.ptp(cut):
            cut, fault = cut[:0], "is digital silence"
        if fault:
            place = f"{start:g} to {end:g} s of {recording}, which has {entire[0][4]:g} s"
            announce(f"{utt} ({place})", fault)
        yield utt, cut


def _cut(samples: np.ndarray, rate: int, start: float, end: float) -> tuple[np.ndarray, str]:
    """The samples of a segment, or none, and why."""
    length = len(samples) / rate
    if end > length + OVERSHOOT:
        return samples[:0], f"ends more than {OVERSHOOT:g} s after its recording"
    # A small overshoot is cut off, since times of segments are rounded.
    end = length if end < 0 else min(end, length)
    if end - start < SHORTEST:
        return samples[:0], f"is shorter than {SHORTEST:g} s"
    # Half is added because int cuts off: the nearest sample is taken.
    return samples[int(start * rate + 0.5) : int(end * rate + 0.5)], ""
