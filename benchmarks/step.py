"""How fast training steps are, beside other people's and beside the matrix products alone.

A step is what `bayes-asr train` does with a batch: forward pass, both heads, losses, backward pass,
clipping, optimizer. The reference is a loop over frames in the manner of pytorch-kaldi's `liGRU`
(`peers.py`). In every round all variants take some steps in turn, so that what else the machine
does meets all of them; ratios are within a round, and the medians over the rounds are printed. The
first step of a turn is not timed: caches are full of what was there before, and `bayes-asr train`
starts what reads batches ahead once an epoch. On a machine that has other work too, `--clock
processor` with one thread counts the processor time that a variant takes, not what it waits for.

    python benchmarks/step.py [--json FILE] [--record] [--unit li-bru ...] [--frames 300]
    python benchmarks/step.py --unit lstm,peepholes=true li-gru,activation=p-relu
    python benchmarks/step.py --ragged
    python benchmarks/step.py --sweep frames
"""

import argparse
import os
import statistics
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import record
import torch
from networks import HEADS, make_network
from peers import (
    DROPOUT,
    LSTM,
    PEERS,
    PYTORCH_KALDI,
    REFERENCE,
    WITHOUT_ONEDNN,
    Network,
    pytorch_kaldis,
)
from roofline import Clock, fastest, multiply_adds, products, timed
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence

from bayes_asr.base.processes.malloc import keep_freed_memory
from bayes_asr.config.merge import load
from bayes_asr.data.features.front_end import FEATURES
from bayes_asr.data.targets.alignments import Alignments
from bayes_asr.nn.criteria import CrossEntropy
from bayes_asr.nn.frames import PackedFrames
from bayes_asr.nn.network import AcousticModel
from bayes_asr.train import components
from bayes_asr.train.batch import Batch
from bayes_asr.train.loop import PassBatches, run_batches
from bayes_asr.train.step import Step

DATA = Path(os.environ.get("BAYES_ASR_DATA", Path(__file__).resolve().parents[2] / "shared/data"))
INPUTS, OUTPUTS, MAX_NORM, IGNORED = 50, (1900, 48), 5.0, -100
WARM_UP = 2  # rounds until no variant needs memory that it did not have before
STEPS = 3  # of a turn that are timed, after one that is not
LEARNING_RATE = 1e-5  # batches are noise, on which units without bounds diverge by and by
UNITS = ("li-bru", "li-gru", "bru", "gru", "lstm")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
SWEEPS: dict[str, tuple[int, ...]] = {
    "frames": (100, 200, 300, 400, 780),
    "batch": (1, 2, 4, 8, 16, 32, 64),
    "units": (128, 256, 550, 1024),
    "layers": (1, 2, 4, 5, 8),
}
warnings.filterwarnings("ignore", "TF32 acceleration")  # of switching oneDNN off
Row = dict[str, Any]
Lengths = tuple[int, ...]
Turn = Sequence[Lengths]
"""The lengths of 1 + STEPS batches."""

Taken = Callable[[int], None]
"""What is told, after each step, how many were skipped."""
Steps = Callable[[Taken], None]
CLOCKS: dict[str, Clock] = {"wall": time.perf_counter, "processor": time.process_time}


@dataclass(frozen=True)
class Size:
    """Of networks and batches; the frames are those of the longest sequence."""

    units: int
    layers: int
    batch: int
    frames: int


@dataclass(frozen=True)
class Variant:
    """One implementation of one unit."""

    size: Size
    unit: str
    tied: bool
    dtype: str
    prepared: Callable[[Turn], Steps]
    """Makes random batches of such lengths, and what steps on them."""
    model: AcousticModel | None = None


