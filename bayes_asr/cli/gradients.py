"""bayes-asr gradients: how far back in time the loss of a frame reaches in trained networks."""

import argparse
import json
from importlib.util import find_spec
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import replacing
from bayes_asr.cli.arguments import positive, real
from bayes_asr.data.corpus.sets import open_sets
from bayes_asr.train.gradient_reach import measure_reach
from bayes_asr.train.runs.configuration import read_configuration
from bayes_asr.train.runs.trained_network import read_network


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run directories")
    parser.add_argument(
        "--layer", metavar="NAME", help="of a line; default: the last recurrent one"
    )
    parser.add_argument("--lags", type=positive, default=50, help="frames away; default 50")
    parser.add_argument(
        "--gain",
        type=real(0.001, 1000),
        nargs="+",
        default=[1.0],
        metavar="FACTOR",
        help="of the recurrent weights V of all layers; large ones may let gradients explode",
    )
    parser.add_argument("--utterances", type=positive, default=10, help="of dev; default 10")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="picture to write: .svg, .png, .pdf"
    )
    parser.add_argument("--json", action="store_true", help="print the norms as JSON")


def run(args: argparse.Namespace) -> None:
    """Print, and perhaps draw, the norms of the gradients by the states before."""
    if args.out and args.out.suffix not in (".svg", ".png", ".pdf"):
        raise InputError(f"{args.out}: a picture is a file .svg, .png or .pdf")
    if args.out and find_spec("matplotlib") is None:
        raise InputError("--out needs matplotlib: install the extra report")
    log_norms_by_run = {
        str(path) if gain == 1 else f"{path}, V times {gain:.12g}": _measure(path, gain, args)
        for path in args.runs
        for gain in args.gain
    }
    if args.json:
        print(json.dumps(log_norms_by_run, indent=1))
    else:
        for path, log_norms in log_norms_by_run.items():
            # Ratios to the norm at the loss are differences of logarithms.
            shares = [f"{log_norms[lag] - log_norms[0]:.2f}" for lag in _list_lags(args.lags)]
            print(f"{path}: {' '.join(shares)}")
        print(
            f"logarithms of norms, relative, at lags {', '.join(map(str, _list_lags(args.lags)))}"
        )
    if args.out:
        from bayes_asr.evaluate.report.figures import draw_gradients  # needs the extra report

        with replacing(args.out) as temporary:
            draw_gradients(log_norms_by_run).savefig(temporary, format=args.out.suffix[1:])


def _list_lags(lags: int) -> list[int]:
    """Lags that are printed: 0, 1, 2, 5, 10, 20, 50 and so on."""
    series = (step * 10**power for power in range(7) for step in (1, 2, 5))
    return [0, *(lag for lag in series if lag < lags)]


def _measure(path: Path, gain: float, args: argparse.Namespace) -> list[float]:
    """Logarithms of the norms of one layer of a run, by lag."""
    _, dev = open_sets(read_configuration(path))
    try:
        reaches = measure_reach(
            read_network(path), dev, lags=args.lags, utterances=args.utterances, gain=gain
        )
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    by_layer = {reach.layer: reach for reach in reaches}
    if args.layer and args.layer not in by_layer:
        raise InputError(
            f"{path}: has no recurrent layer {args.layer}; it has {', '.join(by_layer)}"
        )
    reach = by_layer[args.layer] if args.layer else reaches[-1]
    return reach.log_norms.tolist()
