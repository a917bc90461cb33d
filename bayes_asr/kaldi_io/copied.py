"""The tables of a data directory that go with its utterances, whatever their features are."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from bayes_asr.base.files import is_there, replacing
from bayes_asr.kaldi_io.sorted_table import join_tables
from bayes_asr.kaldi_io.text import read_mapping, write_speakers

SORTED = (  # as Kaldi requires; what its copy_data_dir.sh copies, less what is made of features
    *("text", "wav.scp", "segments", "spk2gender", "utt2dur", "utt2uniq", "reco2dur"),
    "reco2file_and_channel",
)
IN_ORDER = ("stm", "glm")


def copy_tables(directories: Sequence[Path], out: Path) -> None:
    """Copy the tables of a data directory, or those of several as one, into `out`.

    What depends on features (feats.scp, cmvn.scp, frontend.json, utt2num_frames) stays behind.
    """
    speakers = [(path, read_mapping(path)) for path in (one / "utt2spk" for one in directories)]
    write_speakers(dict(join_tables(speakers, "is an utterance")), out)
    other_texts = [path.name for path in directories[0].glob("text_*") if path.is_file()]
    for name in (*SORTED, *IN_ORDER, *other_texts):
        paths = [path for directory in directories if is_there(path := directory / name)]
        lines = dict.fromkeys(chain.from_iterable(path.read_bytes().splitlines() for path in paths))
        if paths:
            with replacing(out / name) as temporary:
                ordered = lines if name in IN_ORDER else sorted(lines)
                temporary.write_bytes(b"".join(line + b"\n" for line in ordered))
