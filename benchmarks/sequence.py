"""How much longer training on whole utterances takes than cross entropy: the same batches by both.

Batches are read, lattices or numerators with them, and the network is trained on them, by one
criterion after the other, round after round; the medians of processor seconds are printed. Lattices
are those that `bayes-asr denlats` wrote of the training set; for lfmmi, tree and graph are those of
`bayes-asr gmm chain-tree`.

    python benchmarks/sequence.py --kaldi-dir DIR --lattices DIR [--json FILE] [--criterion smbr]
    python benchmarks/sequence.py --kaldi-dir DIR --chain DIR --criterion lfmmi
    [--unit li-bru] [--units 550] [--layers 4] [--batch 8] [--batches 4] [--rounds 3]
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import record
import torch

from bayes_asr.base.processes.malloc import keep_freed_memory
from bayes_asr.config.catalogue import OF_LATTICES
from bayes_asr.config.epochs import at_epoch
from bayes_asr.config.merge import load
from bayes_asr.config.schema import Config
from bayes_asr.data.corpus.batches import batches_of
from bayes_asr.data.corpus.index import Index
from bayes_asr.data.corpus.labelled import LabelledSet
from bayes_asr.data.corpus.sets import open_sets
from bayes_asr.data.features.front_end import FEATURES, Normalisation
from bayes_asr.nn.network import AcousticModel
from bayes_asr.tasks.task import task_of
from bayes_asr.train import components
from bayes_asr.train.data_statistics import count_log_priors
from bayes_asr.train.loader import Loader
from bayes_asr.train.step import Step

RECIPE = Path(__file__).resolve().parents[1] / "recipes/timit_sample/config.yaml"


def epoch_of(config: Config, data: LabelledSet, index: Index, count: int) -> tuple[float, int]:
    """Processor seconds of reading some batches and training on them, and their frames."""
    torch.manual_seed(1)
    model = AcousticModel(**components.plan_network(config, data)).train()
    features = data.features.front_end
    matrices = (data.prepare(utt)[FEATURES] for utt in list(data.lengths)[:10])
    front_end = type(features)(**{**vars(features), "normalisation": Normalisation.of(matrices)})
    priors, _ = count_log_priors(data, model.outputs[:1], index)
    values = [name for name, target in data.targets.items() if target.per == "value"]
    wanted = [*dict.fromkeys([*model.outputs, *values])]
    stride = model.output_stride
    read = Loader(data, {FEATURES: front_end}, wanted, seed=1, epoch=1, shifts=stride)
    criterion = task_of(config).training().build_criterion(priors)
    optimizer = components.build_optimizer(config.train, model)
    step = Step(model, optimizer, max_gradient_norm=config.train.max_gradient_norm)
    sequences = at_epoch(config.train.batch_sequences, 1)
    batches = batches_of(
        data.lengths, sequences=sequences, frames=config.train.batch_frames, seed=1, epoch=1
    )
    frames, start = 0, time.process_time()
    for utterances in batches[:count]:
        batch = read(utterances)
        outputs = model(batch.streams, batch.frames, batch.keys_B)
        step(criterion(outputs, batch.targets, batch.num_labels).objective)
        frames += batch.frames.count
    return time.process_time() - start, frames


def main() -> None:
    """Measure, print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kaldi-dir", type=Path, required=True, help="the sample of TIMIT")
    parser.add_argument("--lattices", type=Path, default=Path(), help="of its training set")
    parser.add_argument("--chain", type=Path, default=Path(), help="tree and graph, for lfmmi")
    record.add_options(parser)
    parser.add_argument(
        "--criterion", choices=(*OF_LATTICES, "lfmmi"), default="smbr", help="default smbr"
    )
    parser.add_argument("--unit", default="li-bru", help="default li-bru")
    defaults = {"units": 550, "layers": 4, "batch": 8, "batches": 4, "rounds": 3}
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=f"default {default}")
    args = parser.parse_args()
    keep_freed_memory()
    settings = (
        f"data.dir={args.kaldi_dir}",
        f"data.train.lattices=[{args.lattices.absolute()}]",
        f"data.chain=[{args.chain.absolute()}]",
        f"model.unit={args.unit}",
        f"model.units={args.units}",
        f"model.layers={args.layers}",
        f"train.batch_sequences={args.batch}",
        "train.tempo=0",
        "train.monophone_weight=0",
    )
    seconds: dict[str, list[float]] = {"cross-entropy": [], args.criterion: []}
    with tempfile.TemporaryDirectory() as folder:
        index, sets = Index(Path(folder)), {}
        for name in seconds:
            config = load([RECIPE], (*settings, f"train.criterion={name}"))
            config = task_of(config).training().complete_options()
            training = task_of(config).training()
            sets[name] = config, training.complete("train", open_sets(config)[0], index)
        for number in range(args.rounds + 1):
            for name, (config, data) in sets.items():
                took, frames = epoch_of(config, data, index, args.batches)
                seconds[name] += [took] if number else []  # the first one warms up
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    ratio = medians[args.criterion] / medians["cross-entropy"]
    result: dict[str, Any] = {
        **{name: getattr(args, name) for name in ("criterion", "unit", *defaults)},
        "frames": frames,
        "threads": torch.get_num_threads(),
        "seconds": seconds,
        "ratio": ratio,
    }
    said = ", ".join(f"{name} {median:.2f} s" for name, median in medians.items())
    print(
        f"{args.unit}, {args.layers} x {args.units}, batch {args.batch}, {frames} frames,"
        f" {torch.get_num_threads()} threads: {said}: {ratio:.2f} times as long"
    )
    record.save([result], "sequence", args)


if __name__ == "__main__":
    main()
