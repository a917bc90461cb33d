"""Products of many frames and the loss of a head: this toolkit's beside those of torch's libraries.

In every round all ways are timed in turn, each after its operands have left the caches; medians in
milliseconds are printed.

    python benchmarks/products.py [--json FILE] [--frames 2400] [--units 1100] [--rounds 15]
"""

import argparse
import statistics
from collections.abc import Callable

import record
import torch
from roofline import timed
from torch import Tensor
from torch.nn import functional

from bayes_asr.base.processes.malloc import keep_freed_memory
from bayes_asr.nn.criteria import cross_entropy
from bayes_asr.nn.linear import HAS_ONEDNN, multiply_onednn, product

OUTPUTS = 1900
MORE_THAN_CACHES = 2**24  # numbers
Ways = dict[str, Callable[[], object]]


def ways_to_multiply(a: Tensor, b: Tensor) -> Ways:
    """Each way to compute a b; b is a float32 weight or of the type of a."""
    ways: Ways = {"own": lambda: product(a, b), "torch": lambda: torch.mm(a, b.to(a.dtype))}
    if HAS_ONEDNN and a.dtype == torch.float32:
        ways["oneDNN"] = lambda: multiply_onednn(a, b)
    return ways


def products(frames: int, units: int, dtype: torch.dtype) -> dict[str, Ways]:
    """The products of a layer, forwards and backwards."""
    x, grad = (torch.randn(frames, units).to(dtype) for _ in range(2))
    W = torch.randn(units, units)
    sides = {"output": (x, W.T), "gradient of input": (grad, W), "of weights": (grad.T, x)}
    return {name: ways_to_multiply(a, b) for name, (a, b) in sides.items()}


def losses(frames: int, dtype: torch.dtype) -> Ways:
    """The loss of a head with its gradient and errors, by this toolkit and by torch."""
    logits = torch.randn(frames, OUTPUTS).to(dtype).requires_grad_()
    labels = torch.randint(OUTPUTS, (frames,))

    def own() -> None:
        loss = cross_entropy(logits, labels, frames)
        torch.autograd.grad(loss.mean, logits)

    def by_torch() -> None:
        y = logits.float()
        torch.autograd.grad(functional.cross_entropy(y, labels), logits)
        (y.argmax(1) != labels).sum()

    return {"own": own, "torch": by_torch}


def medians(ways: Ways, rounds: int) -> dict[str, float]:
    """Milliseconds of each way, after two rounds to warm up."""
    others = torch.zeros(MORE_THAN_CACHES)
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for round_ in range(2 + rounds):
        for name, way in ways.items():
            others.add_(1)
            taken = timed(way)
            if round_ >= 2:
                seconds[name].append(taken)
    return {name: 1e3 * statistics.median(times) for name, times in seconds.items()}


def main() -> None:
    """Measure, print a table, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    record.add_options(parser)
    for name, default in (("frames", 2400), ("units", 1100), ("rounds", 15)):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"default {default}")
    args = parser.parse_args()
    keep_freed_memory()
    rows = []
    for dtype in (torch.float32, torch.bfloat16):
        computed = products(args.frames, args.units, dtype) | {"loss": losses(args.frames, dtype)}
        for what, ways in computed.items():
            rows.append({"what": what, "dtype": str(dtype), **medians(ways, args.rounds)})
            times = "".join(f"  {name} {rows[-1][name]:6.2f} ms" for name in ways)
            print(f"{what:18}{dtype!s:16}{times}")
    record.save(rows, "products", args)


if __name__ == "__main__":
    main()
