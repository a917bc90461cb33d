"""How fast log-likelihoods are computed: one utterance alone, many together, one chunk by chunk.

Networks are never trained: as `bayes-asr forward` computes, and in double or single precision, as
after `bayes_asr.load(RUN).double()` and `.float()`. In every round all ways are timed in turn; the
medians over the rounds are printed, and the peak memory of a process of its own for one long
utterance.

    python benchmarks/forward.py [--json FILE] [--unit li-bru] [--units 550] [--layers 4]
    [--rounds 5] [--minutes 10]
"""

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import record
import torch
from networks import make_network

from bayes_asr.base.processes.malloc import keep_freed_memory
from bayes_asr.data.features.front_end import FEATURES, FrontEnd, Normalisation
from bayes_asr.data.sound.spectrum import FRAME_SHIFT
from bayes_asr.decode.forward import batches, directory
from bayes_asr.decode.forward.log_likelihoods import LogLikelihoods
from bayes_asr.train.runs.trained_network import TrainedNetwork

INPUTS, PDFS = 50, 1948
ALONE, MANY = 200, 32  # frames of the utterance alone; how many others, half as long on average
CHUNKS = (1, 10, 50, 200)
PRECISIONS = {"as loaded": None, "double": torch.float64, "single": torch.float32}
Row = dict[str, Any]


def network_of(args: argparse.Namespace, directions: int, precision: str) -> LogLikelihoods:
    """A network with random weights."""
    torch.manual_seed(1)
    model = make_network(
        INPUTS, [PDFS], args.unit, args.layers, args.units, bidirectional=directions == 2
    )
    nothing = Normalisation(np.zeros(INPUTS, np.float32), np.ones(INPUTS, np.float32))
    front_ends = {FEATURES: FrontEnd(normalisation=nothing)}
    network = TrainedNetwork(model, front_ends, torch.zeros(PDFS))
    loaded = LogLikelihoods(network)
    return loaded if (dtype := PRECISIONS[precision]) is None else loaded.to(dtype)


def made_up(frames: int) -> np.ndarray:
    """Features [T, F]."""
    return np.random.default_rng(frames).standard_normal((frames, INPUTS)).astype(np.float32)


def in_chunks(network: LogLikelihoods, features: np.ndarray, chunk: int) -> np.ndarray:
    """Log-likelihoods of one utterance, computed chunk by chunk."""
    stream = network.stream()
    starts = range(0, len(features), chunk)
    found = [stream(features[start : start + chunk]) for start in starts]
    return np.concatenate([*found, stream.finish()])


def ways(network: LogLikelihoods) -> dict[str, tuple[int, Callable[[], object]]]:
    """The ways to compute: name -> (frames, what computes them)."""
    alone = made_up(ALONE)
    lengths = np.random.default_rng(0).integers(ALONE // 4, ALONE * 3 // 4, MANY)
    many = [(str(n), made_up(n)) for n in lengths.tolist()]
    found: dict[str, tuple[int, Callable[[], object]]] = {
        "alone": (ALONE, lambda: network(alone)),
        f"{MANY} utterances": (
            int(lengths.sum()),
            lambda: [*batches.in_batches(network, many, directory.BATCH_FRAMES)],
        ),
    }
    if not network.model.looks_ahead:
        for chunk in CHUNKS:
            found[f"chunks of {chunk}"] = (ALONE, partial(in_chunks, network, alone, chunk))
    return found


def speeds(args: argparse.Namespace) -> list[Row]:
    """Time all ways of all networks in turn, `rounds` times after one round to warm up."""
    runs = {
        (directions, precision, name): way
        for directions in (1, 2)
        for precision in PRECISIONS
        for name, way in ways(network_of(args, directions, precision)).items()
    }
    seconds: dict[tuple[int, str, str], list[float]] = {key: [] for key in runs}
    for round_ in range(args.rounds + 1):
        for key, (_, run) in runs.items():
            start = time.perf_counter()
            run()
            if round_:
                seconds[key].append(time.perf_counter() - start)
    rows = []
    for (directions, precision, name), times in seconds.items():
        speed = runs[directions, precision, name][0] / statistics.median(times)
        rows.append(
            {
                "directions": directions,
                "precision": precision,
                "way": name,
                "frames_per_second": speed,
                "real_time_factor": 1 / (FRAME_SHIFT * speed),
                "least_to_most": min(times) / max(times),
            }
        )
    return rows


def peak(args: argparse.Namespace, directions: int, chunk: int) -> Row:
    """The most memory in MB that a process has held before and after one long utterance."""
    network = network_of(args, directions, "as loaded")
    features = made_up(round(60 * args.minutes / FRAME_SHIFT))
    network(features[:1])
    before = peak_megabytes()
    [*directory.in_chunks(network, [("", features)], chunk)] if chunk else network(features)
    way = f"chunks of {chunk}" if chunk else "alone"
    after = peak_megabytes()
    row = {"directions": directions, "way": way, "minutes": args.minutes}
    return {**row, "megabytes_before": before, "megabytes": after}


def peak_megabytes() -> float:
    """The most memory that this process has held; other than getrusage, not what its parent has."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def main() -> None:
    """Measure, print tables, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    record.add_options(parser)
    parser.add_argument("--unit", default="li-bru", help="default li-bru")
    for name, default in (("units", 550), ("layers", 4), ("rounds", 5)):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"default {default}")
    parser.add_argument("--minutes", type=float, default=10, help="of the long utterance, 0: none")
    args = parser.parse_args()
    keep_freed_memory()
    rows = speeds(args)
    print(f"{torch.get_num_threads()} threads, {args.layers} x {args.units} units of {args.unit}")
    print(f"{'directions':12}{'precision':11}{'way':16}{'frames/s':>10}{'real time':>11}")
    for r in rows:
        print(
            f"{r['directions']:<12}{r['precision']:11}{r['way']:16}"
            f"{r['frames_per_second']:10.0f}{r['real_time_factor']:11.4f}"
        )
    memory = []
    if args.minutes:
        with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
            memory = pool.starmap(peak, [(args, 1, 0), (args, 1, 200), (args, 2, 0)], chunksize=1)
    for r in memory:
        print(
            f"{r['minutes']:g} minutes, {r['directions']} direction(s), {r['way']}:"
            f" {r['megabytes']:.0f} MB, {r['megabytes_before']:.0f} before"
        )
    record.save(rows + memory, "forward", args)


if __name__ == "__main__":
    main()
