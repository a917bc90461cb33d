"""Ways to break a laboratory, and circumstances in which commands fail."""

import ctypes
import gzip
import os
import resource
import shutil
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import torch

from bayes_asr.base import files
from bayes_asr.data.corpus import labelled
from bayes_asr.kaldi_io.ark import write_matrices
from bayes_asr.kaldi_io.integers import write_int_vectors
from bayes_asr.kaldi_io.lattice_files import iter_lattices, write_lattices
from tests.support.small_corpus import made_up, write_alignments

Break = Callable[[Path], object]
"""Breaks something in the laboratory that is given."""

ARK, SCP = "data/test/feats.ark", "data/test/feats.scp"
ALI, MDL, HCLG = "exp/ali/ali.1.gz", "exp/ali/final.mdl", "exp/graph/HCLG.fst"
LOGLIKES, LATTICES = "run/forward_test/loglikes.ark", "run/decode_test/lat.1.gz"
SPHERE = """\
NIST_1A
   1024
sample_count -i 16000
sample_rate -i 16000
channel_count -i 1
sample_n_bytes -i 2
sample_byte_format -s2 01
sample_coding -s3 pcm
end_head
"""
HEADER = len(b"test0-0 \0BFM \4....\4....")


def sounds(damage: Break) -> Break:
    """Add data/sound, an utterance of a second as RIFF and one as NIST SPHERE, and damage it."""

    def how(lab: Path) -> None:
        place = lab / "data" / "sound"
        place.mkdir()
        samples = np.random.default_rng(0).integers(-9000, 9000, 16000).astype("<i2").tobytes()
        form = struct.pack("<8sIHHIIHH", b"WAVEfmt ", 16, 1, 1, 16000, 32000, 2, 16)
        body = form + struct.pack("<4sI", b"data", 32000) + samples
        (place / "a.wav").write_bytes(struct.pack("<4sI", b"RIFF", len(body)) + body)
        (place / "b.sph").write_bytes(SPHERE.encode().ljust(1024) + samples)
        (place / "wav.scp").write_text("x-a data/sound/a.wav\nx-b data/sound/b.sph\n")
        (place / "utt2spk").write_text("x-a x\nx-b x\n")
        damage(lab)

    return how


def cut(name: str, size: int) -> Break:
    """Keep the first `size` bytes of a file, or all but the last -size."""
    return lambda lab: (lab / name).write_bytes((lab / name).read_bytes()[:size])


def write(name: str, content: bytes | str) -> Break:
    """Put another content into a file."""
    raw = content.encode() if isinstance(content, str) else content
    return lambda lab: (lab / name).write_bytes(raw)


def change(name: str, old: bytes | str, new: bytes | str) -> Break:
    """Replace the first `old` in a file, which must be there, by `new`."""
    before, after = (x.encode() if isinstance(x, str) else x for x in (old, new))

    def how(lab: Path) -> None:
        raw = (lab / name).read_bytes()
        assert before in raw
        (lab / name).write_bytes(raw.replace(before, after, 1))

    return how


def within_gzip(name: str, edit: Callable[[bytes], bytes]) -> Break:
    """Change what a gzipped file holds."""

    def how(lab: Path) -> None:
        (lab / name).write_bytes(gzip.compress(edit(gzip.decompress((lab / name).read_bytes()))))

    return how


def remove(name: str) -> Break:
    """Take a file or folder away."""
    return lambda lab: shutil.rmtree(lab / name) if (lab / name).is_dir() else (lab / name).unlink()


def folder(name: str) -> Break:
    """Put a folder in the place of a file."""

    def how(lab: Path) -> None:
        (lab / name).unlink()
        (lab / name).mkdir()

    return how


def circle(name: str) -> Break:
    """Put a symbolic link to itself in the place of a file."""

    def how(lab: Path) -> None:
        (lab / name).unlink()
        (lab / name).symlink_to(lab / name)

    return how


def named_pipe(name: str) -> Break:
    """Put a named pipe that nobody writes to in the place of a file."""

    def how(lab: Path) -> None:
        (lab / name).unlink()
        os.mkfifo(lab / name)

    return how


def link(name: str, target: str) -> Break:
    """Put a link to `target` in the place of a file."""

    def how(lab: Path) -> None:
        (lab / name).unlink(missing_ok=True)
        (lab / name).symlink_to(target)

    return how


def again(name: str) -> Break:
    """Repeat the first line of a text file at its end."""

    def how(lab: Path) -> None:
        lines = (lab / name).read_bytes().splitlines(keepends=True)
        (lab / name).write_bytes(b"".join([*lines, lines[0]]))

    return how


def without_line(name: str, number: int) -> Break:
    """Remove a line of a text file."""

    def how(lab: Path) -> None:
        lines = (lab / name).read_bytes().splitlines(keepends=True)
        del lines[number]
        (lab / name).write_bytes(b"".join(lines))

    return how


def overwrite(name: str, at: int, raw: bytes) -> Break:
    """Write over the bytes from `at` on."""

    def how(lab: Path) -> None:
        content = bytearray((lab / name).read_bytes())
        content[at : at + len(raw)] = raw
        (lab / name).write_bytes(content)

    return how


