"""Files of sound as other writers make them."""

import io
import wave
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

SOUND = np.random.default_rng(1).integers(-(2**15), 2**15, (400, 2)).astype(np.int16)


def riff(samples: np.ndarray, rate: int = 16000) -> bytes:
    """The file that Python's own writer makes of int16 samples [N, channels]."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(samples.shape[1])
        sound.setsampwidth(2)
        sound.setframerate(rate)
        sound.writeframes(samples.astype("<i2").tobytes())
    return file.getvalue()


def sphere(samples: np.ndarray, rate: int = 16000, order: str = "01", more: str = "") -> bytes:
    """A file with the header of LDC's TIMIT."""
    head = (
        "NIST_1A\n   1024\ndatabase_id -s5 TIMIT\ndatabase_version -s3 1.0\n"
        f"utterance_id -s8 cjf0_sa1\nchannel_count -i {samples.shape[1]}\n"
        f"sample_count -i {len(samples)}\nsample_rate -i {rate}\nsample_min -i -2191\n"
        f"sample_max -i 2790\nsample_n_bytes -i 2\nsample_byte_format -s2 {order}\n"
        f"sample_sig_bits -i 16\n{more}end_head\n"
    )
    body = samples.astype("<i2" if order == "01" else ">i2").tobytes()
    return head.encode().ljust(1024) + body


def written(
    samples: np.ndarray,
    form: str,
    encoding: str,
    changes: Mapping[int, float] = MappingProxyType({}),
    rate: int = 16000,
) -> bytes:
    """What libsndfile makes of int16, or of floats from -1 to 1, some of them changed."""
    soundfile = pytest.importorskip("soundfile")
    changed = samples.copy()
    for place, value in changes.items():
        changed[place] = value
    file = io.BytesIO()
    soundfile.write(file, changed, rate, format=form, subtype=encoding)
    return file.getvalue()


def corpus(folder: Path, seconds: dict[str, float], rate: int = 16000) -> Path:
    """A data directory whose utterances last so long; the speaker is the first letter."""
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(2)
    for utt, duration in seconds.items():
        samples = rng.integers(-9000, 9000, (int(duration * rate), 1))
        (folder / f"{utt}.wav").write_bytes(riff(samples, rate))
    lines = {
        "wav.scp": (f"{utt} {utt}.wav" for utt in seconds),
        "utt2spk": (f"{utt} {utt[0]}" for utt in seconds),
    }
    for name, rows in lines.items():
        (folder / name).write_text("".join(f"{row}\n" for row in rows))
    return folder
