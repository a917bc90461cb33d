"""Kaldi's data directories: one, or several as one, as by its utils/combine_data.sh."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there
from bayes_asr.kaldi_io.ark import Moves, read_scp
from bayes_asr.kaldi_io.byte_reader import OpenPipe
from bayes_asr.kaldi_io.sorted_table import join_tables
from bayes_asr.kaldi_io.text import DataDir, read_text, refuse_strangers


def read_data_dir(
    path: Path,
    *,
    open_pipe: OpenPipe | None = None,
    feats: Mapping[str, str] | None = None,
    moves: Moves = (),
) -> DataDir:
    """Read the tables of a Kaldi data directory; utt2spk must be there.

    Every utterance of feats.scp and text must be in utt2spk. Which utterances a later stage needs
    is its own business. Pipes in feats.scp and cmvn.scp are refused unless `open_pipe` is given.
    feats: the known contents of feats.scp, so that it and utt2spk are not read for it. moves: as in
    `read_scp`.
    """

    def scp(name: str) -> dict[str, str] | None:
        file = Path(path) / name
        return read_scp(file, open_pipe=open_pipe, moves=moves) if is_there(file) else None

    data = DataDir(Path(path), scp("feats.scp") if feats is None else feats, scp("cmvn.scp"))
    if feats is None:
        refuse_strangers(data.path / "feats.scp", data.feats or {}, data.utt2spk)
    return data


@dataclass(frozen=True)
class CombinedDataDir(DataDir):
    """Several data directories as one; `path` is the first."""

    data_dirs: tuple[DataDir, ...]

    @property
    def parts(self) -> tuple[DataDir, ...]:
        """The directories."""
        return self.data_dirs

    @cached_property
    def utt2spk(self) -> dict[str, str]:
        """The speaker of each utterance."""
        tables = [(part.path / "utt2spk", part.utt2spk) for part in self.data_dirs]
        return dict(join_tables(tables, "is an utterance"))

    @cached_property
    def text(self) -> dict[str, list[str]] | None:
        """The transcripts of those that have any."""
        texts = [
            (part.path / "text", part.text) for part in self.data_dirs if part.text is not None
        ]
        return dict(join_tables(texts, "has a transcript")) if texts else None


def combine_data_dirs(parts: Sequence[DataDir]) -> DataDir:
    """Data directories as one; InputError for an utterance that is in two of them."""
    if len(parts) == 1:
        return parts[0]
    feats = [(part.path / "feats.scp", part.feats or {}) for part in parts]
    # Where the statistics are used, `check_cmvn` refuses a speaker who has some in two directories.
    cmvn = {speaker: where for part in parts for speaker, where in (part.cmvn or {}).items()}
    return CombinedDataDir(
        parts[0].path, join_tables(feats, "has features"), cmvn or None, tuple(parts)
    )


def read_texts(paths: Sequence[Path]) -> Mapping[str, list[str]]:
    """The transcripts of one file or several; InputError for an utterance that is in two."""
    if len(paths) == 1:
        return read_text(paths[0])
    return join_tables([(path, read_text(path)) for path in paths], "has a transcript")


def check_cmvn(parts: Sequence[DataDir]) -> None:
    """InputError where not all combined directories have statistics, or two have a speaker's."""
    with_any = [part for part in parts if part.cmvn is not None]
    for part in parts if with_any else ():
        if part.cmvn is None:
            raise InputError(
                f"{part.path / 'cmvn.scp'}: is missing, but {with_any[0].path} has one; compute"
                " the statistics of the speakers, or remove the other"
            )
    join_tables([(part.path / "cmvn.scp", part.cmvn or {}) for part in parts], "has statistics")
