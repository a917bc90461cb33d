"""Activations of each speaker: what a trained network may adapt of itself to a voice.

Zhang & Woodland (2015) have their parameters speaker-independent and dependent. Here the network is
trained for all; then the parameters of its activations, and nothing else, go on to be trained on
the utterances of one speaker, with labels that may come of a first pass over them.
"""

from collections import defaultdict

import torch
from torch import Tensor

from bayes_asr.corpus.labelled import LabelledSet
from bayes_asr.errors import InputError
from bayes_asr.log import LOGGER
from bayes_asr.nn.criteria import cross_entropy
from bayes_asr.nn.frames import say_stride
from bayes_asr.nn.network import AcousticModel
from bayes_asr.runs.trained_network import TrainedNetwork
from bayes_asr.train.batch import Batch, Loader


def check_adaptable(model: AcousticModel) -> None:
    """InputError for a network that learns no labels of frames, or has no such parameters."""
    model.check_frames_labelled()
    if model.output_stride > 1:
        raise InputError(
            f"this network has outputs of {say_stride(model.output_stride)}, and no labels of"
            " frames to adapt to; take one of cross entropy"
        )
    if not model.activation_parameters:
        raise InputError(
            "the activations of this network have no parameters that a speaker could have of his"
            " own; train one with model.activation p-sigmoid or p-relu"
        )


def adapt(
    network: TrainedNetwork, data: LabelledSet, *, steps: int, learning_rate: float
) -> dict[str, dict[str, Tensor]]:
    """Values of the network's activation parameters for each speaker of a set, by their names.

    steps: of Adam, each on all utterances of the speaker that have labels. The network computes as
    in evaluation, and is left as it was; it is one that `check_adaptable` lets pass.
    """
    model = network.model
    parameters = model.activation_parameters
    own = {name: parameter.detach().clone() for name, parameter in parameters.items()}
    model.eval().requires_grad_(False)
    utterances = defaultdict(list)
    for utt in data.lengths:
        utterances[data.features.speakers[utt]].append(utt)
    load = Loader(data, network.front_ends, model.outputs[:1], seed=0, epoch=1)
    found = {}
    for speaker, some in utterances.items():
        losses = _descend(model, load(some), steps, learning_rate)
        found[speaker] = {name: p.detach().clone() for name, p in parameters.items()}
        model.take_activations(own)
        said = (speaker, len(some), steps, losses[0], losses[-1])
        LOGGER.info("%s: %d utterances; in %d steps the loss went from %.3f to %.3f", *said)
    model.requires_grad_(True)
    return found


def _descend(model: AcousticModel, batch: Batch, steps: int, learning_rate: float) -> list[float]:
    """Train the activations on one batch; returns the loss before each step, and after the last."""
    parameters = [p.requires_grad_() for p in model.activation_parameters.values()]
    optimizer = torch.optim.Adam(parameters, learning_rate)
    losses = []
    for step in range(steps + 1):
        logits = model(batch.streams, batch.frames)[model.outputs[0]]
        loss = cross_entropy(logits, batch.targets[model.outputs[0]], batch.frames.count).mean
        losses.append(loss.item())
        if step < steps:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return losses
