"""The command line: one file per verb."""

import argparse
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from types import FrameType, ModuleType

from bayes_asr import __version__
from bayes_asr.base import log
from bayes_asr.base.errors import InputError, StoppedError, complaint, is_lack_of_memory
from bayes_asr.cli.arguments import Parser, is_text, refuse_overwriting, repeat_set, suggest
from bayes_asr.cli.streams import abandon, is_gone, prepare_streams, results_flushed, say

INTERRUPTED = 130  # 128 + SIGINT, as shells say it
freeze_once = cache(gc.freeze)  # to ask whether something is frozen would count all of it
ABOUT = "Trains, decodes and scores hybrid speech recognisers with Bayesian recurrent units."
VERBS = {
    "run": "a whole recipe: from the corpus to the table of error rates",
    "features": "compute MFCC, filter banks, PLP, pitch or samples of Kaldi data directories",
    "speed": "write a data directory with the same speech at several speeds",
    "train": "train a network, or go on with a run",
    "search": "train with other settings, drawn or combined, and say which are best",
    "forward": "compute log-likelihoods of a set or of any Kaldi data directory",
    "combine": "a run of the average of several networks, or of another head of one",
    "decode": "decode log-likelihoods into words and lattices",
    "denlats": "denominator lattices of a set, for MMI, MPE and sMBR",
    "lattice-posteriors": "posteriors of lattices, as Kaldi's lattice-to-smbr-post prints them",
    "rescore": "read lattices at other weights: n-best lists, least expected error, times",
    "lmrescore": "put another n-gram model of language into lattices",
    "find": "search the lattices of a run for words and phrases",
    "g2p": "learn pronunciations from a lexicon, and pronounce words that it lacks",
    "generate": "write the labels of utterances by a network with a decoder",
    "classify": "say which class each utterance is of, and how often that is wrong",
    "score": "count errors of a run; the LM weight is chosen on dev",
    "report": "tables and figures of runs",
    "wer": "count errors of a hypothesis against a reference",
    "compare": "statistics between two systems",
    "gradients": "how far back in time the loss of a frame reaches",
    "graph": "build a decoding graph from a lexicon, a language model and a tree",
    "transcribe": "words or phones with times from sound files",
    "gmm": "train Gaussian mixtures from sound to speaker-adapted features, without Kaldi",
    "align": "align transcripts: with a trained network, or evenly to begin with",
    "pronunciation": "how well the phones of a text are pronounced, with a page of pictures",
    "export": "write a trained network for other programs: ONNX, torch.export, TorchScript",
    "adapt": "give activations parameters of their own for each speaker",
    "fold": "turn a network with trained activations into a plain one",
    "import-cfg": "turn a configuration of pytorch-kaldi into one of this program",
    "import-weights": "make a run of the networks that pytorch-kaldi has saved",
    "config": "print a configuration as it is understood, or explain a key",
    "status": "what the runs below a folder are doing",
    "doctor": "check inputs and tools before hours are spent",
}


def main(argv: list[str] | None = None) -> int:
    """Run one verb; returns 0 only on success, 1 for bad input, 129, 130, 141 or 143 for a signal.

    Arguments that no verb takes end Python with the status 2.
    """
    prepare_streams()
    words = repeat_set(sys.argv[1:] if argv is None else argv)
    verb = next((word for word in words if not word.startswith("-")), "")
    name = f"bayes-asr {verb}" if verb in VERBS else "bayes-asr"
    try:
        with results_flushed():
            with _ended_by_interrupts(), _without_collections():
                args, run = read_arguments(words, verb)
            refuse_overwriting(args)
            log.log_to_screen()
            with _interrupted_by_ends():
                run(args)
    except (InputError, OSError, MemoryError) as error:
        # As under `| head`: nobody reads on, and shells expect the status of SIGPIPE.
        if isinstance(error, BrokenPipeError) and is_gone(sys.stdout):
            abandon(sys.stdout)
            return 128 + signal.SIGPIPE
        say(f"{name}: error: {complaint(error)}")
        return 1
    # torch reports a lack of memory as a RuntimeError of its own.
    except RuntimeError as error:
        if not is_lack_of_memory(error):
            raise
        say(f"{name}: error: {complaint(MemoryError(str(error)))}")
        return 1
    except StoppedError as stopped:
        say(f"{name}: {stopped}")
        return 128 + stopped.number
    except KeyboardInterrupt as interrupt:
        if not interrupt.args:
            say(f"{name}: interrupted")
            return INTERRUPTED
        say(f"{name}: interrupted by {interrupt}")
        return 128 + signal.Signals[str(interrupt)]
    return 0


def read_arguments(
    words: list[str], verb: str
) -> tuple[argparse.Namespace, Callable[[argparse.Namespace], None]]:
    """Parse a command line, `verb` its first word that is no option; returns what runs it too."""
    parser = Parser(prog="bayes-asr", description=ABOUT)
    parser.add_argument("--version", action="version", version=f"bayes-asr {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    # All of them take ten times as long as the one of a verb that comes first.
    shown = (verb,) if words[:1] == [verb] and verb in VERBS else VERBS
    parsers = {n: verbs.add_parser(n, help=VERBS[n], description=VERBS[n]) for n in shown}
    for word in words:
        if not is_text(word):
            parser.error(f"{word!r} is not UTF-8 text; rename what is called so")
    if verb and verb not in VERBS:
        parser.error(f"argument VERB: invalid choice: {verb!r}{suggest(verb, VERBS)}")
    args = argparse.Namespace(verb=verb, words=words, version=__version__)
    if words[:1] != [verb]:
        parser.refuse_strangers(parser.parse_known_args(words, args)[1])
    module = module_of(verb)
    module.add_arguments(parsers[verb])
    args, strange = parsers[verb].parse_in_any_order(words[1:], args)
    parsers[verb].refuse_strangers(strange)
    return args, module.run


def module_of(verb: str) -> ModuleType:
    """The module of a verb."""
    return import_module(f"bayes_asr.cli.{verb.replace('-', '_')}")


@contextmanager
def _ended_by_interrupts() -> Iterator[None]:
    """End at once with one line on SIGINT: nothing is begun yet.

    A KeyboardInterrupt would leave modules half imported, some of which make other errors of it.
    """

    def end(number: int, frame: FrameType | None) -> None:
        with suppress(OSError):
            os.write(2, b"bayes-asr: interrupted\n")
        os._exit(INTERRUPTED)

    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler or (
        threading.current_thread() is not threading.main_thread()
    ):
        yield  # it is ignored, or handled by whoever calls us
        return
    signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def _interrupted_by_ends() -> Iterator[None]:
    """Raise KeyboardInterrupt, with their names, on SIGTERM and SIGHUP too: what is temporary goes.

    The first alone: they come twice, to a process and to its group. One that is ignored, as by
    nohup, stays ignored. Processes that train together end one another by them, in silence.
    """
    ends = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is signal.SIG_DFL]
    together = int(os.environ.get("WORLD_SIZE", "1")) > 1
    if together or threading.current_thread() is not threading.main_thread():
        yield
        return

    came = False

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal came
        if not came:
            came = True
            raise KeyboardInterrupt(signal.Signals(number).name)

    for number in ends:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in ends:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def _without_collections() -> Iterator[None]:
    """Look for garbage neither while a verb is imported nor later in what was: all of it stays.

    Otherwise a third of the time in which a verb with torch begins and ends goes by in it.
    """
    collects = gc.isenabled()  # a caller may want none at all
    gc.disable()
    try:
        yield
    finally:
        if collects:
            freeze_once()
            gc.enable()
