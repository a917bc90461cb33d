"""What GMM steps cost by the hour of speech: seconds, processor seconds, memory.

The data is that of an experiment of local/gmm.sh, repeated under other names until it has so many
hours; its archives stay where they are. Steps take a pass or two, which contain all that passes do.

    python benchmarks/gmm.py EXPERIMENT [--hours 1 10 100] [--nj 1 2] [--steps mono align deltas
    lda-mllt sat decode] [--leaves 2500] [--gaussians 15000] [--json FILE] [--record]
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import record

from bayes_asr.data.corpus.labelled import Features
from bayes_asr.data.features.front_end import FrontEnd
from bayes_asr.data.sound.spectrum import FRAME_SHIFT
from bayes_asr.kaldi_io.ark import iter_int_vectors
from bayes_asr.kaldi_io.data_dir import read_data_dir
from bayes_asr.kaldi_io.integers import write_int_vectors
from bayes_asr.kaldi_io.text import write_lines, write_speakers, write_text

Row = dict[str, Any]
KEPT = ("final.mdl", "tree", "final.mat", "full.mat", "cmvn_opts", "splice_opts", "phones.txt")
BEFORE = {"deltas": "mono_ali", "lda-mllt": "tri1_ali", "sat": "tri2_ali"}
FIXED = ("align", "decode")  # by a model that is there
PASSES = {"mono": 1, "deltas": 1, "lda-mllt": 2, "sat": 2}  # the second adapts


def repeat(experiment: Path, hours: float, out: Path) -> int:
    """Write a data directory of so many hours; returns how many times all utterances are in it."""
    data = read_data_dir(experiment / "data/train")
    features = Features(data, FrontEnd())
    lengths = {utt: (features.read_shape(utt) or (0, 0))[0] for utt in features.utterances}
    tables: dict[str, dict[str, str]] = {"feats.scp": {}, "cmvn.scp": {}}
    speakers: dict[str, str] = {}
    text: dict[str, list[str]] = {}
    left = hours * 3600 / FRAME_SHIFT
    for time_ in count(1):
        for utt, frames in lengths.items():
            if left <= 0:
                break
            name, speaker = f"{time_:04d}-{utt}", f"{time_:04d}-{data.utt2spk[utt]}"
            tables["feats.scp"][name] = features.where(utt)
            tables["cmvn.scp"][speaker] = (data.cmvn or {})[data.utt2spk[utt]]
            speakers[name], text[name] = speaker, (data.text or {})[utt]
            left -= frames
        if left <= 0:
            break
    out.mkdir(parents=True)
    for table, entries in tables.items():
        write_lines((f"{key} {where}" for key, where in sorted(entries.items())), out / table)
    write_speakers(speakers, out)
    write_text(sorted(text.items()), out / "text")
    return time_


def repeat_alignments(source: Path, times: int, out: Path) -> None:
    """Write the alignments of all utterances so many times, and what stands beside them."""
    out.mkdir()
    for name in KEPT:
        if (source / name).exists():
            (out / name).symlink_to((source / name).resolve())

    def iterate() -> Iterator[tuple[str, Any]]:
        for number in range(1, times + 1):
            for path in sorted(source.glob("ali.*.gz")):
                for utt, tids in iter_int_vectors(path):
                    yield f"{number:04d}-{utt}", tids

    write_int_vectors(iterate(), out / "ali.1.gz")


def measure(words: list[str]) -> Mapping[str, float]:
    """Run a step of bayes-asr gmm: seconds, processor seconds, and its largest process in MB."""
    start = time.perf_counter()
    process = os.posix_spawn(
        sys.executable, [sys.executable, "-m", "bayes_asr", "gmm", *words], os.environ
    )
    _, status, used = os.wait4(process, 0)
    seconds = time.perf_counter() - start
    if status:
        raise SystemExit(
            f"bayes-asr gmm {' '.join(words)}: status {os.waitstatus_to_exitcode(status)}"
        )
    return {
        "seconds": seconds,
        "processor_seconds": used.ru_utime + used.ru_stime,
        "largest_process_mb": used.ru_maxrss / 1024,
    }


def run(args: argparse.Namespace, folder: Path) -> Iterator[Row]:
    """Time all steps at all sizes."""
    lang, tri3 = str(args.experiment / "data/lang"), str(args.experiment / "exp/tri3")
    for hours in args.hours:
        data = folder / f"data{hours:g}"
        times = repeat(args.experiment, hours, data)
        for step in args.steps:
            inputs = [str(data), lang]
            if step in BEFORE:
                ali = folder / f"{BEFORE[step]}{hours:g}"
                repeat_alignments(args.experiment / "exp" / BEFORE[step], times, ali)
                inputs.append(str(ali))
            elif step == "align":
                inputs.append(tri3)
            elif step == "decode":
                inputs = [str(data), f"{tri3}/graph", tri3]
            size = [f"--gaussians={args.gaussians}", f"--passes={PASSES.get(step)}"]
            size += [] if step == "mono" else [f"--leaves={args.leaves}"]
            for nj in args.nj:
                out = folder / f"{step}{hours:g}of{nj}"
                words = [step, *inputs, str(out), f"--nj={nj}"]
                row = {"step": step, "hours": hours, "nj": nj}
                row |= measure([*words, *([] if step in FIXED else size)])
                row["seconds_an_hour"] = row["seconds"] / hours
                print(
                    " ".join(
                        f"{value:10.4g}" if name != "step" else f"{value:9}"
                        for name, value in row.items()
                    ),
                    flush=True,
                )
                yield row


def main() -> None:
    """Measure, print the rows as they come, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    record.add_options(parser)
    parser.add_argument("experiment", type=Path, help="OUT of a recipe whose GMMs are trained")
    parser.add_argument("--hours", type=float, nargs="+", default=[1, 10, 100])
    parser.add_argument("--nj", type=int, nargs="+", default=[1, 2])
    steps = ("mono", "align", *BEFORE, "decode")
    parser.add_argument("--steps", nargs="+", choices=steps, default=steps)
    parser.add_argument("--leaves", type=int, default=2500, help="default 2500")
    parser.add_argument("--gaussians", type=int, default=15000, help="default 15000")
    args = parser.parse_args()
    with TemporaryDirectory() as folder:
        record.save(list(run(args, Path(folder))), "gmm", args)


if __name__ == "__main__":
    main()
