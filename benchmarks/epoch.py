"""How much longer a whole epoch takes than its training steps: AN4 from its Kaldi directory.

A whole epoch makes the batches, reads and packs the features, trains, validates and saves. The
steps alone are the forward pass, the losses and the update of the same batches, which are in
memory. Both are timed in turn, round after round, so that what else the machine does meets both;
the medians are printed. `--share` takes that share of both sets, evenly.

    python benchmarks/epoch.py --kaldi-dir DIR [--json FILE] [--unit li-bru] [--units 550]
    [--layers 4] [--batch 8] [--share 1] [--rounds 3]
"""

import argparse
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import record
import torch

from bayes_asr.base.processes.malloc import keep_freed_memory
from bayes_asr.config.epochs import at_epoch
from bayes_asr.config.merge import load
from bayes_asr.config.schema import Config
from bayes_asr.data.corpus.batches import batches_of
from bayes_asr.data.corpus.fingerprints import hash_stream
from bayes_asr.data.corpus.index import Index
from bayes_asr.data.corpus.labelled import LabelledSet
from bayes_asr.data.corpus.sets import open_sets
from bayes_asr.data.corpus.survey import Survey, survey_stream
from bayes_asr.data.features.front_end import FEATURES
from bayes_asr.data.targets.target import log_priors
from bayes_asr.nn.network import AcousticModel
from bayes_asr.tasks.task import task_of
from bayes_asr.train import components
from bayes_asr.train.loader import Loader
from bayes_asr.train.loop import run_epochs
from bayes_asr.train.runs.directory import RunDirectory
from bayes_asr.train.runs.trained_network import TrainedNetwork
from bayes_asr.train.step import Step
from bayes_asr.train.trainer import Trainer, TrainProgress, TrainState

RECIPE = Path(__file__).resolve().parents[1] / "recipes/an4/config.yaml"


def part_of(data: LabelledSet, share: float) -> LabelledSet:
    """A share of the utterances of a set, of all lengths."""
    by_length = sorted(data.lengths, key=lambda utt: (data.lengths[utt], utt))
    chosen = by_length[:: round(1 / share)]
    return replace(data, lengths={utt: data.lengths[utt] for utt in chosen})


class Epoch:
    """An epoch of a network that begins with the same weights each time."""

    def __init__(self, config: Config, train: LabelledSet, dev: LabelledSet, found: Survey) -> None:
        """Hold the batches in memory for the steps alone."""
        self.config, self.train, self.dev, self.found = config, train, dev, found
        self.architecture = components.plan_network(config, train)
        self.targets = tuple(self.architecture["heads"])
        self.log_priors = log_priors(train.targets["pdfs"].count(train.lengths))
        front_end = replace(train.features.front_end, normalisation=found.normalisation)
        self.front_ends = {FEATURES: front_end}
        options = config.train
        batches = batches_of(
            train.lengths,
            sequences=at_epoch(options.batch_sequences, 1),
            frames=options.batch_frames,
            seed=config.seed,
            epoch=1,
        )
        read = Loader(
            train,
            self.front_ends,
            self.targets,
            seed=config.seed,
            epoch=1,
            noise=options.noise,
            tempo=options.tempo,
        )
        start = time.perf_counter()
        self.batches = [read(batch) for batch in batches]
        self.reading = time.perf_counter() - start

    def whole(self) -> float:
        """Seconds that all of it takes."""
        model = self._model()
        with tempfile.TemporaryDirectory() as run:
            state = TrainState(
                TrainedNetwork(model, self.front_ends, torch.from_numpy(self.log_priors)),
                components.build_optimizer(self.config.train, model),
                TrainProgress(self.config.train.learning_rate),
                {},
            )
            training = Trainer(
                self.config,
                RunDirectory(Path(run)),
                torch.device("cpu"),
                self.config.train.precision,
                task_of(self.config).training().build_criterion(state.network.log_priors),
                state,
            )
            start = time.perf_counter()
            run_epochs(training, self.train, self.dev)
            return time.perf_counter() - start

    def steps(self) -> float:
        """Seconds that the steps take."""
        model, options = self._model(), self.config.train
        model.train()
        optimizer = components.build_optimizer(options, model)
        step = Step(model, optimizer, max_gradient_norm=options.max_gradient_norm)
        criterion = (
            task_of(self.config).training().build_criterion(torch.from_numpy(self.log_priors))
        )
        start = time.perf_counter()
        for batch in self.batches:
            outputs = model(batch.streams, batch.frames, batch.keys_B)
            step(criterion(outputs, batch.targets, batch.frames.count).objective)
        return time.perf_counter() - start

    def _model(self) -> AcousticModel:
        torch.manual_seed(1)
        return AcousticModel(**self.architecture)


def main() -> None:
    """Measure, print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kaldi-dir", type=Path, required=True, help="AN4, as its recipe reads it")
    record.add_options(parser)
    parser.add_argument("--unit", default="li-bru", help="default li-bru")
    for name, default in (("units", 550), ("layers", 4), ("batch", 8), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"default {default}")
    parser.add_argument("--share", type=float, default=1, help="of both sets, default 1")
    args = parser.parse_args()
    keep_freed_memory()
    settings = (
        f"data.dir={args.kaldi_dir}",
        f"model.unit={args.unit}",
        f"model.units={args.units}",
        f"model.layers={args.layers}",
        "model.tied_directions=true",
        f"train.batch_sequences={args.batch}",
        "train.epochs=1",
    )
    config = load([RECIPE], settings)
    with tempfile.TemporaryDirectory() as folder:
        train, dev = (part_of(data, args.share) for data in open_sets(config))
        found = survey_stream(
            "train", train, FEATURES, hash_stream(train, FEATURES), Index(Path(folder)), new=True
        )
        epoch = Epoch(config, train, dev, found)
        seconds: dict[str, list[float]] = {"whole": [], "steps": []}
        for _ in range(args.rounds):
            seconds["whole"].append(epoch.whole())
            seconds["steps"].append(epoch.steps())
    whole, steps = (statistics.median(times) for times in seconds.values())
    frames = sum(train.lengths.values())
    result: dict[str, Any] = {
        "unit": args.unit,
        "tied": True,
        "units": args.units,
        "layers": args.layers,
        "batch": args.batch,
        "threads": torch.get_num_threads(),
        "frames": frames,
        "dev_frames": sum(dev.lengths.values()),
        "frames_per_second": frames / steps,
        "seconds": {**seconds, "reading": epoch.reading},
        "ratio": whole / steps,
    }
    print(
        f"{args.unit}, {args.layers} x {args.units} tied, batch {args.batch},"
        f" {torch.get_num_threads()} threads: {frames} frames to train on and"
        f" {result['dev_frames']} of dev; whole epoch {whole:.2f} s, its steps {steps:.2f} s"
        f" ({frames / steps:.0f} frames/s), ratio {whole / steps:.3f}; reading alone takes"
        f" {epoch.reading:.2f} s"
    )
    record.save([result], "epoch", args)


if __name__ == "__main__":
    main()
