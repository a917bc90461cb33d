"""How long a training takes to start on many hours of speech, and how much memory it then holds.

Lays out a Kaldi directory of so many hours: the training utterances of another one again and again
under new names, whose feats.scp points at the same places of the same archives, with their
alignments in ali.*.gz. `bayes-asr train` is started on it three times, each time until the network
is given its first batch: the first makes the index, unless it is there, and the others find it.

    python benchmarks/hours.py FOLDER --kaldi-dir DIR [--hours 1000] [--json FILE]
"""

import argparse
import gzip
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import record

from bayes_asr.config.merge import load
from bayes_asr.data.corpus.sets import training_and_dev
from bayes_asr.data.targets.alignments import Alignments
from bayes_asr.kaldi_io.data_dir import read_data_dir
from bayes_asr.kaldi_io.integers import SIZED_INT
from bayes_asr.kaldi_io.text import write_mapping

ROOT = Path(__file__).resolve().parents[1]
RECIPE, BASE = ROOT / "recipes/an4/config.yaml", ROOT / "conf/base.yaml"
FRAMES_PER_HOUR = 360_000
JOBS = 20  # archives of alignments
INDEX = "exp/index"  # below the folder of the hours
UNTIL_THE_FIRST_BATCH = """
import os, resource, sys, time
from bayes_asr.cli import main
from bayes_asr.nn.network import AcousticModel

def stop(*_):
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(time.time() - float(sys.argv[1]), peak, flush=True)
    os._exit(0)

AcousticModel.forward = stop
sys.exit(main(sys.argv[2:]))
"""


def lay_out(kaldi_dir: Path, out: Path, hours: float) -> None:
    """Write about `hours` of speech below `out`."""
    train, dev = training_and_dev(load([RECIPE], [f"data.dir={kaldi_dir}"]))
    (spoken,) = train.features.directories
    ali, data = out / "exp/ali", out / "data/train"
    ali.mkdir(parents=True)
    data.mkdir(parents=True)
    (dev_spoken,) = dev.features.directories
    for there, name in ((dev_spoken, "data/dev"), (dev.first_labels.directory, "exp/ali_dev")):
        (out / name).symlink_to(there.absolute())
    (ali / "final.mdl").symlink_to((train.first_labels.directory / "final.mdl").absolute())
    repeats = round(hours * FRAMES_PER_HOUR / sum(train.lengths.values()))
    names = [(f"{n:05}-", utt) for n in range(repeats) for utt in train.lengths]
    source = read_data_dir(spoken)
    write_mapping(((p + utt, p + source.utt2spk[utt]) for p, utt in names), data / "utt2spk")
    write_mapping(((p + utt, train.features.where(utt)) for p, utt in names), data / "feats.scp")
    aligned = dict(Alignments(train.first_labels.directory).items())
    records = {utt: encode_alignment(aligned[utt]) for utt in train.lengths}
    for job in range(JOBS):
        with gzip.open(ali / f"ali.{job + 1}.gz", "wb", 1) as file:
            for p, utt in names[job::JOBS]:
                file.write(f"{p}{utt} ".encode() + records[utt])


def encode_alignment(transition_ids: np.ndarray) -> bytes:
    """An alignment as Kaldi writes it after the name of its utterance."""
    sized = np.empty(len(transition_ids), SIZED_INT)
    sized["width"], sized["value"] = 4, transition_ids
    return b"\0B\4" + len(sized).to_bytes(4, "little") + sized.tobytes()


def start(folder: Path, run: Path) -> tuple[float, float]:
    """Start a training; seconds to its first batch, and the most bytes that it held till then."""
    where = [f"--set=data.dir={folder}", f"--set=data.index={(folder / INDEX).absolute()}"]
    words = ["train", str(BASE), *where, "--out", str(run)]
    command = [sys.executable, "-c", UNTIL_THE_FIRST_BATCH, repr(time.time()), *words]
    done = subprocess.run(  # noqa: S603 - the command is our own
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    )
    seconds, peak = map(float, done.stdout.split())
    return seconds, peak


def main() -> None:
    """Lay out what is not there yet, start, print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where the hours are laid out")
    parser.add_argument("--kaldi-dir", type=Path, required=True, help="AN4, as its recipe reads it")
    parser.add_argument("--hours", type=float, default=1000, help="default 1000")
    record.add_options(parser)
    args = parser.parse_args()
    if not args.folder.exists():
        lay_out(args.kaldi_dir, args.folder, args.hours)
    results = []
    for _ in range(3):
        index = "is found" if (args.folder / INDEX).exists() else "is made"
        with tempfile.TemporaryDirectory() as run:
            seconds, peak = start(args.folder, Path(run))
        results.append({"hours": args.hours, "index": index, "seconds": seconds, "bytes": peak})
        print(
            f"{args.hours:g} hours, the index {index}: {seconds:.1f} s to the first batch"
            f" ({seconds / args.hours:.3f} s an hour), {peak / 2**30:.2f} GiB"
        )
    record.save(results, "hours", args)


if __name__ == "__main__":
    main()
