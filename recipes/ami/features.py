#!/usr/bin/env python3
"""Features of a prepared AMI without Kaldi: MFCC or filter banks, and statistics by speaker.

Reads OUT/data as prepare.py writes it. Refuses while recordings are missing.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bayes_asr.data.frontend import FrontEnd, write_features
from bayes_asr.errors import InputError
from bayes_asr.tables.reader import iter_lines
from bayes_asr.tables.text import read_mapping

SETS = ("train", "dev", "eval")
FRONT_ENDS = {"mfcc": FrontEnd("mfcc"), "fbank": FrontEnd("fbank", bands=40)}


def main(argv: Sequence[str] | None = None) -> int:
    """Compute the features of all sets; return 0, or 1 after one line that says what is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="what prepare.py wrote")
    parser.add_argument("--front-end", choices=FRONT_ENDS, default="mfcc")
    args = parser.parse_args(argv)
    directories = [args.out / "data" / name for name in SETS]
    try:
        refuse_missing(directories)
        for directory in directories:
            write_features(directory, FRONT_ENDS[args.front_end])
    except (InputError, OSError) as error:
        print(f"{parser.prog}: error: {error}", file=sys.stderr)
        return 1
    return 0


def refuse_missing(directories: Sequence[Path]) -> None:
    """InputError unless every recording that has segments is in wav.scp."""
    needed: dict[str, Path] = {}
    for directory in directories:
        recordings = (fields[0] for _, fields in iter_lines(directory / "reco2file_and_channel"))
        needed |= dict.fromkeys(recordings, directory / "wav.scp")
    present = {name for scp in {*needed.values()} for name in read_mapping(scp)}
    missing = [name for name in needed if name not in present]
    if missing:
        raise InputError(
            f"{needed[missing[0]]}: {len(missing)} of {len(needed)} recordings are missing, such "
            f"as {missing[0]}: put them below the corpus and prepare again, or list the meetings "
            "that are there"
        )


if __name__ == "__main__":
    sys.exit(main())
