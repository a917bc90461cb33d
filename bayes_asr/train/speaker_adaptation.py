"""Adaptation to speakers: activation parameters of each speaker.

Zhang & Woodland (2015) have their parameters speaker-independent and dependent. Here the network is
trained for all, or with parameters of each training speaker (`nn/speakers.py`); then the parameters
of its activations, and nothing else, go on to be trained on the utterances of one speaker, with
labels that may come of a first pass over them.
"""

from collections import defaultdict

from torch import Tensor

from bayes_asr.base.errors import InputError, name_some
from bayes_asr.base.log import LOGGER
from bayes_asr.data.corpus.labelled import LabelledSet
from bayes_asr.nn.criteria import cross_entropy
from bayes_asr.nn.frames import describe_stride
from bayes_asr.nn.network import AcousticModel
from bayes_asr.nn.speakers import SpeakerActivations
from bayes_asr.train.batch import Batch
from bayes_asr.train.loader import Loader
from bayes_asr.train.optimizers import Adam
from bayes_asr.train.runs.trained_network import TrainedNetwork


def check_adaptable(model: AcousticModel) -> None:
    """InputError for a network that learns no labels of frames, or has no such parameters."""
    model.check_frames_labelled()
    if model.output_stride > 1:
        raise InputError(
            f"this network has outputs of {describe_stride(model.output_stride)}, and no labels of"
            " frames to adapt to; take one of cross entropy"
        )
    _check_parameters(model, "adapt")


def add_speaker_activations(model: AcousticModel, data: LabelledSet) -> SpeakerActivations:
    """Give each speaker of a training set activations of his own, in place of the model's.

    InputError where activations have no parameters. Who has no utterance to train on is named.
    """
    _check_parameters(model, "train.speaker_adaptive")
    utterances = _group_by_speaker(data)
    LOGGER.info("speaker-adaptive: %d speakers have activations of their own", len(utterances))
    return SpeakerActivations(model, sorted(utterances))


def adapt(
    network: TrainedNetwork, data: LabelledSet, *, steps: int, learning_rate: float
) -> dict[str, dict[str, Tensor]]:
    """Adapt the activation parameters of a network to each speaker of a set; returns their values.

    steps: of Adam, each on all utterances of the speaker that have labels. The network computes as
    in evaluation, and is left as it was; it is one that `check_adaptable` lets pass.
    """
    model = network.model
    parameters = model.activation_parameters
    initial = {name: parameter.detach().clone() for name, parameter in parameters.items()}
    model.eval().requires_grad_(False)
    # One batch has all utterances of a speaker; noise and changes of tempo are off by default.
    load = Loader(data, network.front_ends, model.outputs[:1], seed=0, epoch=1)
    adapted = {}
    for speaker, utterances in _group_by_speaker(data).items():
        losses = _train_activations(model, load(utterances), steps, learning_rate)
        adapted[speaker] = {name: p.detach().clone() for name, p in parameters.items()}
        model.set_activations(initial)  # each speaker begins with the parameters of the network
        message = (speaker, len(utterances), steps, losses[0], losses[-1])
        LOGGER.info("%s: %d utterances; in %d steps the loss went from %.3f to %.3f", *message)
    model.requires_grad_(True)
    return adapted


def _check_parameters(model: AcousticModel, option: str) -> None:
    """InputError, which names the option, for a network without activation parameters."""
    if not model.activation_parameters:
        raise InputError(
            f"{option}: the activations of this network have no parameters that a speaker could"
            " have of his own; train one with model.activation p-sigmoid or p-relu"
        )


def _group_by_speaker(data: LabelledSet) -> dict[str, list[str]]:
    """The labelled utterances of each speaker; speakers of the tables who have none are named."""
    speaker_of = data.features.speakers
    utterances: dict[str, list[str]] = defaultdict(list)
    for utt in data.lengths:
        utterances[speaker_of[utt]].append(utt)
    if unlabelled := sorted(set(speaker_of.values()) - utterances.keys()):
        LOGGER.warning(
            "%d of %d speakers have no utterance with labels to train on, and so no activations of"
            " their own: %s",
            len(unlabelled),
            len(unlabelled) + len(utterances),
            name_some(unlabelled),
        )
    return utterances


def _train_activations(
    model: AcousticModel, batch: Batch, steps: int, learning_rate: float
) -> list[float]:
    """Train the activations on one batch; returns the loss before each step, and after the last."""
    parameters = [p.requires_grad_() for p in model.activation_parameters.values()]
    optimizer = Adam(parameters, lr=learning_rate)
    losses = []
    for step in range(steps + 1):
        logits = model(batch.streams, batch.frames)[model.outputs[0]]
        loss = cross_entropy(logits, batch.targets[model.outputs[0]], batch.frames.count).mean
        losses.append(loss.item())
        if step < steps:  # the last pass only measures the loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return losses
