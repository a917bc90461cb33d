"""How fast recurrent stacks train: forward and backward pass of each unit, beside a time-step loop
and torch's own units.

The reference is a loop over frames in the manner of pytorch-kaldi's `liGRU`: one product a gate and
frame, an autograd node for every operation, the terms of a frame taken by an index, the two
directions as twice the batch (tied weights). All
variants are timed in turn, round after round, so that what else the machine does meets all of them;
the medians over the rounds are printed.

    python benchmarks/recurrence.py [--json FILE] [--units 550] [--layers 4] [--batch 8] [--frames
    300] [--rounds 5]
"""

import argparse
import ctypes
import json
import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bayes_asr.nn.frames import Frames
from bayes_asr.nn.model import AcousticModel

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h
INPUTS, OUTPUTS, DROPOUT = 50, 48, 0.2
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


class TimeStepLoop(nn.Module):
    """A layer of Li-GRUs [T, B, F] -> [T, B, 2H], both directions with the same weights."""

    def __init__(self, inputs: int, units: int) -> None:
        """Make weights and normalisation of the two gates."""
        super().__init__()
        self.W = nn.ModuleList(nn.Linear(inputs, units, bias=False) for _ in range(2))
        self.V = nn.ModuleList(nn.Linear(units, units, bias=False) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm1d(units, momentum=0.05) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """Run the loop."""
        x = torch.cat((x, x.flip(0)), 1)
        terms = [
            norm(W(x).flatten(0, 1)).view(*x.shape[:2], -1)
            for W, norm in zip(self.W, self.norms, strict=True)
        ]
        h = x.new_zeros(x.shape[1], terms[0].shape[2])
        mask = torch.bernoulli(torch.full_like(h, 1 - DROPOUT))
        outputs = []
        for t in range(len(x)):
            z = torch.sigmoid(terms[0][t] + self.V[0](h))
            h = z * h + (1 - z) * (torch.relu(terms[1][t] + self.V[1](h)) * mask)
            outputs.append(h)
        forward, backward = torch.stack(outputs).chunk(2, 1)
        return torch.cat((forward, backward.flip(0)), 2)


def reference(layers: int, units: int) -> nn.Module:
    """A stack of time-step loops with a head."""
    sizes = [INPUTS] + [2 * units] * layers
    stack = [TimeStepLoop(size, units) for size in sizes[:-1]]
    return nn.Sequential(*stack, nn.Linear(2 * units, OUTPUTS))


class Torchs(nn.Module):
    """A stack of torch's own units with a head."""

    def __init__(self, kind: type[nn.LSTM] | type[nn.GRU], layers: int, units: int) -> None:
        """Make the stack."""
        super().__init__()
        self.stack = kind(INPUTS, units, layers, bidirectional=True)
        self.head = nn.Linear(2 * units, OUTPUTS)

    def forward(self, x: Tensor) -> Tensor:
        """Logits [T, B, outputs]."""
        return self.head(self.stack(x)[0])


def variants(args: argparse.Namespace) -> dict[tuple[str, bool], Callable[[], None]]:
    """(unit, tied) -> a function that does one forward and backward pass."""
    x = torch.randn(args.frames, args.batch, INPUTS)
    frames = Frames((args.frames,) * args.batch)

    def training(run: Callable[[], Tensor], net: nn.Module) -> Callable[[], None]:
        def once() -> None:
            net.zero_grad()
            run().square().mean().backward()

        return once

    found = {}
    loop = reference(args.layers, args.units)
    found["reference loop", True] = training(lambda: loop(x), loop)
    for name, kind in (("torch.nn.LSTM", nn.LSTM), ("torch.nn.GRU", nn.GRU)):
        theirs = Torchs(kind, args.layers, args.units)
        found[name, False] = training(lambda net=theirs: net(x), theirs)
    packed, keys = x.flatten(0, 1), torch.arange(args.batch)
    for unit, options in OURS:
        ours = AcousticModel(
            INPUTS,
            [OUTPUTS],
            unit=unit,
            units=[args.units] * args.layers,
            dropout=DROPOUT,
            **options,
        )
        tied = bool(options.get("tied_directions"))
        found[unit, tied] = training(lambda net=ours: net(packed, frames, keys)[0], ours)
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
    slowest = medians["reference loop", True]
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


def keep_freed_memory() -> None:
    """Let glibc keep what is freed: tensors of 10 MB are given back to the kernel otherwise, and a
    variant is then timed by how often pages are zeroed for it."""
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, 2**30)
        mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


def main() -> None:
    """Measure, print a table, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
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
    share = speed["reference loop"] / speed["torch.nn.LSTM"]
    print(f"the reference loop reaches {share:.2f} of torch.nn.LSTM (fair between 0.6 and 0.9)")
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
