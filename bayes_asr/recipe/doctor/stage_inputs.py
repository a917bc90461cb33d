"""Checks of the inputs of a recipe's stages, from training to the report.

They say in seconds, before hours are spent, whether all is there and fits together. Training itself
reads the rest of its data when it starts.
"""

import shutil
from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch

from bayes_asr.base.errors import InputError, count_of
from bayes_asr.base.files import is_there
from bayes_asr.config.schema import Config
from bayes_asr.data.corpus.directories import data_dir, features_of, stream_dirs
from bayes_asr.data.corpus.labelled import Features, check_stream
from bayes_asr.data.corpus.references import data_with_stm
from bayes_asr.data.corpus.sets import open_set
from bayes_asr.data.directories import locate
from bayes_asr.data.features.front_end import FEATURES
from bayes_asr.data.features.skipped import report_lacking
from bayes_asr.decode.search.archive import choose_decoder
from bayes_asr.decode.search.graph_dir import load_decoding_graph
from bayes_asr.evaluate.score.glm import find_glm, read_glm
from bayes_asr.evaluate.score.nist import read_stm
from bayes_asr.kaldi_io.byte_reader import OpenPipe
from bayes_asr.kaldi_io.data_dir import read_texts
from bayes_asr.kaldi_io.marks import describe_misspelt
from bayes_asr.kaldi_io.mdl import read_transition_model
from bayes_asr.kaldi_io.symbols import read_symbols
from bayes_asr.kaldi_io.transition_model import TransitionModel
from bayes_asr.nn.network import build_network
from bayes_asr.recipe.doctor.check import (
    CHECKPOINTS,
    HERE,
    Check,
    collect_messages,
    describe_lacking,
    format_gib,
)
from bayes_asr.tasks.task import task_of
from bayes_asr.train.components import architecture
from bayes_asr.train.runs.history import check_tensorboard

DECODED = ("dev", "test")  # sets
FIRST, LAST = 3, 7  # stages of a recipe: from training to the report


def check_stage_inputs(
    config: Config,
    stages: Container[int],
    open_pipe: OpenPipe | None = None,
    out: Path = HERE,
    *,
    blocking: bool = True,
) -> list[Check]:
    """Check what some stages of a recipe, 3 to 7, need; each lack is an error if `blocking`.

    out: an existing folder on the disk that runs are written to.
    """
    checks: list[Check] = []
    for stage, name, check in _STAGE_CHECKS:
        if stage in stages:
            with collect_messages(checks, name, blocking=blocking):
                checks.extend(check(config, open_pipe, out))
    return checks


def _check_graph(config: Config) -> str:
    """Load the graph as decoding will, by the training alignments' model; returns what it is.

    InputError where decoding would refuse it, or where it was made with another model.
    """
    graph_dir = locate(config.data.graph, config.data, "decoding graph")
    aligned, model = _read_model(config)
    words = graph_dir / "words.txt"
    if not is_there(words):
        raise InputError(f"{words} is missing; copy it from the language directory")
    graph = load_decoding_graph(graph_dir, aligned)
    beside = graph_dir.parent / "final.mdl"  # that mkgraph.sh was given
    if is_there(beside):
        graph_model = read_transition_model(beside)
        # Models may differ in probabilities; the numbering of transitions must agree.
        if not np.array_equal(graph_model.tuples, model.tuples):
            raise InputError(
                f"{graph_dir}: {beside} ({graph_model.num_pdfs} pdfs) has other transitions than"
                f" {aligned} ({model.num_pdfs} pdfs); build the graph with that model, or align"
                " with this one"
            )
    arcs = len(graph.emitting.ilabel) + len(graph.epsilon.ilabel)
    return f"{len(graph.final)} states, {arcs} arcs, {model.num_pdfs} pdfs"


def _read_model(config: Config) -> tuple[Path, TransitionModel]:
    path = task_of(config).locate_model()
    return path, read_transition_model(path)


def _check_training(config: Config, open_pipe: OpenPipe | None, out: Path) -> Iterator[Check]:
    """Whether there are features, alignments, and room for what training writes."""
    if config.train.tensorboard:
        check_tensorboard()
    streams = _open_streams(config, "train", open_pipe)
    for name, features in streams.items():
        check_stream(name, features, features)  # directories with each other
    sizes = {name: features[features.utterances[0]].shape[1] for name, features in streams.items()}
    task = task_of(config)
    decoded, outputs = next(iter(task.weights)), _count_outputs(config, open_pipe)
    # Only the first head is as large as the model says; the others hardly count for the memory.
    heads = {**dict.fromkeys(task.weights, 1), decoded: outputs}
    with torch.device("meta"):  # counted, not made
        network = build_network(architecture(config.model, sizes, heads) | task.head_options)
    # A weight has 4 bytes.
    needed = CHECKPOINTS * 4 * sum(p.numel() for p in network.parameters())
    free = shutil.disk_usage(out).free
    if needed > free:
        raise InputError(
            f"{out.absolute()}: training writes about {format_gib(needed)}, but"
            f" {format_gib(free)} are free; free some space, or choose another --out"
        )
    values = sum(sizes.values())
    yield Check("training", "ok", f"{values} values for the network, {outputs} {decoded}")