def ours(size: Size, unit: str, tied: bool, dtype: str, kind: str) -> Variant:
    """A unit of this toolkit, perhaps with options, trained as `bayes-asr train` does."""
    options: dict[str, Any] = {"dropout": DROPOUT, "tied_directions": tied}
    model = make_network(INPUTS, OUTPUTS, unit, size.layers, size.units, **options)
    settings = [f"train.optimizer={kind}", f"train.learning_rate={LEARNING_RATE}"]
    optimizer = components.build_optimizer(load([], settings).train, model)
    step = Step(model, optimizer, max_gradient_norm=MAX_NORM, bfloat16=dtype == "bfloat16")
    criterion = CrossEntropy(dict.fromkeys(HEADS, 1.0))

    def batch_of(lengths: Lengths) -> Batch:
        n = sum(lengths)
        labels = {
            head: torch.randint(size, (n,)) for head, size in zip(HEADS, OUTPUTS, strict=True)
        }
        keys = torch.arange(len(lengths))
        return Batch({FEATURES: torch.randn(n, INPUTS)}, PackedFrames(lengths), labels, keys)

    def prepared(turn: Turn) -> Steps:
        batches = {str(i): batch_of(lengths) for i, lengths in enumerate(turn)}

        def steps(taken: Taken) -> None:
            run_batches(
                model,
                criterion,
                PassBatches("", [[name] for name in batches], lambda utts: batches[utts[0]]),
                step=step,
                after_batch=lambda totals: taken(len(totals.skipped)),
            )

        return steps

    return Variant(size, unit, tied, dtype, prepared, model)


def theirs(size: Size, name: str, kind: str) -> Variant:
    """Somebody else's unit; sequences are padded with frames that have no label."""
    tied, layers = PEERS[name]
    net = Network(layers(INPUTS, size.units, size.layers), size.units, OUTPUTS)
    kinds = {"rmsprop": torch.optim.RMSprop, "adam": torch.optim.AdamW}
    optimizer = kinds[kind](net.parameters(), lr=LEARNING_RATE)

    def batch_of(lengths: Lengths) -> tuple[Tensor, list[Tensor]]:
        labels = [
            pad_sequence([torch.randint(p, (n,)) for n in lengths], padding_value=IGNORED).flatten()
            for p in OUTPUTS
        ]
        return pad_sequence([torch.randn(n, INPUTS) for n in lengths]), labels

    def prepared(turn: Turn) -> Steps:
        batches = [batch_of(lengths) for lengths in turn]

        def steps(taken: Taken) -> None:
            for x, labels in batches:
                with torch.backends.mkldnn.flags(enabled=WITHOUT_ONEDNN not in name):
                    parts = map(cross_entropy, net(x), labels)
                    optimizer.zero_grad()
                    sum(parts, start=torch.zeros(())).backward()
                    nn.utils.clip_grad_norm_(net.parameters(), MAX_NORM)
                    optimizer.step()
                taken(0)

        return steps

    return Variant(size, name, tied, "float32", prepared)


def timed_steps(steps: Steps, clock: Clock) -> float:
    """Take the steps of a turn; returns the seconds from the end of the first."""
    ends: list[float] = []

    def taken(skipped: int) -> None:
        if skipped:
            raise SystemExit(f"{skipped} of {1 + STEPS} steps were skipped")
        ends.append(clock())

    steps(taken)
    return ends[-1] - ends[0]


def variants(args: argparse.Namespace, size: Size) -> list[Variant]:
    """All that are asked for, the peers first."""
    ties = {"tied": (True,), "untied": (False,), "both": (True, False)}[args.directions]
    return [theirs(size, name, args.optimizer) for name in args.peers] + [
        ours(size, unit, tied, dtype, args.optimizer)
        for unit in args.unit
        for tied in ties
        for dtype in args.dtype
    ]


