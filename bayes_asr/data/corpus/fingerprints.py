"""Fingerprints of the data of a run, so that it never goes on with other data unawares."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there, read_bytes
from bayes_asr.base.installed import advise_new_run
from bayes_asr.data.corpus.index import content_hash, sample_file
from bayes_asr.data.corpus.labelled import Features, LabelledSet

TABLES = ("feats.scp", "utt2spk", "cmvn.scp", "frontend.json")


def hash_stream(data: LabelledSet, stream: str) -> dict[str, str]:
    """A hash of everything that a stream of a set and its first labels are made of, by file or
    directory.

    Tables are hashed whole, labels as what they say, whatever compressed them.
    So are the archives of speaker statistics, where these are used. Of an archive of features,
    which may be as large as a disk, its size and 64 KiB at its beginning, middle and end. What a
    pipe prints is not looked at; the scp has its command.
    """
    features = data.streams[stream]
    if not all(map(is_there, features.archives)):
        data.check()  # says of which utterance
    hashes = {str(path): content_hash(content) for path, content in _contents(features)}
    return {**hashes, **{str(part.directory): part.digest for part in data.first_labels.parts}}


def hash_further_labels(data: LabelledSet) -> dict[str, str]:
    """A hash of what each directory of the further label sets says."""
    parts = (part for labels in data.further_labels.values() for part in labels.parts)
    return {str(part.directory): part.digest for part in parts}


def check_same(saved: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Refuse inputs that differ from those of a run that is there."""
    for path in sorted(saved.keys() | now.keys()):
        # A new archive is named by a table that has changed too, or is of speaker statistics, which
        # runs of before did not note.
        is_recorded = path in saved or Path(path).name in TABLES
        if is_recorded and saved.get(path) != now.get(path):
            what = "was not read before" if path not in saved else "has changed"
            remedy = "restore it"
            if path not in now:
                what, remedy = "is not read any more", "restore it, say data.moved of a copy"
            raise InputError(
                f"{path}: {what} since this run was started; {remedy}, train into another folder,"
                f" {advise_new_run()}, or score this network as it is (stage 4 and on)"
            )


def _contents(features: Features) -> Iterator[tuple[Path, Iterator[bytes]]]:
    """Yield each file and the bytes of it that are hashed."""
    for table in (directory / name for directory in features.directories for name in TABLES):
        if is_there(table):
            yield table, iter([read_bytes(table)])
    for archive in features.statistics_archives:
        yield archive, iter([read_bytes(archive)])
    for archive in features.archives:
        yield archive, sample_file(archive)
