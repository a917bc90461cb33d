"""How fast recurrent stacks train: forward and backward pass of each unit, beside a time-step loop
and torch's own units.

The reference is a loop over frames in the manner of pytorch-kaldi's `liGRU` (`peers.py`). All
variants are timed in turn, round after round, so that what else the machine does meets all of them;
the medians over the rounds are printed.

    python benchmarks/recurrence.py [--json FILE] [--unit UNIT...] [--units 550] [--layers 4]
    [--batch 8] [--frames 300] [--rounds 5]
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import record
import torch
from networks import make_network
from peers import DROPOUT, GRU, LSTM, PEERS, REFERENCE, Network
from torch import Tensor, nn

from bayes_asr.base.processes.malloc import keep_freed_memory
from bayes_asr.data.features.front_end import FEATURES
from bayes_asr.nn.frames import PackedFrames

INPUTS, OUTPUTS = 50, 48
OURS: list[tuple[str, dict[str, Any]]] = [
    ("li-gru", {"tied_directions": True}),
    ("li-gru", {}),
    ("li-bru", {"tied_directions": True}),
    ("li-bru", {}),
    ("bru", {"tied_directions": True}),
    ("rnn", {"tied_directions": True}),
    ("lstm", {"tied_directions": True}),
    ("gru", {"tied_directions": True}),
]


def variants(args: argparse.Namespace) -> dict[tuple[str, bool], Callable[[], None]]:
    """(unit, tied) -> a function that does one forward and backward pass."""
    x = torch.randn(args.frames, args.batch, INPUTS)
    frames = PackedFrames((args.frames,) * args.batch)

    def training(net: nn.Module, *inputs: object) -> Callable[[], None]:
        def once() -> None:
            net.zero_grad()
            heads = net(*inputs)
            first: Tensor = heads["pdfs"] if isinstance(heads, dict) else heads[0]
            first.square().mean().backward()

        return once

    found = {}
    for name in (REFERENCE, LSTM, GRU):
        tied, layers = PEERS[name]
        net = Network(layers(INPUTS, args.units, args.layers), args.units, [OUTPUTS])
        found[name, tied] = training(net, x)
    streams, keys = {FEATURES: x.flatten(0, 1)}, torch.arange(args.batch)
    for unit, options in OURS:
        if args.unit and unit not in args.unit:
            continue
        ours = make_network(
            INPUTS, [OUTPUTS], unit, args.layers, args.units, dropout=DROPOUT, **options
        )
        tied = bool(options.get("tied_directions"))
        found[unit, tied] = training(ours, streams, frames, keys)
    return found


def measured(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Time all variants in turn, `rounds` times after one round to warm up."""
    runs = variants(args)
    seconds: dict[tuple[str, bool], list[float]] = {key: [] for key in runs}
    for round_ in range(args.rounds + 1):
        for key, run in runs.items():
            start = time.perf_counter()
            run()
            if round_:
                seconds[key].append(time.perf_counter() - start)
    medians = {key: statistics.median(times) for key, times in seconds.items()}
    slowest = medians[REFERENCE, True]
    return [
        {
            "unit": unit,
            "tied": tied,
            "dtype": "float32",
            "batch": args.batch,
            "frames": args.frames,
            "frames_per_second": args.batch * args.frames / median,
            "ratio_to_reference": slowest / median,
        }
        for (unit, tied), median in medians.items()
    ]


def main() -> None:
    """Measure, print a table, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    record.add_options(parser)
    parser.add_argument(
        "--unit", nargs="+", choices=sorted({u for u, _ in OURS}), help="only these"
    )
    for name, default in (("units", 550), ("layers", 4), ("batch", 8), ("frames", 300)):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"default {default}")
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds, default 5")
    args = parser.parse_args()
    keep_freed_memory()
    results = measured(args)
    print(f"{torch.get_num_threads()} threads, {args.layers} x {args.units} units, both directions")
    print(f"{'unit':16}{'directions':12}{'frames/s':>10}{'ratio':>8}")
    for r in results:
        tied = "tied" if r["tied"] else "untied"
        print(
            f"{r['unit']:16}{tied:12}{r['frames_per_second']:10.0f}{r['ratio_to_reference']:8.2f}"
        )
    speed = {r["unit"]: r["frames_per_second"] for r in results}
    share = speed[REFERENCE] / speed[LSTM]
    print(f"the reference loop reaches {share:.2f} of torch.nn.LSTM (fair between 0.6 and 0.9)")
    record.save(results, "recurrence", args)


if __name__ == "__main__":
    main()