def measured(args: argparse.Namespace, runs: Sequence[Variant]) -> list[Row]:
    """Let all variants take some steps in each of `rounds` rounds, after some to warm up."""
    rng, clock = np.random.default_rng(args.seed), CLOCKS[args.clock]
    spoken = spoken_lengths(args.data) if args.ragged else None
    counts = [products(run.model, frames_of(run.size)) if run.model else Counter() for run in runs]
    wanted = {(s, run.dtype) for run, shapes in zip(runs, counts, strict=True) for s in shapes}
    alone = {key: fastest(key[0], DTYPES[key[1]], clock) for key in wanted if not args.sweep}
    products_alone: dict[Any, list[float]] = {key: [] for key in alone}
    speeds: list[list[float]] = [[] for _ in runs]
    for round_ in range(WARM_UP + args.rounds):
        for key, computed in alone.items():
            computed()  # not timed, like the first step of a turn
            products_alone[key].append(timed(computed, clock))
        turns = {
            size: [lengths_of(size, spoken, rng) for _ in range(1 + STEPS)]
            for size in dict.fromkeys(run.size for run in runs)
        }
        for run, speed in zip(runs, speeds, strict=True):
            seconds = timed_steps(run.prepared(turns[run.size]), clock)
            if round_ >= WARM_UP:
                speed.append(sum(map(sum, turns[run.size][1:])) / seconds)
    seconds_alone = {key: statistics.median(times) for key, times in products_alone.items()}
    by_size: dict[Size, dict[str, list[float]]] = {run.size: {} for run in runs}
    for run, speed in zip(runs, speeds, strict=True):
        by_size[run.size][run.unit] = speed
    return [
        row_of(
            run,
            speed,
            by_size[run.size],
            sum(n * seconds_alone.get((s, run.dtype), 0.0) for s, n in shapes.items()),
            multiply_adds(shapes),
        )
        for run, speed, shapes in zip(runs, speeds, counts, strict=True)
    ]


def row_of(
    run: Variant,
    speed: Sequence[float],
    speeds: Mapping[str, Sequence[float]],
    products_alone: float,
    work: int,
) -> Row:
    """What is printed of a variant.

    speed: frames per second in each round, and `speeds` those of every unit of its size.
    products_alone: seconds that its matrix products take alone, 0 where they were not timed.
    work: of how many multiply-adds they consist.
    """
    median = statistics.median(speed)
    return {
        "unit": run.unit,
        "tied": run.tied,
        "dtype": run.dtype,
        **vars(run.size),
        "threads": torch.get_num_threads(),
        "frames_per_second": median,
        "spread": (max(speed) - min(speed)) / median,
        "ratio_to_reference": ratio(speed, speeds.get(REFERENCE)),
        "ratio_to_lstm": ratio(speed, speeds.get(LSTM)),
        "roofline_fraction": products_alone * median / frames_of(run.size) or None,
        "gigaflops": 2e-9 * work * median / frames_of(run.size) if work else None,
    }


def ratio(speed: Sequence[float], other: Sequence[float] | None) -> float | None:
    """How much faster, by the median over the rounds; None where the other was not timed."""
    if other is None:
        return None
    return statistics.median(a / b for a, b in zip(speed, other, strict=True))


def frames_of(size: Size) -> int:
    """PackedFrames of a batch, all sequences being of the same length."""
    return size.batch * size.frames


def lengths_of(size: Size, spoken: Sequence[int] | None, rng: np.random.Generator) -> Lengths:
    """Lengths of a batch, the longest first."""
    if spoken is None:
        return (size.frames,) * size.batch
    return tuple(sorted(rng.choice(spoken, size.batch).tolist(), reverse=True))


def spoken_lengths(data: Path) -> list[int]:
    """Frames of the aligned training utterances of AN4 and of TIMIT's sample."""
    folders = [data / "kaldi" / corpus / "exp/tri3_ali" for corpus in ("an4", "timit_sample")]
    return [len(ids) for folder in folders for _, ids in Alignments(folder).items()]


def show(rows: Sequence[Row]) -> None:
    """Print a table."""
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}")
    print(
        f"{'unit':26}{'':8}{'':10}{'units':>6}{'layers':>7}{'batch':>6}{'frames':>7}"
        f"{'frames/s':>10}{'spread':>8}{'/loop':>7}{'/LSTM':>7}{'roofline':>9}{'GFLOP/s':>8}"
    )
    for row in rows:
        ratios = (row[f"ratio_to_{peer}"] for peer in ("reference", "lstm"))
        share, rate = row["roofline_fraction"], row["gigaflops"]
        print(
            f"{row['unit']:26}{'tied' if row['tied'] else 'untied':8}{row['dtype']:10}"
            f"{row['units']:6}{row['layers']:7}{row['batch']:6}{row['frames']:7}"
            f"{row['frames_per_second']:10.0f}{row['spread']:8.1%}"
            + "".join(f"{number:7.2f}" if number else f"{'':7}" for number in ratios)
            + (f"{share:9.1%}" if share else f"{'':9}")
            + (f"{rate:8.0f}" if rate else "")
        )