def _count_outputs(config: Config, open_pipe: OpenPipe | None) -> int:
    """The number of outputs of the first head."""
    if task_of(config).labels.file:
        return next(iter(open_set(config, "train", open_pipe).targets.values())).size
    return _read_model(config)[1].num_pdfs


def _open_streams(config: Config, name: str, open_pipe: OpenPipe | None) -> dict[str, Features]:
    directories = stream_dirs(config, name, open_pipe)
    return {
        stream: features_of(at, config, stream, open_pipe) for stream, at in directories.items()
    }


def _check_forward(config: Config, open_pipe: OpenPipe | None, _: Path) -> Iterator[Check]:
    """Whether the utterances that are to be decoded have features as those of training."""
    trained = _open_streams(config, "train", open_pipe)
    for name in DECODED:
        directories = stream_dirs(config, name, open_pipe)
        for stream, data in directories.items():
            features = features_of(data, config, stream, open_pipe)
            check_stream(stream, features, trained[stream])
            gone = next((path for path in features.archives if not is_there(path)), None)
            if gone:
                table = features.directories[0] / "feats.scp"
                raise InputError(f"{gone}: {table} names it, but it is not there")
        lacking = report_lacking(directories, config.data.max_skipped)
        decoded = len(directories[FEATURES].utt2spk) - len(lacking)
        yield Check(f"{name} set", "ok", count_of(decoded, "utterance"))


def _check_decoding(config: Config, open_pipe: OpenPipe | None, _: Path) -> Iterator[Check]:
    if task_of(config).recogniser != "decode":
        return  # no graph is decoded with
    trouble = choose_decoder("embedded", Path(), "").find_trouble()
    if trouble:
        raise InputError(trouble)
    yield Check("graph", "ok", _check_graph(config))


def _check_references(config: Config, open_pipe: OpenPipe | None, _: Path) -> Iterator[Check]:
    """Whether each set that is decoded has the reference that its hypotheses are compared with."""
    recogniser = task_of(config).recogniser
    if recogniser == "forward":
        return  # nothing is scored
    if recogniser == "classify":
        yield from _check_classes(config, open_pipe)
        return
    for name in DECODED:
        if config.score.glm:
            stm = data_with_stm(config.data, name) / "stm"
            if not read_stm(stm):
                raise InputError(f"{stm} is empty; write the reference segments into it")
            read_glm(find_glm(config.score.glm, Path(config.data.dir)), "ref")
            yield Check(f"{name} reference", "ok", str(stm))
            continue
        data = data_dir(config, name, open_pipe)
        paths = [part.path / config.score.text for part in data.parts]
        for path in paths:
            if not is_there(path):
                raise InputError(f"{path} is missing: {name} is scored against it; write it")
        transcripts = read_texts(paths)
        lacking = [utt for utt in data.feats or {} if utt not in transcripts]
        if lacking:
            message = describe_lacking(data, lacking, config.score.text)
            raise InputError(f"{message}; write what they say, or take these utterances out")
        yield Check(f"{name} reference", "ok", " and ".join(map(str, paths)))
        if recogniser == "decode":
            reference = {word for words in transcripts.values() for word in words}
            yield from _check_spelling(f"{name} reference", reference, config)


def _check_spelling(name: str, reference: set[str], config: Config) -> Iterator[Check]:
    """Whether the graph has the words of a reference as they are spelled there."""
    with suppress(InputError, OSError):  # the stage of decoding says so
        words = locate(config.data.graph, config.data, "decoding graph") / "words.txt"
        for remark in describe_misspelt(reference, read_symbols(words).keys()):
            yield Check(name, "warning", f"{words}: {remark}")


def _check_classes(config: Config, open_pipe: OpenPipe | None) -> Iterator[Check]:
    """Whether the utterances that are to be scored have classes of the training set."""
    train = open_set(config, "train", open_pipe)
    for name in DECODED:
        labelled = open_set(config, name, open_pipe, like=train)
        yield Check(f"{name} reference", "ok", count_of(len(labelled.lengths), "utterance"))


def _check_report(config: Config, open_pipe: OpenPipe | None, _: Path) -> Iterator[Check]:
    missing = find_spec("matplotlib") is None
    message = "the report will lack its figures: pip install matplotlib" if missing else "drawn"
    yield Check("figures", "warning" if missing else "ok", message)


StageCheck = Callable[[Config, OpenPipe | None, Path], Iterator[Check]]
_STAGE_CHECKS: tuple[tuple[int, str, StageCheck], ...] = (
    (3, "training", _check_training),
    (4, "forward", _check_forward),
    (5, "graph", _check_decoding),
    (6, "references", _check_references),
    (7, "figures", _check_report),
)
