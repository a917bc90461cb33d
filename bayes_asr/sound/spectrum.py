"""MFCC and log mel energies equal to Kaldi's, of sound and of the sound of a data directory."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from tqdm import tqdm

from bayes_asr.errors import InputError
from bayes_asr.features.front_end import statistics
from bayes_asr.files import replacing
from bayes_asr.log import LOGGER
from bayes_asr.sound.audio import read_audio
from bayes_asr.tables.ark import write_matrices
from bayes_asr.tables.binary import iter_lines
from bayes_asr.tables.scp import read_scp
from bayes_asr.tables.text import read_mapping

Kind = Literal["mfcc", "fbank"]
FRAME_SHIFT = 0.01  # seconds; a frame sees 25 ms
SHORTEST = float(np.float32(0.1))  # seconds of a segment, in the precision of extract-segments
OVERSHOOT = 0.5  # seconds of a segment past its recording, as there
MAX_SKIPPED = 0.05  # share of utterances without sound: as data.max_skipped of conf/base.yaml
NAMED = 5  # how many utterances a message names


@dataclass(frozen=True)
class Analysis:
    """Sound to features, as compute-mfcc-feats --use-energy=false and compute-fbank-feats do it.

    bands: mel bands, the features of fbank; cepstra: the features of mfcc; dither: noise in steps
    of the int16 samples (Kaldi's default is 1, with which no two runs agree).
    """

    kind: Kind = "mfcc"
    sample_rate: int = 16000
    bands: int = 23
    cepstra: int = 13
    dither: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what no features can be computed with."""
        if self.kind not in get_args(Kind):
            raise InputError(f"front end {self.kind!r}; known: {', '.join(get_args(Kind))}")
        if not (1 <= self.cepstra <= self.bands <= 200 and self.sample_rate >= 1000):
            raise InputError(
                f"front end: {self.cepstra} cepstra of {self.bands} mel bands at"
                f" {self.sample_rate} Hz: up to 200 bands, and no more cepstra than bands"
            )

    def __call__(self, samples: np.ndarray) -> np.ndarray:
        """Features float32 [T, F] of samples [N] in the range of int16; T is 0 below 25 ms."""
        computer = self._computer()
        computer.accept_waveform(self.sample_rate, samples)
        computer.input_finished()
        frames = [computer.get_frame(i) for i in range(computer.num_frames_ready)]
        return np.array(frames, np.float32).reshape(-1, computer.dim)

    def _computer(self) -> Any:
        try:
            import kaldi_native_fbank as knf
        except ImportError as error:
            raise InputError(
                f"computing features needs kaldi-native-fbank: pip install -e '.[audio]' ({error})"
            ) from error
        options = knf.MfccOptions() if self.kind == "mfcc" else knf.FbankOptions()
        options.frame_opts.samp_freq = self.sample_rate
        options.frame_opts.dither = self.dither
        options.mel_opts.num_bins = self.bands
        if self.kind == "fbank":
            return knf.OnlineFbank(options)
        options.num_ceps, options.use_energy = self.cepstra, False
        return knf.OnlineMfcc(options)


def write_features(data_dir: Path, front_end: Analysis, max_skipped: float = MAX_SKIPPED) -> None:
    """Write feats.{ark,scp}, cmvn.{ark,scp} by speaker and frontend.json in a Kaldi data directory.

    Reads wav.scp, segments where there is one, and utt2spk. Utterances of utt2spk that are not
    there, are too short or outside their recording get no features: they are counted and named.
    Raises InputError if they are a larger share than `max_skipped`, or all, and for sound that
    cannot be read or has another rate than the front end's; what was there then stays.
    """
    data_dir = Path(data_dir)
    utt2spk = read_mapping(data_dir / "utt2spk")
    stats: dict[str, np.ndarray] = {}
    left = dict.fromkeys(utt2spk)

    def compute() -> Iterator[tuple[str, np.ndarray]]:
        for utt, samples in _read_utterances(data_dir, front_end.sample_rate):
            if utt not in utt2spk:
                raise InputError(f"{data_dir / 'utt2spk'}: lacks the utterance {utt}; add it")
            matrix = front_end(samples)
            if len(matrix):
                left.pop(utt, None)  # a second one is refused where it is written
                speaker = utt2spk[utt]
                stats[speaker] = stats.get(speaker, 0.0) + statistics([matrix])
                yield utt, matrix
        _report_left(data_dir, [*left], len(utt2spk), max_skipped)
        for name in ("frontend.json", "cmvn.scp"):  # of the features that are now replaced
            (data_dir / name).unlink(missing_ok=True)

    matrices = tqdm(compute(), "features", len(utt2spk), unit="utt", leave=False, disable=None)
    write_matrices(matrices, data_dir / "feats.ark", data_dir / "feats.scp")
    write_matrices(stats.items(), data_dir / "cmvn.ark", data_dir / "cmvn.scp")
    with replacing(data_dir / "frontend.json") as temporary:
        temporary.write_text(json.dumps(asdict(front_end)) + "\n", encoding="utf-8")


def _report_left(data_dir: Path, left: list[str], total: int, limit: float) -> None:
    """Name the utterances that get no features; InputError if they are too many, or all."""
    names = ", ".join(left[:NAMED]) + (", ..." if len(left) > NAMED else "")
    message = (
        f"{data_dir}: {len(left)} of {total} utterances have too little sound, or none, and get no"
        f" features: {names}"
    )
    if len(left) == total:
        raise InputError(f"{message}; nothing is left to write")
    if len(left) > limit * total:
        raise InputError(f"{message}; more than --max-skipped = {limit:g} allows")
    if left:
        LOGGER.warning("%s", message)


def _read_utterances(data_dir: Path, rate: int) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the samples [N] of each recording, or of each segment where `segments` is there."""
    sounds = read_scp(data_dir / "wav.scp")
    if not (data_dir / "segments").exists():
        yield from ((utt, _read_recording(utt, sounds, rate)) for utt in sounds)
        return
    there: tuple[str, int | None] = ("", None)
    for utt, recording, channel, start, end in read_segments(data_dir / "segments"):
        if recording not in sounds:
            raise InputError(f"{data_dir / 'wav.scp'}: lacks {recording}, of the segment {utt}")
        if (recording, channel) != there:
            there = recording, channel
            samples = _read_recording(recording, sounds, rate, channel)
        yield utt, _cut(samples, rate, start, end)


def _read_recording(
    name: str, sounds: dict[str, str], rate: int, channel: int | None = None
) -> np.ndarray:
    try:
        samples, found = read_audio(sounds[name], channel)
    except OSError as error:
        raise InputError(f"{sounds[name]}: cannot open {name}: {error.strerror}") from None
    if found != rate:
        raise InputError(
            f"{sounds[name]}: {name} has {found} samples a second, the front end {rate}; convert"
            f" it: sox IN.wav OUT.wav rate {rate}"
        )
    return samples


def read_segments(path: Path) -> Iterator[tuple[str, str, int | None, float, float]]:
    """Yield utterance, recording, channel or None, start and end in seconds (-1: to the end)."""
    for number, fields in iter_lines(path):
        try:
            utt, recording, start, end = fields[0], fields[1], float(fields[2]), float(fields[3])
            channel = int(fields[4]) if len(fields) == 5 and fields[4] != "-1" else None
        except (ValueError, IndexError):
            raise InputError(f"{path}, line {number}: not `utt recording start end`") from None
        times = 0 <= start < end < np.inf or (0 <= start < np.inf and end == -1.0)
        if len(fields) > 5 or not times or (channel or 0) < 0:
            raise InputError(
                f"{path}, line {number}: {utt} from {start:g} to {end:g} s; correct it"
            )
        yield utt, recording, channel, start, end


def _cut(samples: np.ndarray, rate: int, start: float, end: float) -> np.ndarray:
    """The samples of a segment, none of one that Kaldi's extract-segments passes over."""
    length = len(samples) / rate
    if end > length + OVERSHOOT:
        return samples[:0]
    end = length if end < 0 else min(end, length)
    if end - start < SHORTEST:
        return samples[:0]
    return samples[int(start * rate + 0.5) : int(end * rate + 0.5)]