def matrices(name: str, *items: tuple[str, np.ndarray]) -> Break:
    """Write an archive and its index in the place of features, with paths relative to it."""

    def how(lab: Path) -> None:
        write_matrices(items, lab / name.replace(".scp", ".ark"), lab / name)

    return how


def alignments(*items: tuple[str, list[int]]) -> Break:
    """Write other training alignments."""
    vectors = [(utt, np.array(ids, np.int32)) for utt, ids in items]
    return lambda lab: write_int_vectors(vectors, lab / "exp/ali/ali.1.gz")


def longer_alignment(lab: Path) -> None:
    """Repeat the last transition-id of an utterance."""
    _, found = made_up("train", 12)
    found["train1-4"] = np.append(found["train1-4"], found["train1-4"][-1:])
    write_alignments(lab / "exp/ali", found.items())


def cyclic_lattice(lab: Path) -> None:
    """Lead the last arc of a lattice back to where it starts."""
    utt, lattice = next(iter_lattices(lab / LATTICES))
    nextstate = lattice.nextstate.copy()
    nextstate[-1] = 0
    write_lattices([(utt, replace(lattice, nextstate=nextstate))], lab / LATTICES)


def checkpoint(**changes: object) -> Break:
    """Change entries of best.pt."""

    def how(lab: Path) -> None:
        content = torch.load(lab / "run/best.pt", weights_only=True)
        torch.save({**content, **changes}, lab / "run/best.pt")

    return how


def front_end(**changes: object) -> Break:
    """Change the front end in best.pt."""

    def how(lab: Path) -> None:
        content = torch.load(lab / "run/best.pt", weights_only=True)
        changed = {"features": {**content["front_ends"]["features"], **changes}}
        torch.save({**content, "front_ends": changed}, lab / "run/best.pt")

    return how


class Code:
    """Unpickled, it makes a file."""

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, ("executed",)


def renamed(old: str, new: str) -> Break:
    """Move something."""

    def how(lab: Path) -> None:
        (lab / new).parent.mkdir(parents=True, exist_ok=True)
        (lab / old).rename(lab / new)

    return how


def both(*breaks: Break) -> Break:
    """Break several things."""

    def how(lab: Path) -> None:
        for one in breaks:
            one(lab)

    return how


@contextmanager
def small_files(size: int) -> Iterator[None]:
    """Let no file grow beyond `size` bytes, as a disk that is full or a quota does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def failing(function: str, number: int) -> Callable[[], AbstractContextManager[object]]:
    """Let a function of `os` fail with this error number."""

    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    return lambda: mock.patch.object(os, function, fail)


@contextmanager
def unprivileged() -> Iterator[None]:
    """Let permissions bind root, too: this thread gives up CAP_DAC_OVERRIDE for a while."""
    libc = ctypes.CDLL(None, use_errno=True)
    header, data = struct.pack("=Ii", 0x20080522, 0), ctypes.create_string_buffer(24)
    assert libc.capget(header, data) == 0
    before = data.raw
    effective, *others = struct.unpack("=6I", before)
    assert libc.capset(header, struct.pack("=6I", effective & ~0b110, *others)) == 0
    try:
        yield
    finally:
        assert libc.capset(header, before) == 0


@contextmanager
def vanishing() -> Iterator[None]:
    """Let the archive of the test set vanish when its first utterance has been read."""
    read = labelled.read_matrix

    def then_remove(*arguments: object, **options: object) -> np.ndarray:
        matrix = read(*arguments, **options)  # type: ignore[arg-type]
        Path(ARK).unlink(missing_ok=True)
        return matrix

    with mock.patch.object(labelled, "read_matrix", then_remove):
        yield


def impatient() -> AbstractContextManager[object]:
    """Wait a tenth of a second for the writer of a named pipe."""
    return mock.patch.object(files, "WAIT", 0.1)


def jumping_clock() -> AbstractContextManager[object]:
    """Let the time of day go back an hour whenever it is asked for."""
    times = map(float, range(2_000_000_000, 0, -3600))
    return mock.patch.object(time, "time", side_effect=times)


def mode(name: str, bits: int) -> Break:
    """Change the permissions of a file or folder, which is made where it is missing."""

    def how(lab: Path) -> None:
        if not (lab / name).exists():
            (lab / name).mkdir()
        (lab / name).chmod(bits)

    return how


def windows(*names: str) -> Break:
    """Give text files a byte order mark and Windows line ends."""

    def how(lab: Path) -> None:
        for name in names:
            raw = (lab / name).read_bytes()
            (lab / name).write_bytes(b"\xef\xbb\xbf" + raw.replace(b"\n", b"\r\n"))

    return how


def moved_archive(name: str) -> Break:
    """Give the archive of the test set another name."""
    return both(
        renamed(ARK, name),
        lambda lab: (lab / SCP).write_text((lab / SCP).read_text().replace(ARK, name)),
    )


def nothing(lab: Path) -> None:
    """Leave the laboratory as it is."""
