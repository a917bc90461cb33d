"""How long it takes to tell the language of ten files of half a minute.

A hierarchical GRU beside an LSTM over all frames, with random weights, as `bayes-asr classify`
computes them: in double precision, one utterance after the other or all together. Without reading
features.

    OMP_NUM_THREADS=1 python benchmarks/classify.py [--rounds 3] [--json FILE] [--record]
"""

import argparse
import time
from pathlib import Path

import numpy as np
import record
import torch

from bayes_asr.config.merge import load
from bayes_asr.data.features.front_end import FEATURES, FrontEnd, Normalisation
from bayes_asr.data.targets.classes import CLASSES
from bayes_asr.decode.forward.log_likelihoods import LogLikelihoods
from bayes_asr.nn.network import AcousticModel
from bayes_asr.train.components import architecture
from bayes_asr.train.runs.trained_network import TrainedNetwork

FILES, BANDS, LANGUAGES = 10, 80, 14
STACKS = Path(__file__).resolve().parent.parent / "conf" / "stacks"
SYSTEMS = ("hierarchical-gru", "lstm-attention")


def build(system: str) -> LogLikelihoods:
    """The network of a file of conf/stacks."""
    config = load([STACKS / f"{system}.yaml"])
    plan = architecture(config.model, {FEATURES: BANDS}, {CLASSES: LANGUAGES})
    model = AcousticModel(**plan, of_utterances=[CLASSES])
    front_end = FrontEnd(normalisation=Normalisation(np.zeros(BANDS), np.ones(BANDS)))
    priors = torch.zeros(LANGUAGES, dtype=torch.float64)
    return LogLikelihoods(TrainedNetwork(model, {FEATURES: front_end}, priors))


def measure(network: LogLikelihoods, files: list[np.ndarray], at_once: int) -> float:
    """Seconds of processor time that all files take."""
    start = time.process_time()
    for begin in range(0, len(files), at_once):
        network.compute_prepared(files[begin : begin + at_once])
    return time.process_time() - start


def main() -> None:
    """Print a line for each network."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3, help="default 3; the fastest counts")
    parser.add_argument("--frames", type=int, default=3000, help="of each file, default 3000")
    record.add_options(parser)
    args = parser.parse_args()
    torch.manual_seed(1)
    rng = np.random.default_rng(1)
    files = [rng.standard_normal((args.frames, BANDS)).astype(np.float32) for _ in range(FILES)]
    rows = []
    for system in SYSTEMS:
        network = build(system)
        for at_once in (1, FILES):
            seconds = min(measure(network, files, at_once) for _ in range(args.rounds))
            rows.append(
                {
                    "system": system,
                    "parameters": sum(p.numel() for p in network.model.parameters()),
                    "at_once": at_once,
                    "cpu_seconds": round(seconds, 3),
                }
            )
            print(f"{system}, {at_once} at a time: {seconds:.2f} s")
    record.save(rows, "classify", args)


if __name__ == "__main__":
    main()