def show_linearity(rows: Sequence[Row]) -> None:
    """Print how far seconds a step are from a straight line over multiply-adds, and from flat."""
    for key in sorted({(row["unit"], row["tied"], row["dtype"]) for row in rows}):
        own = [row for row in rows if (row["unit"], row["tied"], row["dtype"]) == key]
        seconds = np.array([r["batch"] * r["frames"] / r["frames_per_second"] for r in own])
        work = seconds * [row["gigaflops"] or np.nan for row in own]
        if len(own) < 3 or np.isnan(work).any():
            continue
        line = np.stack([np.ones(len(own)), work], 1) / seconds[:, None]  # relative residuals
        (constant, slope), *_ = np.linalg.lstsq(line, np.ones(len(own)), rcond=None)
        residuals = line @ (constant, slope) - 1
        speeds = [row["frames_per_second"] for row in own]
        print(
            f"{key[0]} {key[2]}: {1e3 * constant:.0f} ms a step and 1 s for {1 / slope:.0f} GFLOP;"
            f" worst residual {abs(residuals).max():.1%};"
            f" fastest over slowest {max(speeds) / min(speeds):.2f}"
        )


def theme_of(args: argparse.Namespace) -> str:
    """What the figures are recorded as."""
    if args.sweep:
        return f"step-{args.sweep}"
    return "step-ragged" if args.ragged else "step"


def main() -> None:
    """Measure, print tables, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    record.add_options(parser)
    parser.add_argument("--unit", nargs="+", default=UNITS, help=f"default {' '.join(UNITS)}")
    parser.add_argument("--directions", choices=("tied", "untied", "both"), default="both")
    parser.add_argument("--dtype", nargs="+", choices=DTYPES, default=list(DTYPES))
    parser.add_argument(
        "--peers",
        nargs="*",
        choices=[*PEERS, PYTORCH_KALDI],
        help="default: all, or none for a sweep",
    )
    parser.add_argument("--peer-path", type=Path, help="clone of pytorch-kaldi, a further peer")
    for name, default in (("units", 550), ("layers", 4), ("batch", 8), ("frames", 300)):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"default {default}")
    parser.add_argument("--ragged", action="store_true", help="lengths of real utterances")
    parser.add_argument("--data", type=Path, default=DATA, help="where AN4 and TIMIT are")
    parser.add_argument("--seed", type=int, default=1, help="of the lengths, default 1")
    parser.add_argument("--optimizer", choices=("adam", "rmsprop"), default="adam")
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="default wall")
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds, default 5")
    parser.add_argument("--sweep", choices=SWEEPS, help="many sizes; without roofline")
    parser.add_argument("--values", type=int, nargs="+", help="of the sweep")
    args = parser.parse_args()
    if args.ragged and not args.data.exists():
        parser.error(
            f"{args.data}: no utterances to take lengths from; name their folder by --data"
        )
    if args.peer_path:
        PEERS[PYTORCH_KALDI] = (True, pytorch_kaldis(args.peer_path))
    elif PYTORCH_KALDI in (args.peers or ()):
        parser.error(f"{PYTORCH_KALDI}: name a clone by --peer-path")
    keep_freed_memory()
    if args.peers is None:
        args.peers = [] if args.sweep else list(PEERS)
    size = Size(args.units, args.layers, args.batch, args.frames)
    if args.ragged:
        size = replace(size, frames=round(statistics.mean(spoken_lengths(args.data))))
    sizes = [size]
    if args.sweep:
        values = args.values or SWEEPS[args.sweep]
        sizes = [replace(size, **{args.sweep: value}) for value in values]
    rows = measured(args, [run for size in sizes for run in variants(args, size)])
    show(rows)
    if args.sweep:
        show_linearity(rows)
    record.save(rows, theme_of(args), args)


if __name__ == "__main__":
    main()
