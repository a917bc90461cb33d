"""How far posteriors of runs are from the shares of frames that are right, before and after a
temperature.

Frames of dev, their pdfs by the alignment. The temperature is fitted to every other utterance; the
others tell the errors.

    python benchmarks/calibration.py RUN... [--json FILE] [--record]
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import record

from bayes_asr.data.corpus.sets import open_sets
from bayes_asr.data.features.front_end import join_streams
from bayes_asr.decode.forward.interface import Output
from bayes_asr.decode.forward.log_likelihoods import load
from bayes_asr.evaluate.score.calibration import (
    Predictions,
    calibration_error,
    decide,
    fit_temperature,
)
from bayes_asr.train.runs.configuration import read_configuration

STRIDE = (
    10  # frames from one to the next that a temperature is fitted to: all would fill the memory
)


def measure_calibration(run: Path) -> dict[str, Any]:
    """Errors in per cent: of the decisions for pdfs, and expected calibration errors."""
    _, dev = open_sets(read_configuration(run))
    network = load(run, output=Output(kind="log-posteriors"))
    labels = dev.targets[network.model.outputs[0]].labels

    def compute(utt: str) -> tuple[np.ndarray, np.ndarray]:
        prepared = join_streams(network.front_ends, dev.prepare(utt))
        return network.compute_prepared([prepared])[0].numpy(), labels(utt)

    utterances = sorted(dev.lengths)
    fitted = [[x[::STRIDE] for x in compute(utt)] for utt in utterances[::2]]
    temperature = fit_temperature(*map(np.concatenate, zip(*fitted, strict=True)))
    measured = [[decide(*compute(utt), t) for t in (1.0, temperature)] for utt in utterances[1::2]]
    plain, cooled = (
        Predictions(*map(np.concatenate, zip(*column, strict=True)))
        for column in zip(*measured, strict=True)
    )
    return {
        "run": str(run),
        "frames": len(plain.right),
        "wrong": 100 * float(1 - plain.right.mean()),
        "confidence": 100 * float(plain.confidences.mean()),
        "calibration error": 100 * calibration_error(plain),
        "temperature": temperature,
        "calibration error after": 100 * calibration_error(cooled),
    }


def main() -> None:
    """Print a line for each run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    record.add_options(parser)
    args = parser.parse_args()
    rows = [measure_calibration(run) for run in args.runs]
    print("\n".join(record.tables(rows)))
    record.save(rows, "calibration", args)


if __name__ == "__main__":
    main()
