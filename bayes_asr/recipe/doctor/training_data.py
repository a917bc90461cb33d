"""Whether a training would start: the sets of a configuration, looked at in seconds."""

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import cast

import numpy as np
import torch

from bayes_asr.base.errors import count_of
from bayes_asr.config.schema import Config
from bayes_asr.config.training_keys import TrainConfig
from bayes_asr.data.corpus.directories import features_of, stream_dirs
from bayes_asr.data.corpus.labelled import Features, LabelledSet, check_speakers
from bayes_asr.data.corpus.sets import training_and_dev
from bayes_asr.data.features.front_end import FEATURES, describe_stream
from bayes_asr.kaldi_io.byte_reader import OpenPipe
from bayes_asr.nn.layer import Layer
from bayes_asr.nn.network import build_network
from bayes_asr.recipe.doctor.check import (
    CHECKPOINTS,
    HERE,
    LEAST_FREE,
    Check,
    collect_messages,
    describe_lacking,
    format_gib,
)
from bayes_asr.tasks.task import task_of
from bayes_asr.train.components import (
    architecture,
    choose_device,
    choose_precision,
    explain_precision,
    plan_network,
)
from bayes_asr.train.transfer import initialize_from

SAMPLE = 10  # utterances of a set that are read
UPDATED = 5  # what is held of each weight: itself, its gradient, two moments, a temporary
VALUES_PER_UNIT = 16  # and frame, until the backward pass: measured with lstm; li-bru takes 10


def check_corpus(
    config: Config, open_pipe: OpenPipe | None = None, out: Path = HERE
) -> list[Check]:
    """The sets of a configuration, as training, forward and decoding will find them.

    out: an existing folder on the disk that a run would be written to.
    """
    checks: list[Check] = []
    with collect_messages(checks, "training data", blocking=True):
        task, streams = (
            task_of(config),
            dict.fromkeys((FEATURES, *config.data.train.stream_names), 1),
        )
        # The first look builds with sizes of 1, which finds mistakes before any data is read.
        architecture(config.model, streams, dict.fromkeys(task.weights, 1))
        train, dev = training_and_dev(config, open_pipe)
        training = task.training()
        train, dev = training.declare(train), training.declare(dev)
        plan = plan_network(config, train)
        heads = plan["heads"]
        for name, data in (("train", train), ("dev", dev)):
            checks.append(Check(name, "ok", _describe(data, heads)))
        checks.append(_check_precision(config.train))
        checks += _estimate_resources(config, train, dev, out)
        if config.train.init_from:
            initialize_from(config.train.init_from, build_network(plan), train)
    for name in ("train", "dev", "test"):
        with collect_messages(checks, f"{name} set"):
            checks.extend(_check_set(config, name, open_pipe))
    return checks


def _check_precision(options: TrainConfig) -> Check:
    """Check the precision that products will be computed in."""
    precision = choose_precision(options.precision, choose_device(options.device))
    if precision != options.precision:
        return Check("precision", "warning", explain_precision(options.precision))
    return Check("precision", "ok", f"products are computed in {precision}")


def _describe(data: LabelledSet, heads_read: Iterable[str]) -> str:
    """Read some utterances, and count all; their headers were compared with the alignments."""
    sample = _pick_spread(list(data.lengths))
    shapes = {sum(x.shape[1] for x in data.prepare(utt).values()) for utt in sample}
    dimensions = " + ".join(str(features.dimensions) for features in data.streams.values())
    heads = ", ".join(f"{data.targets[name].size} {name}" for name in heads_read)
    return (
        f"{count_of(len(data.lengths), 'utterance')}, {sum(data.lengths.values())} frames,"
        f" {dimensions} dimensions ({shapes.pop()} for the network), {heads};"
        f" {count_of(len(sample), 'utterance')} read"
    )


