"""How fast convolutions on packed frames are, beside torch's on a padded batch.

Forward and backward pass, the fastest of some rounds in which both take turns. Torch's read a batch
that is padded to its longest utterance; the packed ones read the real frames alone.

    OMP_NUM_THREADS=1 python benchmarks/convolution.py [--rounds 15] [--json FILE] [--record]
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import record
import torch
from torch import Tensor, nn

from bayes_asr.nn.convolution import Convolution1d, Convolution2d
from bayes_asr.nn.frames import PackedFrames

LENGTHS = (400, 380, 330, 300, 280, 260, 200, 150)
PLAIN: dict[str, Any] = {"norm": "none", "activation": "linear", "dropout": 0.0, "causal": False}
IN_TIME = ((40, 256, 5, 1), (256, 256, 3, 1), (256, 256, 5, 2), (512, 512, 3, 3))
IN_BOTH = ((1, 40, 16), (16, 20, 32), (32, 20, 64))
Case = tuple[str, Callable[[Tensor], Tensor], Tensor, Callable[[Tensor], Tensor], Tensor]


def in_time(inputs: int, channels: int, kernel: int, dilation: int) -> Case:
    """A convolution over time, and torch's."""
    options = PLAIN | {"channels": channels, "kernel": kernel, "dilation": dilation, "stride": 1}
    ours, frames = Convolution1d(inputs, 0, **options), PackedFrames(LENGTHS)
    padding = (kernel - 1) * dilation // 2
    theirs = nn.Conv1d(inputs, channels, kernel, padding=padding, dilation=dilation)
    packed = torch.randn(frames.count, inputs, requires_grad=True)
    padded = torch.randn(len(LENGTHS), inputs, max(LENGTHS), requires_grad=True)
    name = f"conv1d {inputs} -> {channels}, kernel {kernel}, dilation {dilation}"
    return name, lambda x: ours(x, frames), packed, theirs, padded


def in_time_and_frequency(maps: int, frequencies: int, channels: int) -> Case:
    """A convolution over time and frequency with pooling, and torch's."""
    options = PLAIN | {"kernel": (3, 3), "dilation": 1, "stride": 1, "padding": 1, "pooling": 2}
    size, frames = maps * frequencies, PackedFrames(LENGTHS)
    ours = Convolution2d(size, 0, channels=channels, input_channels=maps, **options)
    theirs = nn.Sequential(nn.Conv2d(maps, channels, 3, padding=1), nn.MaxPool2d((1, 2)))
    packed = torch.randn(frames.count, size, requires_grad=True)
    padded = torch.randn(len(LENGTHS), maps, max(LENGTHS), frequencies, requires_grad=True)
    name = f"conv2d {maps} x {frequencies} -> {channels}, kernel 3 x 3"
    return name, lambda x: ours(x, frames), packed, theirs, padded


def time_step(layer: Callable[[Tensor], Tensor], x: Tensor) -> float:
    """Seconds of a forward and a backward pass."""
    start = time.perf_counter()
    layer(x).sum().backward()
    return time.perf_counter() - start


def main() -> None:
    """Print a line for each layer."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    record.add_options(parser)
    args = parser.parse_args()
    print(f"{sum(LENGTHS)} frames, {len(LENGTHS) * max(LENGTHS)} with padding")
    cases = [in_time(*shape) for shape in IN_TIME]
    cases += [in_time_and_frequency(*shape) for shape in IN_BOTH]
    rows = []
    for name, ours, packed, theirs, padded in cases:
        pairs = [(time_step(ours, packed), time_step(theirs, padded)) for _ in range(args.rounds)]
        mine, other = (1e3 * min(times) for times in zip(*pairs, strict=True))
        rows.append({"layer": name, "ms": round(mine, 1), "torch_ms": round(other, 1)})
        rows[-1]["ratio"] = round(mine / other, 2)
        print(f"{name}: {mine:.1f} ms, torch {other:.1f} ms, ratio {mine / other:.2f}")
    record.save(rows, "convolution", args)


if __name__ == "__main__":
    main()
