"""What a run was started on, so that it never goes on with other data unawares."""

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from bayes_asr.data.alignments import Alignments
from bayes_asr.data.features import Features
from bayes_asr.errors import InputError
from bayes_asr.train.corpus import LabelledSet

SAMPLE = 2**16  # bytes of a feature archive that are read at each of three places


def fingerprints(*sets: LabelledSet) -> dict[str, str]:
    """A hash of everything that the sets are made of, by file or directory.

    Tables are hashed whole, alignments and their model as what they say, whatever compressed them.
    Of an archive of features, which may be as large as a disk, its size and 64 KiB at its
    beginning, middle and end. What a pipe prints is not looked at; feats.scp has its command.
    """
    found = {}
    for data in sets:
        for path in _tables(data.features):
            found[str(path)] = _hash([path.read_bytes()])
        for path in data.features.archives:
            found[str(path)] = _hash(_sampled(path))
        found[str(data.alignments.directory)] = _hash(_labels(data.alignments))
    return found


def check_same(saved: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Refuse inputs that differ from those of a run that is there."""
    for path in sorted(saved.keys() | now.keys()):
        if saved.get(path) != now.get(path):
            what = "was not read before" if path not in saved else "has changed"
            what = what if path in now else "is not read any more"
            raise InputError(
                f"{path}: {what} since this run was started; restore it, train into another"
                " folder, or start over with --new"
            )


def _tables(features: Features) -> list[Path]:
    names = ("feats.scp", "utt2spk", "cmvn.scp", "frontend.json")
    return [path for name in names if (path := features.directory / name).exists()]


def _sampled(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        yield str(size).encode()
        for place in (0, size // 2, size - SAMPLE):
            file.seek(max(0, place))
            yield file.read(SAMPLE)


def _labels(alignments: Alignments) -> Iterator[bytes]:
    yield alignments.model.tuples.tobytes()
    yield alignments.model.pdf.tobytes()
    for utt, transition_ids in alignments.items():
        yield f"{utt} {len(transition_ids)} ".encode()
        yield transition_ids.tobytes()


def _hash(parts: Iterator[bytes] | list[bytes]) -> str:
    total = hashlib.blake2b(digest_size=16)
    for part in parts:
        total.update(part)
    return total.hexdigest()
