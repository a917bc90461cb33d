"""Networks of this toolkit for benchmarks, made as a configuration makes them."""

from collections.abc import Sequence

from bayes_asr.config.merge import load
from bayes_asr.data.features.front_end import FEATURES
from bayes_asr.nn.network import AcousticModel
from bayes_asr.train.components import architecture

HEADS = ("pdfs", "monophones")


def make_network(
    inputs: int, outputs: Sequence[int], unit: str, layers: int, units: int, **options: object
) -> AcousticModel:
    """A network with random weights; options: keys of the section `model`.

    unit: its name, and more such keys after commas: `lstm,peepholes=true`.
    """
    unit, *pairs = unit.split(",")
    named = dict(pair.split("=") for pair in pairs)
    keys = {"unit": unit, "layers": layers, "units": units, **options, **named}
    model = load([], [f"model.{key}={str(value).lower()}" for key, value in keys.items()]).model
    heads = dict(zip(HEADS, outputs, strict=False))
    return AcousticModel(**architecture(model, {FEATURES: inputs}, heads))
