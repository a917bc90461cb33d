"""`model.stack`: named layers, each with the options of its kind."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeVar, get_type_hints

from bayes_asr.base.errors import InputError, nearest
from bayes_asr.config.values import convert, describe, list_choices

NAME = re.compile(r"[A-Za-z0-9_-]+")
Options = TypeVar("Options")
Complete = Callable[[str, Mapping[str, Any]], dict[str, Any]]
"""(a kind, the options that a layer gives) -> all options of the layer."""


@dataclass(frozen=True, kw_only=True)
class LayerInputs:
    """The inputs of a layer, and the way in which several of them are joined.

    reads: streams and layers before it; empty: the layer before, or all streams. join: `concat`,
    one beside the other, or `sum`. residual: what is read is added to the outputs.
    """

    reads: tuple[str, ...] = ()
    join: Literal["concat", "sum"] = "concat"
    residual: bool = False


@dataclass(frozen=True, kw_only=True)
class StackLayer:
    """A layer of a stack, with all the options of its kind (`catalogue.LAYERS`)."""

    name: str
    kind: str
    place: LayerInputs
    options: Mapping[str, Any]


def read_stack(
    stack: Sequence[Mapping[str, Any]], kinds: Collection[str], complete_options: Complete
) -> list[StackLayer]:
    """The layers, of these kinds, that a configuration describes; InputError names the one that is
    wrong.
    """
    layers: list[StackLayer] = []
    for number, described in enumerate(stack):
        name, kind = described.get("name"), described.get("kind")
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise InputError(
                f"model.stack has name {name} for layer {number + 1}; give it one of letters,"
                " digits, _ and -, as {name: front, ...}"
            )
        if name in [layer.name for layer in layers]:
            raise InputError(f"model.stack has two layers {name}; give one of them another name")
        if not isinstance(kind, str) or kind not in kinds:
            raise InputError(
                f"model.stack has layer {name} of kind {kind}; kinds: {', '.join(kinds)}"
                f"{nearest(kind, kinds)}"
            )
        try:
            layers.append(_read_layer(name, kind, described, complete_options))
        except InputError as error:
            message = str(error).removeprefix("model.")
            raise InputError(f"model.stack layer {name} ({kind}): {message}") from None
    return layers


def _read_layer(
    name: str, kind: str, described: Mapping[str, Any], complete_options: Complete
) -> StackLayer:
    options = {key: value for key, value in described.items() if key not in ("name", "kind")}
    # Inputs are options of any kind, so they are taken out before the kind checks its own.
    placed = {key: options.pop(key) for key in get_type_hints(LayerInputs) if key in options}
    place = complete(LayerInputs(), placed)
    # A stream that is read twice would only double its columns.
    if len(set(place.reads)) < len(place.reads):
        raise InputError(f"reads {', '.join(place.reads)}, one of them twice; name it once")
    return StackLayer(name=name, kind=kind, place=place, options=complete_options(kind, options))


def complete(
    defaults: Options, options: Mapping[str, Any], without: Collection[str] = ()
) -> Options:
    """A section with the values that are given in place of its own; InputError for bad ones.

    without: keys of the section that are not given here.
    """
    hints = get_type_hints(type(defaults), include_extras=True)
    names = [f.name for f in fields(defaults) if f.name not in without]  # type: ignore[arg-type]
    values = {}
    for key, value in options.items():
        if key not in names:
            about = (*names, *(f.name for f in fields(LayerInputs)))
            advice = nearest(key, about)
            raise InputError(f"there is no option {key}; its options: {', '.join(names)}{advice}")
        try:
            values[key] = convert(hints[key], value)
        except ValueError:
            raise InputError(
                f"{key} is {value!r}; it must be {describe(hints[key])}"
                f"{nearest(value, list_choices(hints[key]))}"
            ) from None
    return replace(defaults, **values)  # type: ignore[type-var]
