"""Activations of several speakers in one network, against networks of one speaker each."""

from typing import Any

import pytest
import torch
from torch import Tensor

from bayes_asr.base.errors import InputError
from bayes_asr.nn.frames import pack
from bayes_asr.nn.network import AcousticModel
from bayes_asr.nn.speakers import SpeakerActivations, set_speakers
from tests.support.nn_units import acoustic_model, pdf_logits

SPOKEN = (1, 0, 1, 2)  # who speaks each of the sequences
LENGTHS = (3, 5, 1, 4)
NETWORKS: list[dict[str, Any]] = [
    {"unit": "mlp", "options": {"activation": "p-sigmoid"}},
    {"unit": "mlp", "options": {"activation": "p-sigmoid", "activation_trains": ["eta"]}},
    {"unit": "mlp", "options": {"activation": "p-relu"}},
    {"unit": "mlp", "options": {"activation": "p-relu", "activation_trains": ["alpha"]}},
    {"unit": "rnn", "options": {"activation": "p-sigmoid"}, "tied_directions": True},
    {"unit": "li-gru", "options": {"activation": "p-relu"}},
]


def build(options: dict[str, Any]) -> AcousticModel:
    """In double precision; none of its activations has the values that all begin with."""
    torch.manual_seed(1)
    model = acoustic_model(3, (4,), units=(5, 4), norm="none", dropout=0.0, **options).double()
    for parameter in model.activation_parameters.values():
        parameter.data += 0.2 * torch.randn_like(parameter)
    return model


def sequences() -> list[Tensor]:
    torch.manual_seed(2)
    return [torch.randn(length, 3, dtype=torch.float64) for length in LENGTHS]


def loss_of(model: AcousticModel, speakers: tuple[int, ...] | None, some: list[Tensor]) -> Tensor:
    """A sum over all outputs, in which each is weighed differently."""
    x_NF, frames, order = pack(some)
    told = None if speakers is None else torch.tensor(speakers)[order]
    set_speakers(model, told, frames)
    logits = pdf_logits(model, x_NF, frames)
    weights = torch.cos(x_NF.sum(1, keepdim=True) + torch.arange(logits.shape[1]))
    return (weights * logits.log_softmax(1)).sum()


def differentiate(model: AcousticModel, loss: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    """The gradients of the activations' parameters, by name, and that of the head's weights."""
    own = model.activation_parameters
    weight = dict(model.named_parameters())["heads.0.weight"]
    *found, of_head = torch.autograd.grad(loss, [*own.values(), weight])
    return dict(zip(own, found, strict=True)), of_head


def differ(options: dict[str, Any]) -> tuple[AcousticModel, list[dict[str, Tensor]]]:
    """A network whose three speakers have different values, and these."""
    model = build(options)
    SpeakerActivations(model, ["a", "b", "c"])
    for parameter in model.activation_parameters.values():
        parameter.data += 0.1 * torch.randn_like(parameter)
    own = model.activation_parameters
    return model, [{name: p.data[number] for name, p in own.items()} for number in range(3)]


@pytest.mark.parametrize("options", NETWORKS)
def test_each_speaker_is_computed_and_trained_as_in_a_network_of_his_own(
    options: dict[str, Any],
) -> None:
    model, values = differ(options)
    together = loss_of(model, SPOKEN, sequences())
    gradients, of_head = differentiate(model, together)
    total, shared = torch.zeros_like(together), torch.zeros_like(of_head)
    for number, own in enumerate(values):
        alone = build(options)
        alone.set_activations(own)
        his = [x for x, speaker in zip(sequences(), SPOKEN, strict=True) if speaker == number]
        loss = loss_of(alone, None, his)
        expected, of_his = differentiate(alone, loss)
        total, shared = total + loss, shared + of_his
        for name, gradient in expected.items():
            torch.testing.assert_close(gradients[name][number], gradient, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(together, total, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(of_head, shared, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("options", NETWORKS)
def test_gradients_are_those_of_differences(options: dict[str, Any]) -> None:
    model, _ = differ(options)
    gradients, _ = differentiate(model, loss_of(model, SPOKEN, sequences()))
    step = 1e-6
    for name, parameter in model.activation_parameters.items():
        direction = torch.randn_like(parameter)
        around = []
        for sign in (1, -1):
            parameter.data += sign * step * direction
            around.append(loss_of(model, SPOKEN, sequences()).detach())
            parameter.data -= sign * step * direction
        slope = (around[0] - around[1]) / (2 * step)
        expected = (gradients[name] * direction).sum()
        torch.testing.assert_close(slope, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("options", NETWORKS)
def test_one_speaker_alone_is_the_plain_network(options: dict[str, Any]) -> None:
    plain, model = build(options), build(options)
    speakers = SpeakerActivations(model, ["a"])
    for each, told in ((plain, None), (model, (0,) * len(LENGTHS))):
        optimizer = torch.optim.SGD(each.parameters(), lr=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            loss_of(each, told, sequences()).backward()
            optimizer.step()
    content = speakers.content()
    for key, value in plain.state_dict().items():
        torch.testing.assert_close(content["model"][key], value, rtol=0, atol=1e-12)
    unknown = loss_of(model, None, sequences())
    torch.testing.assert_close(unknown, loss_of(plain, None, sequences()), rtol=0, atol=1e-12)


def test_who_is_unknown_is_computed_by_the_mean() -> None:
    model, values = differ(NETWORKS[0])
    mean = build(NETWORKS[0])
    names = values[0].keys()
    mean.set_activations({name: torch.stack([v[name] for v in values]).mean(0) for name in names})
    found = loss_of(model, None, sequences())
    torch.testing.assert_close(found, loss_of(mean, None, sequences()), rtol=0, atol=1e-12)


def test_other_speakers_than_before_are_refused() -> None:
    content = SpeakerActivations(build(NETWORKS[0]), ["a", "b"]).content()
    other = SpeakerActivations(build(NETWORKS[0]), ["a", "c"])
    with pytest.raises(InputError, match="2 speakers, but these data have 2, b in one of the two"):
        other.restore(content)
