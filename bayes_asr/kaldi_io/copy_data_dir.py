"""Tables of data directories for other features of them, as by Kaldi's utils/copy_data_dir.sh."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from bayes_asr.base.files import is_there, read_bytes, replacing
from bayes_asr.kaldi_io.sorted_table import join_tables
from bayes_asr.kaldi_io.text import read_mapping, write_speakers

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
