"""TIMIT-shaped corpora of a few made-up speakers: LDC's layout, and that of NLTK's sample."""

import wave
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

RATE = 16000
MARKS = [("h#", 2000), ("q", 400), ("ae", 1600), ("tcl", 800), ("t", 200), ("axr", 1500)]
MARKS += [("ng", 1200), ("q", 300), ("h#", 3000)]
TRANSCRIPT = "sil ae cl t er ng sil"
SPEAKERS = {"fcjf0": "train", "mcpm0": "train", "faks0": "test", "mdab0": "test", "mxxx0": "test"}


def write_sphere(path: Path, samples: np.ndarray) -> None:
    """Write a NIST SPHERE file as LDC distributes TIMIT (1024 bytes of header, little-endian)."""
    fields = [
        "NIST_1A\n   1024",
        "database_id -s5 TIMIT",
        "channel_count -i 1",
        f"sample_count -i {len(samples)}",
        f"sample_rate -i {RATE}",
        "sample_n_bytes -i 2",
        "sample_byte_format -s2 01",
        "sample_sig_bits -i 16",
        "end_head",
    ]
    header = "\n".join(fields).encode() + b"\n"
    path.write_bytes(header.ljust(1024) + samples.astype("<i2").tobytes())


def write_riff(path: Path, samples: np.ndarray) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(samples.astype("<i2").tobytes())


def write_sentence(
    folder: Path,
    name: str,
    upper: bool,
    write: Callable[[Path, np.ndarray], None],
    marks: Sequence[tuple[str, int]] = MARKS,
) -> None:
    """Write the sound and the marks of a sentence: every phone a tone of its own in some noise."""
    folder.mkdir(parents=True, exist_ok=True)
    lengths = [count for _, count in marks]
    pitch = np.repeat([1 + zlib.crc32(phone.encode()) % 97 for phone, _ in marks], lengths)
    noise = np.random.default_rng(len(name)).normal(0, 300, len(pitch))
    samples = 2000 * np.sin(np.cumsum(pitch) / 50) + noise
    ends = np.cumsum(lengths).tolist()
    lines = [
        f"{end - length} {end} {phone}\n" for (phone, length), end in zip(marks, ends, strict=True)
    ]
    wav, phn = (s.upper() if upper else s for s in (f"{name}.wav", f"{name}.phn"))
    write(folder / wav, samples)
    (folder / phn).write_text("".join(lines))


def write_ldc(root: Path, upper: bool = True) -> Path:
    """Write TRAIN and TEST of a few speakers, sentences SA1, SX1 and SI1 of each."""
    for speaker, part in SPEAKERS.items():
        folder = root.joinpath(*(p.upper() if upper else p for p in (part, "dr1", speaker)))
        for name in ("sa1", "sx1", "si1"):
            write_sentence(folder, name, upper, write_sphere)
    return root


def write_flat(root: Path) -> Path:
    """Write a corpus as flat as NLTK's sample, of eight speakers who say four sentences each."""
    rng = np.random.default_rng(0)
    phones = ["aa", "iy", "s", "tcl", "t", "m"]
    for region, speaker in enumerate(["fa0", "mb0", "fc0", "md0", "fe0", "mf0", "fg0", "mh0"], 1):
        for number in range(4):
            said = ["h#", *rng.choice(phones, 8).tolist(), "h#"]
            marks = [(phone, int(rng.integers(800, 1800))) for phone in said]
            folder = root / f"dr{region}-{speaker}"
            write_sentence(folder, f"sx{number}", False, write_riff, marks)
    return root
