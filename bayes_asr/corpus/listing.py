"""Which utterances of a set have features and an alignment."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bayes_asr.tables.binary import OpenPipe
from bayes_asr.tables.text import DataDir, read_data_dir
from bayes_asr.targets.alignments import Alignments


@dataclass(frozen=True)
class Listing:
    """The tables of a set, the frames of each utterance that has both, and those that lack one."""

    data: DataDir
    lengths: Mapping[str, int]
    total: int
    without_features: list[str]
    without_alignment: list[str]


def list_utterances(directory: Path, alignments: Alignments, open_pipe: OpenPipe | None) -> Listing:
    """Read the tables of a data directory, and compare them with alignments."""
    data = read_data_dir(directory, open_pipe=open_pipe)
    feats, aligned = data.feats or {}, dict(alignments.lengths.items())
    lengths = {utt: aligned[utt] for utt in feats if utt in aligned}
    return Listing(
        data,
        lengths,
        len(data.utt2spk),
        [utt for utt in data.utt2spk if utt not in feats],
        [utt for utt in feats if utt not in lengths],
    )
