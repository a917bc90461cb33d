"""Every benchmark on the machine at hand, in half an hour, and one dated page of what they found.

Each is a part with a share of the time, at a size that tells as much as can be told in it. A part
whose data or peer is missing is skipped, one that takes longer than its share is ended, and both
are said. The figures of each are those that its own script writes.

    python benchmarks/all.py --record [--minutes 30] [--only step decode] [--kaldi-dir AN4]
    [--experiment DIR] [--timit DIR --lattices DIR] [--chain DIR] [--peer-path DIR]
"""

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import record
from decode import DATA

FOLDER = Path(__file__).resolve().parent
Row = dict[str, Any]


@dataclass(frozen=True)
class Part:
    """One benchmark: its options, where {name} is a path that the user gives, and its share.

    needs: the options of this command without which it cannot run; module: a package likewise.
    """

    script: str
    options: str
    share: float
    needs: tuple[str, ...] = ()
    module: str = ""

    def find_missing(self, places: Mapping[str, Path | None]) -> str:
        """Say what is missing, empty where nothing is."""
        for name in self.needs:
            path = places[name]
            option = f"--{name.replace('_', '-')}"
            if path is None:
                return f"{option} is not given"
            if not path.exists():
                return f"{option} {path} does not exist"
        if self.module and not find_spec(self.module):
            return f"{self.module} is not installed"
        return ""


STEP = "--unit li-bru --rounds 3 --peers"
PEER = "'reference loop' torch.nn.LSTM"
PARTS = {
    "products": Part("products", "--rounds 7", 0.03),
    "convolution": Part("convolution", "--rounds 5", 0.02),
    "recurrence": Part("recurrence", "--rounds 1", 0.04),
    "step": Part("step", f"{STEP} {PEER}", 0.13),
    "step 100": Part("step", f"{STEP} {PEER} --frames 100", 0.07),
    "step ragged": Part("step", f"{STEP} torch.nn.LSTM --ragged --data {{data}}", 0.08, ("data",)),
    "pytorch-kaldi": Part(
        "step",
        f"{STEP} 'pytorch-kaldi liGRU' --peer-path {{peer_path}} --frames 100 --dtype float32",
        0.07,
        ("peer_path",),
    ),
    "speechbrain": Part(
        "step",
        f"{STEP} 'SpeechBrain Li-GRU' --frames 100 --directions tied --dtype float32",
        0.05,
        (),
        "speechbrain",
    ),
    "ddp": Part("ddp", "--rounds 2 --batch 8", 0.06),
    "epoch": Part("epoch", "--kaldi-dir {kaldi_dir} --share 0.1 --rounds 1", 0.05, ("kaldi_dir",)),
    "hours": Part(
        "hours", "{scratch}/hours --kaldi-dir {kaldi_dir} --hours 10", 0.04, ("kaldi_dir",)
    ),
    "forward": Part("forward", "--minutes 0 --rounds 2", 0.04),
    "export": Part("export", "--rounds 2", 0.04, (), "onnxruntime"),
    "classify": Part("classify", "--rounds 1 --frames 1000", 0.03),
    "decode": Part("decode", "--data {data} --rounds 1 --only golden", 0.12, ("data",)),
    "decode long": Part("decode", "--only long --seconds 20", 0.02),
    "apart": Part(
        "apart",
        "{composed} {apart} --model {model} --loglikes {loglikes} --every 10 --beams 13",
        0.02,
        ("composed", "apart", "model", "loglikes"),
    ),
    "gmm": Part("gmm", "{experiment} --hours 0.2 --nj 1", 0.04, ("experiment",)),
    "sequence": Part(
        "sequence",
        "--kaldi-dir {timit} --lattices {lattices} --rounds 1",
        0.03,
        ("timit", "lattices"),
    ),
    "denominator": Part("denominator", "--chain {chain}", 0.02, ("chain",)),
}
PLACES = {
    "data": "the shared data",
    "kaldi_dir": "AN4, as its recipe reads it",
    "composed": "decoding graph",
    "apart": "the same by bayes-asr graph --apart",
    "model": "final.mdl of both",
    "loglikes": "archive to decode with both",
    "experiment": "OUT of a recipe whose GMMs are trained",
    "timit": "the sample of TIMIT, as its recipe reads it",
    "lattices": "of its training set, by bayes-asr denlats",
    "chain": "of bayes-asr gmm chain-tree",
    "peer_path": "a clone of pytorch-kaldi",
}


def run_part(part: Part, places: Mapping[str, Path | None], limit: float) -> tuple[str, list[Row]]:
    """Run a benchmark for at most `limit` seconds: what went wrong, or its rows."""
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "rows.json"
        words = split_options(part.options, {**places, "scratch": Path(scratch)})
        script = FOLDER / f"{part.script}.py"
        process = subprocess.Popen(  # noqa: S603 - the command is our own
            [sys.executable, script, *words, "--json", file],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,
        )
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            return f"ended after {limit:.0f} s, its share of the time", []
        finally:
            end_group(process)
        if status:
            return f"failed with status {status}", []
        rows = json.loads(file.read_text())
        return "", rows if isinstance(rows, list) else [rows]


def split_options(options: str, places: Mapping[str, Path | None]) -> list[str]:
    """The words of a command line; a path is one word, whatever is in its name."""
    return [word.format_map(places) for word in shlex.split(options)]


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End what a benchmark has started, and wait for it."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run_parts(args: argparse.Namespace) -> Iterator[tuple[Row, list[Row]]]:
    """Run what is asked for: of each part how it went, and its rows."""
    places = {name: getattr(args, name) for name in PLACES}
    for name in args.only:
        part = PARTS[name]
        limit = 60 * args.minutes * part.share
        missing = part.find_missing(places)
        print(f"== {name}: {f'skipped, as {missing}' if missing else part.options}", flush=True)
        start = time.perf_counter()
        wrong, rows = ("", []) if missing else run_part(part, places, limit)
        seconds = time.perf_counter() - start
        outcome = f"skipped: {missing}" if missing else wrong or "done"
        if wrong:
            print(f"== {name}: {wrong}", flush=True)
        command = f"benchmarks/{part.script}.py {part.options}"
        row = {"part": name, "outcome": outcome, "took": seconds, "command": command}
        yield row, [{"part": name, **row} for row in rows]


def main() -> None:
    """Run all parts, print how they went, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    record.add_options(parser)
    parser.add_argument("--minutes", type=float, default=30, help="for all of it, default 30")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="these parts")
    for name, what in PLACES.items():
        default = DATA if name == "data" else None
        parser.add_argument(f"--{name.replace('_', '-')}", type=Path, default=default, help=what)
    args = parser.parse_args()
    outcomes, rows = [], []
    for outcome, found in run_parts(args):
        outcomes.append(outcome)
        rows += found
    print("== all")
    for row in outcomes:
        print(f"{row['part']:14}{row['took']:7.0f} s  {row['outcome']}")
    record.save([*outcomes, *rows], "all", args)
    if any(row["outcome"].startswith("failed") for row in outcomes):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
