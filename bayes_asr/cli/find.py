"""bayes-asr find: words and phrases in the lattices of a decoded run."""

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from unicodedata import combining, normalize

from bayes_asr.base.errors import InputError, count_of, printable
from bayes_asr.base.files import real_path
from bayes_asr.cli.arguments import lm_weight, penalty, processes, share, suggest
from bayes_asr.config.schema import Config
from bayes_asr.data.directories import locate, locate_all
from bayes_asr.decode.align.transcripts import locate_timer
from bayes_asr.decode.forward.network_record import describe_network
from bayes_asr.decode.graph.lang import find_lexicon
from bayes_asr.decode.keywords import open_index
from bayes_asr.decode.lattices.ctm import FRAME_SHIFT, Place, read_places
from bayes_asr.decode.lattices.paths import Weights, pair_weights
from bayes_asr.decode.search.search_record import find_graph_of
from bayes_asr.decode.search.tuned_weights import choose_weights
from bayes_asr.evaluate.score.run_scores import SETS
from bayes_asr.kaldi_io.jobs import find_jobs
from bayes_asr.kaldi_io.symbols import read_symbols
from bayes_asr.tasks.task import task_of
from bayes_asr.train.runs.configuration import read_configuration


@dataclass(frozen=True)
class TimedHit:
    """An occurrence of a phrase: its times in seconds of the recording, and its posterior."""

    phrase: str
    set: str
    utterance: str
    recording: str
    begin: float
    end: float
    posterior: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("run", type=Path, metavar="RUN", help="run whose sets were decoded")
    parser.add_argument(
        "phrases", nargs="+", metavar="WORD", help='a word, or several as one argument: "a b"'
    )
    parser.add_argument(
        "--on", nargs="+", choices=SETS, metavar="SET", help="default: all that are decoded"
    )
    parser.add_argument(
        "--least",
        type=share,
        default=0.1,
        metavar="POSTERIOR",
        help="leave out what is less likely (default %(default)s)",
    )
    parser.add_argument("--lmwt", type=lm_weight, help="LM weight; default: that chosen on dev")
    parser.add_argument("--wip", type=penalty, help="insertion penalty with --lmwt; default 0")
    parser.add_argument("--nj", type=processes, default=1, help="processes that make the index")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> None:
    """Print the places of each phrase, likeliest first; an index stays in RUN/decode_SET."""
    if args.wip is not None and args.lmwt is None:
        raise InputError("--wip goes with --lmwt: dev chose its LM weight with another penalty")
    config = read_configuration(args.run)

    @cache  # for a graph of several sets warnings come once
    def weigh(graph: Path) -> Weights:
        if args.lmwt is not None:
            return pair_weights([args.lmwt], [args.wip or 0.0])[0]
        return weigh_as_dev(args.run, graph, config)

    decoded = [name for name in SETS if (args.run / f"decode_{name}").is_dir()]
    names = dict.fromkeys(args.on or decoded)  # each once
    if not names:
        raise InputError(f"{args.run}: no decode_SET; run bayes-asr decode first")
    sightings = [
        sighting
        for name in names
        for sighting in find_in_set(args.run, name, config, args.phrases, weigh, args.nj)
        if sighting.posterior >= args.least
    ]
    sightings.sort(key=lambda s: (args.phrases.index(s.phrase), -s.posterior, s.utterance))
    if args.json:
        print(json.dumps([asdict(sighting) for sighting in sightings]))
        return
    for phrase in dict.fromkeys(args.phrases):
        places = [sighting for sighting in sightings if sighting.phrase == phrase]
        print(printable(f"{phrase}: {count_of(len(places), 'place')}"))
        for s in places:
            print(
                printable(
                    f"{s.posterior:8.2f}  {s.set}  {s.utterance}  {s.recording}"
                    f"  {s.begin:.2f} {s.end:.2f}"
                )
            )


def read_phrases(phrases: list[str], words: Path) -> dict[str, list[int]]:
    """The word-ids of each phrase; InputError for words that `words`, words.txt, lacks."""
    symbols = read_symbols(words)
    numbers: dict[str, list[int]] = {}
    for phrase in phrases:
        if not phrase.split():
            raise InputError("a phrase is empty; give a word")
        for word in phrase.split():
            if not symbols.get(word):
                known = [each for each in symbols if symbols[each]]
                alike = [each for each in known if _fold(each) == _fold(word)]
                meant = f"; did you mean {alike[0]}?" if alike else suggest(word, known)
                raise InputError(f"{words}: lacks {word!r}, so no lattice has it{meant}")
        numbers[phrase] = [symbols[word] for word in phrase.split()]
    return numbers


def _fold(word: str) -> str:
    """The word in small letters without accents."""
    return "".join(c for c in normalize("NFD", word.casefold()) if not combining(c))


def weigh_as_dev(run: Path, graph: Path, config: Config) -> Weights:
    """The weights that dev chose, if it was decoded with this graph."""
    configured = locate(config.data.graph, config.data, "decoding graph")
    is_other = real_path(graph) != real_path(configured)
    return choose_weights(run, graph, config.decode, describe_network(run), is_other=is_other)


def find_in_set(
    run: Path,
    name: str,
    config: Config,
    phrases: list[str],
    weigh: Callable[[Path], Weights],
    nj: int,
) -> Iterator[TimedHit]:
    """Yield the places of all phrases in the lattices of a set; weigh: the weights by its graph."""
    decode_dir = run / f"decode_{name}"
    lattices = find_jobs(decode_dir, "lat")
    if not lattices:
        raise InputError(f"{decode_dir}: holds no lattices lat.N.gz; decode the set again")
    graph = find_graph_of(decode_dir, config)
    numbers = read_phrases(phrases, graph / "words.txt")
    timer = locate_timer(graph, config)
    index = open_index(decode_dir, lattices, weigh(graph), nj, timer, find_lexicon(graph))
    places: dict[str, Place] = {}
    for directory in locate_all(config.data, name, "features"):
        places |= read_places(directory) or {}
    # A network that skips frames has longer ones.
    shift = FRAME_SHIFT * task_of(config).output_stride
    for phrase, sought in numbers.items():
        for hit in index.find(sought):
            place = places.get(hit.utterance, Place(hit.utterance, "1", 0.0))
            begin, end = (round(place.begin + shift * frame, 3) for frame in (hit.begin, hit.end))
            posterior = round(hit.posterior, 4)
            yield TimedHit(phrase, name, hit.utterance, place.recording, begin, end, posterior)
