"""How much faster two processes of one thread train than one process of one thread.

Both take the same steps on the same batches: forward pass, both heads, losses, backward pass,
clipping, optimizer, and what two processes tell each other. They take turns of some steps, so that
what else the machine does meets both; ratios are within a round, and the medians over the rounds
are printed, with the largest relative difference of the losses.

    python benchmarks/ddp.py [--json FILE] [--batch 8 16] [--frames 300] [--rounds 5]
"""

import argparse
import os
import socket
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import record
import torch
from networks import HEADS, make_network
from peers import DROPOUT
from torch import multiprocessing
from torch.multiprocessing.spawn import spawn

from bayes_asr.base.processes import group
from bayes_asr.base.processes.malloc import keep_freed_memory
from bayes_asr.config.merge import load
from bayes_asr.data.features.front_end import FEATURES
from bayes_asr.nn.criteria import CrossEntropy
from bayes_asr.nn.frames import pack
from bayes_asr.nn.network import AcousticModel
from bayes_asr.train import components
from bayes_asr.train.batch import Batch
from bayes_asr.train.loop import PassBatches, run_batches
from bayes_asr.train.step import Step

INPUTS, OUTPUTS, PROCESSES = 50, (1900, 48), 2
SPREAD = 0.1  # of the lengths, as utterances are grouped for training
ALONE = PROCESSES  # the number of the process that is alone
STEPS = 4  # of a turn, before which a process has slept and its caches are cold


def random_batch(sequences: int, frames: int, seed: int) -> Batch:
    """This process' share of a random batch, which is the same in all."""
    rng = np.random.default_rng(seed)
    spread = rng.uniform(1 - SPREAD, 1 + SPREAD, sequences)
    lengths = {str(i): round(frames * factor) for i, factor in enumerate(spread)}
    x = {utt: torch.from_numpy(rng.standard_normal((n, INPUTS), "f")) for utt, n in lengths.items()}
    labels = [
        {utt: torch.from_numpy(rng.integers(size, size=n)) for utt, n in lengths.items()}
        for size in OUTPUTS
    ]
    mine = group.take_share(list(lengths), lengths)
    x_NF, packed, order = pack([x[utt] for utt in mine])
    pdfs, monophones = (pack([of[utt] for utt in mine])[0] for of in labels)
    keys = torch.tensor([int(mine[i]) for i in order])
    return Batch({FEATURES: x_NF}, packed, {"pdfs": pdfs, "monophones": monophones}, keys)


def make_training(args: argparse.Namespace) -> tuple[AcousticModel, Step]:
    """A network and what trains it, the same in all processes."""
    torch.manual_seed(1)
    model = make_network(
        INPUTS, OUTPUTS, args.unit, args.layers, args.units, dropout=DROPOUT, tied_directions=True
    )
    group.pool_statistics(model)
    config = load([], ["train.optimizer=rmsprop", "train.learning_rate=4e-4"])
    optimizer = components.build_optimizer(config.train, model)
    return model, Step(model, optimizer, max_gradient_norm=5.0)


def train(
    number: int, args: argparse.Namespace, sequences: int, port: int, turns: Any, results: Any
) -> None:
    """Take the steps of process `number`; its first sends frames, seconds, loss of each round."""
    torch.set_num_threads(1)
    keep_freed_memory()
    if number != ALONE:
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        os.environ |= {"WORLD_SIZE": str(PROCESSES), "RANK": str(number)}
    with group.process_group():
        model, step = make_training(args)
        criterion = CrossEntropy(dict.fromkeys(HEADS, 1.0))
        rounds = []
        for first in range(0, STEPS * (1 + args.rounds), STEPS):
            batches = [random_batch(sequences, args.frames, first + i) for i in range(STEPS)]
            for turn in (number == ALONE, number != ALONE):
                turns.wait()
                if turn:
                    left = iter(batches)
                    start = time.perf_counter()
                    done = run_batches(
                        model,
                        criterion,
                        PassBatches("", [[""]] * STEPS, partial(take_next, left)),
                        step=step,
                    )
                    rounds.append((done.frames, time.perf_counter() - start, done.loss))
        if group.is_rank0():
            results.put((number, rounds[1:]))  # the first warms up


def take_next(left: Iterator[Batch], _: object) -> Batch:
    """The next batch, whatever it is asked by."""
    return next(left)


def measured(args: argparse.Namespace, sequences: int) -> dict[str, Any]:
    """Train with one process and with several in turn."""
    context = multiprocessing.get_context("spawn")
    turns, results = context.Barrier(PROCESSES + 1), context.SimpleQueue()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    spawn(train, (args, sequences, port, turns, results), nprocs=PROCESSES + 1)
    found = dict(results.get() for _ in range(2))
    frames, seconds, losses = np.array(found[0]).T
    _, seconds_alone, losses_alone = np.array(found[ALONE]).T
    return {
        "unit": args.unit,
        "tied": True,
        "dtype": "float32",
        "batch": sequences,
        "frames": args.frames,
        "processes": PROCESSES,
        "threads": 1,
        "frames_per_second_alone": float(np.median(frames / seconds_alone)),
        "frames_per_second": float(np.median(frames / seconds)),
        "ratio": float(np.median(seconds_alone / seconds)),
        "loss_difference": float(np.abs(losses / losses_alone - 1).max()),
    }


def main() -> None:
    """Measure, print a table, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    record.add_options(parser)
    parser.add_argument("--unit", default="li-bru", help="default li-bru")
    parser.add_argument("--batch", type=int, nargs="+", default=[8, 16], help="default 8 and 16")
    for name, default in (("units", 550), ("layers", 4), ("frames", 300), ("rounds", 5)):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"default {default}")
    args = parser.parse_args()
    print(f"{args.unit}, {args.layers} x {args.units} units, tied; torch {torch.__version__}")
    print(f"{'batch':>5}{'frames':>8}{'alone':>9}{'together':>10}{'ratio':>7}{'loss':>9}")
    rows = []
    for sequences in args.batch:
        rows.append(measured(args, sequences))
        print(
            "{batch:5}{frames:8}{frames_per_second_alone:9.0f}{frames_per_second:10.0f}"
            "{ratio:7.2f}{loss_difference:9.1e}".format(**rows[-1])
        )
    record.save(rows, "ddp", args)


if __name__ == "__main__":
    main()
