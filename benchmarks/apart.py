"""What it costs to compose HCL and G while they are searched, beside a graph composed in advance.

Both graphs are of the same lexicon, language model, tree and model. Every Nth utterance is decoded
with each of them in turn, at each beam: processor seconds, words that differ, and the largest
difference of the total cost where words are the same.

    python benchmarks/apart.py COMPOSED APART --model FILE --loglikes ARK [--acoustic-scale 0.1]
    [--beams 11 13 16] [--every 1] [--json FILE] [--record]
"""

import argparse
import time
from pathlib import Path
from typing import Any

import record

from bayes_asr.config.decoding_keys import SearchOptions
from bayes_asr.data.sound.spectrum import FRAME_SHIFT
from bayes_asr.decode.search.graph_dir import load_decoding_graph
from bayes_asr.decode.search.inputs import graph_files
from bayes_asr.decode.search.utterance import DecodeResult, choose_engine, decode_utterance
from bayes_asr.kaldi_io.ark import iter_matrices


def cost_of(result: DecodeResult, scale: float) -> float:
    """The total cost of the best path."""
    return result.graph_cost + scale * result.acoustic_cost


def compare(args: argparse.Namespace, beam: float) -> dict[str, Any]:
    """Decode with both graphs at a beam."""
    networks = [load_decoding_graph(graph, args.model) for graph in (args.composed, args.apart)]
    options = SearchOptions(args.acoustic_scale, beam, 7000, 200, 8.0, allow_partial=True)
    seconds, frames, utterances, differing, largest = [0.0, 0.0], 0, 0, 0, 0.0
    for number, (utt, loglikes) in enumerate(iter_matrices(args.loglikes)):
        if number % args.every:
            continue
        found = []
        for i, network in enumerate(networks):
            start = time.process_time()
            found.append(decode_utterance(network, utt, loglikes, options, choose_engine()))
            seconds[i] += time.process_time() - start
        frames, utterances = frames + len(loglikes), utterances + 1
        composed, apart = (cost_of(result, args.acoustic_scale) for result in found)
        if found[0].words != found[1].words:
            differing += 1
        else:
            largest = max(largest, abs(composed - apart))
    files = [graph_files(graph) for graph in (args.composed, args.apart)]
    sizes = [sum(file.stat().st_size for file in of_one) / 2**20 for of_one in files]
    return {
        "beam": beam,
        "utterances": utterances,
        "composed_megabytes": sizes[0],
        "apart_megabytes": sizes[1],
        "composed_real_time_factor": seconds[0] / (frames * FRAME_SHIFT),
        "apart_real_time_factor": seconds[1] / (frames * FRAME_SHIFT),
        "differing_words": differing,
        "largest_difference_of_costs": largest,
    }


def main() -> None:
    """Compare at every beam, print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("composed", type=Path, help="of bayes-asr graph")
    parser.add_argument("apart", type=Path, help="of bayes-asr graph --apart")
    parser.add_argument("--model", type=Path, required=True, help="final.mdl of both")
    parser.add_argument("--loglikes", type=Path, required=True, help="archive to decode")
    parser.add_argument("--acoustic-scale", type=float, default=0.1, help="default 0.1")
    parser.add_argument("--beams", type=float, nargs="+", default=[11, 13, 16])
    parser.add_argument("--every", type=int, default=1, help="of how many utterances one is taken")
    record.add_options(parser)
    args = parser.parse_args()
    rows = []
    for beam in args.beams:
        rows.append(compare(args, beam))
        print(", ".join(f"{name} {value:.4g}" for name, value in rows[-1].items()), flush=True)
    record.save(rows, "apart", args)


if __name__ == "__main__":
    main()