def _check_set(config: Config, name: str, open_pipe: OpenPipe | None) -> Iterator[Check]:
    """Check what the utterances of a set have, and whether forward would read them all."""
    directories = stream_dirs(config, name, open_pipe)
    data = directories[FEATURES]
    streams = {
        stream: features_of(directory, config, stream, open_pipe)
        for stream, directory in directories.items()
    }
    counts = [count_of(len(data.utt2spk), "utterance")]
    tables = {
        describe_stream(stream): directory.feats or {} for stream, directory in directories.items()
    }
    for what, table in {**tables, "text": data.text or {}}.items():
        missing = [utt for utt in data.utt2spk if utt not in table]
        counts.append(f"{len(data.utt2spk) - len(missing)} with {what}")
        if missing:
            yield Check(f"{name} set", "warning", describe_lacking(data, missing, what))
    sample = _pick_spread(streams[FEATURES].utterances)
    for stream, features in streams.items():
        _check_headers(streams, stream)
        for utt in sample:
            if utt in features:
                # Reading raises for what is wrong; the value itself is not needed.
                features[utt]
    counts.append(f"all headers and {len(sample)} matrices read")
    yield Check(f"{name} set", "ok", ", ".join(counts))


def _check_headers(streams: Mapping[str, Features], name: str) -> None:
    """InputError where a stream says other widths, speakers or lengths than it should, by headers
    alone.
    """
    reference, features = next(iter(streams.values())), streams[name]
    if features is not reference:
        check_speakers(reference, features, reference)
    for utt in features.utterances:
        # A pipe has no header: it passes here and is checked when it is read.
        frames, columns = features.read_shape(utt) or (1, features.dimensions)
        if not frames or columns != features.dimensions:
            features.refuse_shape(utt, frames, columns)
        shape = (
            reference.read_shape(utt) if features is not reference and utt in reference else None
        )
        if shape and not features.front_end.fits(frames, shape[0]):
            features.refuse_frames(name, utt, frames, reference, shape[0])


def _estimate_resources(
    config: Config, train: LabelledSet, dev: LabelledSet, out: Path
) -> Iterator[Check]:
    """Estimates of the memory and the disk that a training takes, against what is free."""
    plan = plan_network(config, train)
    outputs = plan["heads"]
    with torch.device("meta"):  # counted, not made
        model = build_network(plan)
    weights = 4 * sum(p.numel() for p in model.parameters())
    of_epochs = config.train.batch_sequences
    sequences = max(of_epochs.values()) if isinstance(of_epochs, Mapping) else of_epochs
    # The largest batch has the longest utterances, as many as fit by either limit.
    longest = sorted(train.lengths.values())[-sequences:]
    frames = max(longest[-1], min(sum(longest), config.train.batch_frames))
    values = VALUES_PER_UNIT * sum(cast(Layer, layer).max_width for layer in model.layers)
    # Each output is held three times: its value, its gradient and a temporary.
    needed = UPDATED * weights + 4 * frames * (values + 3 * sum(outputs.values()))
    free = _find_free_memory()
    yield Check(
        "memory",
        "warning" if free is not None and needed > free else "ok",
        f"about {format_gib(needed)} for {weights // 4} parameters and a batch of {frames} frames,"
        f" beside the program; {'unknown' if free is None else format_gib(free)} free",
    )
    # Log-likelihoods are float32, a value for each frame and pdf.
    written = CHECKPOINTS * weights + 4 * outputs.get("pdfs", 0) * sum(dev.lengths.values())
    free_disk = shutil.disk_usage(out).free
    yield Check(
        "disk",
        "warning" if written + LEAST_FREE > free_disk else "ok",
        f"about {format_gib(written)} for checkpoints and the log-likelihoods of dev;"
        f" {format_gib(free_disk)} free in {out.absolute()}",
    )


def _find_free_memory() -> int | None:
    """Bytes of the device that a training would use."""
    if torch.cuda.is_available():
        return int(torch.cuda.mem_get_info()[0])
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return None


def _pick_spread(utterances: list[str]) -> list[str]:
    """Some utterances from the beginning to the end."""
    places = np.linspace(0, len(utterances) - 1, min(SAMPLE, len(utterances)))
    return [utterances[place] for place in places.round().astype(int)]
