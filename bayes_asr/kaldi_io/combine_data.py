"""Several data directories as one, as by Kaldi's utils/combine_data.sh and copy_data_dir.sh."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there, read_bytes, replacing
from bayes_asr.kaldi_io.sorted_table import join_tables
from bayes_asr.kaldi_io.text import DataDir, read_mapping, write_speakers

SORTED = (  # as Kaldi requires; the tables of copy_data_dir.sh that do not depend on features
    "text",
    "wav.scp",
    "segments",
    "spk2gender",
    "utt2dur",
    "utt2uniq",
    "reco2dur",
    "reco2file_and_channel",
)
IN_ORDER = ("stm", "glm")  # of NIST's scoring tools, where the order matters


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
    # A speaker may be in several directories; `check_cmvn` compares their statistics.
    cmvn = {speaker: where for part in parts for speaker, where in (part.cmvn or {}).items()}
    return CombinedDataDir(
        parts[0].path, join_tables(feats, "has features"), cmvn or None, tuple(parts)
    )


def check_cmvn(parts: Sequence[DataDir]) -> None:
    """InputError where combined directories contradict each other on the statistics of speakers."""
    with_any = [part for part in parts if part.cmvn is not None]
    for part in parts if with_any else ():
        if part.cmvn is None:
            raise InputError(
                f"{part.path / 'cmvn.scp'}: is missing, but {with_any[0].path} has one; compute"
                " the statistics of the speakers, or remove the other"
            )
    join_tables([(part.path / "cmvn.scp", part.cmvn or {}) for part in parts], "has statistics")


def copy_tables(directories: Sequence[Path], out: Path) -> None:
    """Copy the tables of a data directory, or those of several as one, into `out`.

    Files that depend on features (feats.scp, cmvn.scp, frontend.json, utt2num_frames) are left out.
    """
    speakers = [
        (path, read_mapping(path)) for path in (data_dir / "utt2spk" for data_dir in directories)
    ]
    write_speakers(dict(join_tables(speakers, "is an utterance")), out)
    other_texts = [path.name for path in directories[0].glob("text_*") if path.is_file()]
    for name in (*SORTED, *IN_ORDER, *other_texts):
        paths = [path for directory in directories if is_there(path := directory / name)]
        # Tables by speaker or recording may have equal lines in several directories: once each.
        lines = dict.fromkeys(chain.from_iterable(read_bytes(path).splitlines() for path in paths))
        if paths:
            with replacing(out / name) as temporary:
                ordered = lines if name in IN_ORDER else sorted(lines)
                temporary.write_bytes(b"".join(line + b"\n" for line in ordered))
