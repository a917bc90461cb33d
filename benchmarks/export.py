"""How fast an exported network is in ONNX Runtime, beside `bayes_asr.load` in double and single.

Networks are never trained. One utterance alone, in both directions and forwards only, and forwards
in steps of a few frames. In every round all ways are timed in turn; the medians are printed, with
the largest difference of a log-likelihood from that of double precision.

    python benchmarks/export.py [--json FILE] [--record] [--unit li-bru] [--units 550]
    [--layers 4] [--rounds 5]
"""

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnxruntime
import record
import torch
from forward import ALONE, INPUTS, in_chunks, made_up, network_of

from bayes_asr.data.sound.spectrum import FRAME_SHIFT
from bayes_asr.decode.export import export_onnx
from bayes_asr.decode.forward.log_likelihoods import LogLikelihoods

CHUNKS = (1, 10)
Row = dict[str, Any]
Way = Callable[[], np.ndarray]


def open_exported(network: LogLikelihoods, folder: Path, **options: Any) -> Any:
    """A session of ONNX Runtime with as many threads as torch has."""
    path = folder / "network.onnx"
    export_onnx(network, path, **options)
    given = onnxruntime.SessionOptions()
    given.intra_op_num_threads = torch.get_num_threads()
    return onnxruntime.InferenceSession(path, given)


def at_once(session: Any, features: np.ndarray) -> np.ndarray:
    """Log-likelihoods of one utterance by one call."""
    found: np.ndarray = session.run(None, {"features": features})[0]
    return found


def in_steps(session: Any, features: np.ndarray, chunk: int) -> np.ndarray:
    """Log-likelihoods of one utterance, step by step."""
    inputs = session.get_inputs()[2:]
    states = {state.name: np.zeros(state.shape, np.float32) for state in inputs}
    found = []
    for start in range(0, len(features), chunk):
        given = {"features": features[start : start + chunk], "begins": np.array(start == 0)}
        loglikes, *after = session.run(None, given | states)
        states = dict(zip(states, after, strict=True))
        found.append(loglikes)
    return np.concatenate(found)


def ways(args: argparse.Namespace, directions: int, folder: Path) -> dict[str, Way]:
    """The ways to compute one utterance, by name; the first is what the others are compared to."""
    features = made_up(ALONE)
    double, single = (network_of(args, directions, p) for p in ("double", "single"))
    found: dict[str, Way] = {
        "load in double": lambda: double(features).numpy(),
        "load in single": lambda: single(features).numpy(),
    }
    for quantize in (False, True):
        name = f"ONNX Runtime{', int8' if quantize else ''}"
        session = open_exported(double, folder, quantize=quantize)
        found[name] = partial(at_once, session, features)
        if directions == 1:
            step = open_exported(double, folder, step=True, quantize=quantize)
            for n in CHUNKS:
                found[f"{name}, steps of {n}"] = partial(in_steps, step, features, n)
    if directions == 1:
        for n in CHUNKS:
            found[f"load in single, chunks of {n}"] = partial(in_chunks, single, features, n)
    return found


def measure(args: argparse.Namespace, directions: int, folder: Path) -> list[Row]:
    """Time all ways in turn, `rounds` times after one round to warm up."""
    runs = ways(args, directions, folder)
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    found: dict[str, np.ndarray] = {}
    for round_ in range(args.rounds + 1):
        for name, run in runs.items():
            start = time.perf_counter()
            found[name] = run()
            if round_:
                seconds[name].append(time.perf_counter() - start)
    rows = []
    for name, times in seconds.items():
        speed = ALONE / statistics.median(times)
        row: Row = {"directions": directions, "way": name, "frames_per_second": speed}
        row["real_time_factor"] = 1 / (FRAME_SHIFT * speed)
        row["largest_difference"] = float(np.abs(found[name] - found["load in double"]).max())
        rows.append(row)
    return rows


def main() -> None:
    """Measure, print a table, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    record.add_options(parser)
    parser.add_argument("--unit", default="li-bru", help="default li-bru")
    for name, default in (("units", 550), ("layers", 4), ("rounds", 5)):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"default {default}")
    args = parser.parse_args()
    with TemporaryDirectory() as folder:
        rows = [row for directions in (1, 2) for row in measure(args, directions, Path(folder))]
    print(f"{torch.get_num_threads()} threads, {args.layers} x {args.units} units of {args.unit}")
    print(f"{INPUTS} features, {ALONE} frames")
    print(f"{'directions':12}{'way':36}{'frames/s':>10}{'real time':>11}{'difference':>12}")
    for r in rows:
        print(
            f"{r['directions']:<12}{r['way']:36}{r['frames_per_second']:10.0f}"
            f"{r['real_time_factor']:11.4f}{r['largest_difference']:12.1e}"
        )
    record.save(rows, "export", args)


if __name__ == "__main__":
    main()
