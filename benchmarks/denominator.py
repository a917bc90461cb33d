"""How near the sums of lattice-free MMI are to others', on a graph of real speech.

Compared are logs of the sum over all paths and their derivatives, on random scores: with products
of dense matrices in NumPy, in double precision, leaks and frames written out; and, where its module
pychain_C can be imported, with PyChain (Shao et al. 2020), in single precision.

    python benchmarks/denominator.py --chain DIR [--frames 100] [--leak 0.1] [--json FILE]
"""

import argparse
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import record
import torch

from bayes_asr.kaldi_io.fst import read_fst
from bayes_asr.kaldi_io.mdl import read_transition_model
from bayes_asr.tasks.chain.denominator_graph import DenominatorGraph
from bayes_asr.tasks.chain.leaky_hmm import LeakyHmm

Sums = tuple[float, np.ndarray]


def sum_by_matrices(graph: DenominatorGraph, leak: float, scores: np.ndarray) -> Sums:
    """The log of the sum over all paths and its derivatives [T, P], by dense matrices [S, S].

    One matrix a frame: a sum over arcs of their probability and likelihood, then the leak of every
    state to all. Each vector is divided by its sum, whose logarithm is added up.
    """
    states = graph.num_states
    leaking = np.eye(states) + leak * np.outer(np.ones(states), graph.initial)
    ahead, total = [graph.initial @ leaking], 0.0
    steps = []
    for row in np.exp(scores):
        step = np.zeros((states, states))
        np.add.at(step, (graph.source, graph.target), graph.prob * row[graph.pdf])
        here = ahead[-1] @ step @ leaking
        total += np.log(here.sum())
        ahead.append(here / here.sum())
        steps.append(step)
    share, after = np.zeros(scores.shape), np.ones(states)
    for t in range(len(scores) - 1, -1, -1):
        after = leaking @ after
        passed = ahead[t][graph.source] * graph.prob * np.exp(scores[t, graph.pdf])
        passed *= after[graph.target]
        share[t] = np.bincount(graph.pdf, passed / passed.sum(), graph.num_pdfs)
        after = steps[t] @ after
        after /= after.sum()
    return float(total), share


def sum_by_pychain(graph: DenominatorGraph, leak: float, scores: np.ndarray) -> Sums:
    """The same by PyChain's C++, which has scores and sums in single precision."""
    import pychain_C

    def lay_out(ends: np.ndarray) -> list[torch.Tensor]:
        order = np.argsort(ends, kind="stable")
        arcs = np.stack([graph.source, graph.target, graph.pdf], 1)[order].astype(np.int32)
        stops = np.cumsum(np.bincount(ends, minlength=graph.num_states))
        spans = np.stack([np.concatenate([[0], stops[:-1]]), stops], 1).astype(np.int32)
        columns = (arcs, spans, graph.prob[order].astype(np.float32))
        return [torch.from_numpy(np.ascontiguousarray(x))[None] for x in columns]

    initial = torch.from_numpy(graph.initial).float()[None]
    frames = len(scores)
    log_total, share, ok = pychain_C.forward_backward(
        *(*lay_out(graph.source), *lay_out(graph.target)),
        *(initial, initial.clone(), torch.ones_like(initial), torch.zeros(1, dtype=torch.long)),
        torch.from_numpy(np.exp(scores)).float()[None],
        torch.ones(frames, dtype=torch.long),
        torch.tensor([frames]),
        graph.num_states,
        leak,
    )
    if not ok.all():
        raise ArithmeticError("PyChain says that its sums are not right")
    return float(log_total.sum()), share[0].double().numpy()


def main() -> None:
    """Compare, print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--chain", type=Path, required=True, help="of bayes-asr gmm chain-tree")
    parser.add_argument("--frames", type=int, default=100, help="default 100")
    parser.add_argument("--leak", type=float, default=0.1, help="default 0.1")
    record.add_options(parser)
    args = parser.parse_args()
    model = read_transition_model(args.chain / "final.mdl")
    graph = DenominatorGraph.of_fst(read_fst(args.chain / "den.fst"), model.num_pdfs)
    scores = np.random.default_rng(1).normal(0, 2, (args.frames, model.num_pdfs))
    others = {"matrices": sum_by_matrices}
    if find_spec("pychain_C"):
        others["pychain"] = sum_by_pychain
    start = time.process_time()
    total, share = LeakyHmm(graph, args.leak).sum_paths(scores)
    ours = time.process_time() - start
    rows: list[dict[str, Any]] = []
    for name, sum_paths in others.items():
        start = time.process_time()
        their_total, their_share = sum_paths(graph, args.leak, scores)
        rows.append(
            {
                "other": name,
                "states": graph.num_states,
                "arcs": len(graph.prob),
                "pdfs": graph.num_pdfs,
                "frames": args.frames,
                "log_total": total,
                "relative_difference": abs(their_total - total) / abs(total),
                "largest_difference_of_derivatives": float(np.abs(their_share - share).max()),
                "seconds": ours,
                "their_seconds": time.process_time() - start,
            }
        )
        print(", ".join(f"{key} {value}" for key, value in rows[-1].items()))
    record.save(rows, "denominator", args)


if __name__ == "__main__":
    main()
