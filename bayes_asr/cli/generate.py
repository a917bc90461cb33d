"""bayes-asr generate: what a network with a decoder writes, by beam search."""

import argparse
from importlib.util import find_spec
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import together
from bayes_asr.base.lock import alone_in
from bayes_asr.base.log import LOGGER
from bayes_asr.base.programs import open_pipe
from bayes_asr.cli.arguments import key
from bayes_asr.cli.sharing import add_set_arguments, gather_streams
from bayes_asr.data.corpus.streams import StoredStreams
from bayes_asr.decode.forward.directory import StreamSource, open_source
from bayes_asr.decode.forward.generation import generate_sequences, write_generated
from bayes_asr.decode.forward.generator import SequenceGenerator, load_generator
from bayes_asr.decode.forward.network_record import describe_network
from bayes_asr.decode.search.search_record import write_record
from bayes_asr.nn.beam_search import BeamHypothesis
from bayes_asr.train.runs.configuration import read_configuration

SEARCH = ("beam_width", "length_penalty")
"""Options, and keys of `decode`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("run", type=Path, metavar="RUN", help="run that learns data.sequences")
    add_set_arguments(parser, "decode", "labels")
    parser.add_argument(
        "--beam-width",
        type=key("decode.beam_width"),
        metavar="N",
        help="beginnings of each length that go on (default: decode.beam_width of the run)",
    )
    parser.add_argument(
        "--length-penalty",
        type=key("decode.length_penalty"),
        metavar="A",
        help="divide log probabilities by this power of the number of labels (default: the run's)",
    )
    parser.add_argument(
        "--attention",
        action="store_true",
        help="also write which frames each label was written of",
    )
    parser.add_argument(
        "--draw",
        nargs="+",
        default=[],
        metavar="UTTERANCE",
        help="draw the attention of these above their features",
    )


def run(args: argparse.Namespace) -> None:
    """Write the hypotheses, which score reads, and perhaps what attention saw."""
    if args.data and not args.out:
        raise InputError("--data needs --out, the folder to write")
    if args.draw and find_spec("matplotlib") is None:
        raise InputError("--draw needs matplotlib: pip install matplotlib")
    out = args.out or args.run / f"decode_{args.on}"
    record = describe_network(args.run)
    writer = load_generator(args.run)
    if (args.attention or args.draw) and writer.decoder.attention is None:
        raise InputError(f"{args.run}: its decoder has no attention; leave --attention and --draw")
    configured = read_configuration(args.run).decode
    options = {name: getattr(args, name) for name in SEARCH}
    options = {
        name: getattr(configured, name) if value is None else value
        for name, value in options.items()
    }
    features = _open_features(args, writer)
    hypotheses = list(generate_sequences(writer, features, **options))
    with alone_in(out), together(out):
        write_generated(writer, hypotheses, out, attention=args.attention)
        write_record(options | record, out)
    _draw(args.draw, dict(hypotheses), writer, features, out)
    LOGGER.info("wrote the labels of %d utterances to %s", len(hypotheses), out / "words.txt")


def _open_features(args: argparse.Namespace, writer: SequenceGenerator) -> StoredStreams:
    """Open the features; InputError for an utterance to draw that there is not."""
    pipes = open_pipe if args.allow_pipes else None
    source = StreamSource(args.data, gather_streams(args), args.on or "", args.max_skipped, pipes)
    features = open_source(args.run, writer, source)
    for utt in args.draw:
        if utt not in features.utterances:
            raise InputError(f"--draw {utt}: there is no such utterance")
    return features


def _draw(
    utterances: list[str],
    hypotheses: dict[str, BeamHypothesis],
    writer: SequenceGenerator,
    features: StoredStreams,
    out: Path,
) -> None:
    for utt in utterances:
        # Only pictures need matplotlib.
        from bayes_asr.evaluate.report.figures import draw_alignment, save_attention

        labels, weights = writer.name_labels(hypotheses[utt]), hypotheses[utt].weights_LT
        figure = draw_alignment(utt, features.first.read(utt), labels, weights.numpy())
        save_attention(figure, utt, out)
