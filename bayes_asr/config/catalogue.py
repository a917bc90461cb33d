"""The catalogue of units, layers, criteria, optimizers and schedules that a configuration names.

A newcomer is a class or function in its own room and a line here. Nothing is imported until it is
built, so that a configuration is checked without torch.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from bayes_asr.base.errors import InputError, nearest

PARAMETERS = {"p-sigmoid": ("eta", "gamma", "theta"), "p-relu": ("alpha", "beta")}
"""Activations with parameters that may be trained, and these."""

FIXED = ("tanh", "sigmoid", "relu", "softplus", "leaky-relu", "elu", "linear")
"""Activations without parameters, which every layer can have."""

ACTIVATIONS = (*FIXED, *PARAMETERS)
"""What `activation` of a unit may be."""


DROPPED = ("zero", "half", "mean")
"""What a dropped candidate of a unit that computes logarithms may be, that of the papers first."""

UNIT_OPTIONS = (
    "form",
    "activation",
    "activation_trains",
    "peepholes",
    "cells_per_block",
    "transitions",
    "input_gate",
    "smooth",
    "dropped_candidate",
)
"""Options that some units have and others have not."""


@dataclass(frozen=True)
class UnitKind:
    """A unit and the options that it has.

    cell: its class; forms: classes by the name of the form, that of the paper first; transitions:
    classes by what gives the probabilities of a Markov chain, the default first; activations,
    peepholes, input_gate, smooth, dropped: the values of these options, the default first; none
    where it has no such option. blocks: its class where several memory cells share gates; empty:
    they cannot.
    probabilistic: whether it computes probabilities, which it can hand on.
    """

    cell: str
    forms: Mapping[str, str] = field(default_factory=dict)
    activations: tuple[str, ...] = ()
    peepholes: tuple[bool, ...] = ()
    transitions: Mapping[str, str] = field(default_factory=dict)
    input_gate: tuple[bool, ...] = ()
    smooth: tuple[bool, ...] = ()
    dropped: tuple[str, ...] = ()
    blocks: str = ""
    probabilistic: bool = False

    @property
    def options(self) -> dict[str, tuple[Any, ...]]:
        """The values of each option but `activation_trains`, the default first."""
        options = {
            "form": tuple(self.forms),
            "activation": self.activations,
            "peepholes": self.peepholes,
            "transitions": tuple(self.transitions),
            "input_gate": self.input_gate,
            "smooth": self.smooth,
            "dropped_candidate": self.dropped,
        }
        return {name: values for name, values in options.items() if values}


@dataclass(frozen=True)
class ScheduleKind:
    """A schedule of the learning rate.

    function: where it is; open_ended: whether it does not depend on how many epochs there will be,
    so that epochs may be added to a run.
    """

    function: str
    open_ended: bool = False


FRAMES_TASK = "tasks.task:FramesTask"

UTTERANCE_TASKS = {
    "classes": "tasks.utterances.task:ClassesTask",
    "sequences": "tasks.utterances.task:SequencesTask",
}
"""Tasks of utterances by the key of `data` that names a file with their labels."""


@dataclass(frozen=True)
class CriterionKind:
    """A criterion that training minimises.

    function: where it is; task: the class of what is learnt by it.
    """

    function: str
    task: str = FRAMES_TASK


@dataclass(frozen=True)
class OptimizerKind:
    """An optimizer.

    function: where it is; options: the keys of `train` that it has, beside those of all.
    """

    function: str
    options: tuple[str, ...]


EXTERNAL = re.compile(r"[A-Za-z_]\w*:[A-Za-z_]\w*", re.ASCII)
"""The name MODULE:CLASS of a unit outside the package, which has no options of those here."""


def _list_activations(default: str) -> tuple[str, ...]:
    """All activations, one of them first."""
    # The first is the default, and dict.fromkeys keeps the first of equal names.
    return tuple(dict.fromkeys((default, *ACTIVATIONS)))


UNITS = {
    "rnn": UnitKind("nn.units.conventional:RNN", activations=_list_activations("tanh")),
    "bru": UnitKind(
        "nn.units.bayesian:BRU",
        forms={
            "prob": "nn.units.bayesian:BRU",
            "log": "nn.units.bayesian:LogBRU",
            "complement": "nn.units.bayesian:ComplementBRU",
        },
        dropped=DROPPED,
        probabilistic=True,
    ),
    "li-bru": UnitKind(
        "nn.units.bayesian:LiBRU",
        forms={
            "prob": "nn.units.bayesian:LiBRU",
            "log": "nn.units.bayesian:LogLiBRU",
            "geometric": "nn.units.bayesian:GeometricLiBRU",
            "harmonic": "nn.units.bayesian:HarmonicLiBRU",
            "own-gate": "nn.units.bayesian:OwnGateLiBRU",
        },
        dropped=DROPPED,
        probabilistic=True,
    ),
    "li-gru": UnitKind("nn.units.conventional:LiGRU", activations=_list_activations("relu")),
    "gru": UnitKind("nn.units.conventional:GRU", activations=_list_activations("tanh")),
    "torch-gru": UnitKind("nn.units.conventional:TorchGRU"),
    "lstm": UnitKind(
        "nn.units.conventional:LSTM",
        peepholes=(False, True),
        blocks="nn.units.conventional:BlockLSTM",
    ),
    "torch-lstm": UnitKind("nn.units.conventional:TorchLSTM"),
    "mgu": UnitKind("nn.units.conventional:MGU", activations=_list_activations("tanh")),
    "minimal-gru": UnitKind(
        "nn.units.conventional:MinimalGRU", activations=_list_activations("tanh")
    ),
    "ubru": UnitKind(
        "nn.units.unitwise:UBRU",
        transitions={
            "trained": "nn.units.unitwise:UBRU",
            "from-input": "nn.units.unitwise:GatedUBRU",
            "context": "nn.units.unitwise:ContextUBRU",
        },
        input_gate=(False, True),
        smooth=(False, True),
        probabilistic=True,
    ),
    "mlp": UnitKind(
        "nn.units.conventional:MLP", activations=(*_list_activations("tanh"), "log-softmax")
    ),
}

LAYERS = {
    "recurrent": "nn.recurrent:RecurrentLayer",
    "mlp": "nn.recurrent:FeedForwardLayer",
    "conv1d": "nn.convolution:Convolution1d",
    "conv2d": "nn.convolution:Convolution2d",
    "sinc": "nn.sinc:SincLayer",
    "projection": "nn.pointwise:Projection",
    "norm": "nn.pointwise:NormLayer",
    "dropout": "nn.pointwise:Dropout",
    "pool": "nn.pooling:Pool",
    "segments": "nn.segments:SegmentLayer",
}
GPU_PATHS = {
    "eager": "",
    "graph": "bayes_asr.nn.kernels.cuda.graph",  # torch's operations as a CUDA graph
    "triton": "bayes_asr.nn.kernels.triton.recurrence",  # kernels of time steps
    "cudnn": "bayes_asr.nn.kernels.cuda.cudnn",  # torch.nn.LSTM and torch.nn.GRU
}
"""The module that `nn/kernels/dispatch.py` asks first on a GPU, if any."""

ON_DEMAND = {
    "gpu_path": "train.gpu_paths:take_path",
    "init_from": "train.transfer:initialize_from",
    "pretrain": "train.pretraining:plan_pretraining",
    "speaker_adaptive": "train.speaker_adaptation:add_speaker_activations",
}
"""Functions that prepare a training where these keys of `train` ask for it."""

OF_LATTICES = ("mmi", "bmmi", "mpe", "smbr")
"""Criteria on lattices."""

CRITERIA = {
    "cross-entropy": CriterionKind("nn.criteria:CrossEntropy"),
    # One class computes all criteria on lattices, and its options tell them apart.
    **dict.fromkeys(
        OF_LATTICES,
        CriterionKind(
            "tasks.lattices.criterion:LatticeCriterion", "tasks.lattices.task:LatticesTask"
        ),
    ),
    "lfmmi": CriterionKind(
        "tasks.chain.training:LatticeFreeCriterion", "tasks.chain.task:ChainTask"
    ),
}
OPTIMIZERS = {
    "adam": OptimizerKind("train.optimizers:adam", ("betas", "epsilon", "amsgrad")),
    # Its weight decay is part of the gradient; that of `adam` is apart (AdamW).
    "adam-l2": OptimizerKind("train.optimizers:adam_l2", ("betas", "epsilon", "amsgrad")),
    "rmsprop": OptimizerKind(
        "train.optimizers:rmsprop", ("alpha", "epsilon", "momentum", "centered")
    ),
    "sgd": OptimizerKind("train.optimizers:sgd", ("momentum", "dampening", "nesterov")),
}
SCHEDULES = {
    "newbob": ScheduleKind("train.schedules:newbob", open_ended=True),
    "cosine": ScheduleKind("train.schedules:cosine"),
    "linear": ScheduleKind("train.schedules:linear"),
    "list": ScheduleKind("train.schedules:by_list", open_ended=True),
}


def find(where: str) -> Any:
    """Import what stands at `module:name` below this package."""
    # Names are imported when they are used: the catalogue itself needs no torch.
    module, _, name = where.partition(":")
    return getattr(import_module(f"bayes_asr.{module}"), name)


def check_unit(name: str, options: Mapping[str, Any]) -> UnitKind:
    """Return the unit of this name; InputError unless it is there and has options of these values.

    options: those of UNIT_OPTIONS that are given. The message begins with the one that is wrong.
    """
    if name not in UNITS and not EXTERNAL.fullmatch(name):
        raise InputError(f"unit is {name}; known units: {', '.join(UNITS)}{nearest(name, UNITS)}")
    # Whether one of the user's own computes probabilities, its class says.
    unit = UNITS.get(name) or UnitKind(name, probabilistic=True)
    for option, value in options.items():
        if option == "activation_trains" and unit.activations:
            check_trained(options.get("activation", unit.activations[0]), value)
        elif option == "form":
            _check_form(name, unit, value)
        elif option == "cells_per_block":
            _check_blocks(name, unit, value)
        else:
            _check_value(name, unit, option, value)
    return unit


def _check_form(name: str, unit: UnitKind, form: str) -> None:
    if form not in unit.forms:
        advice = f"its forms are {', '.join(unit.forms)}" if unit.forms else "it has one form only"
        raise InputError(f"form of {name} is {form}; {advice}")


def _check_blocks(name: str, unit: UnitKind, cells: int) -> None:
    if cells > 1 and not unit.blocks:
        having = ", ".join(unit_name for unit_name, entry in UNITS.items() if entry.blocks)
        raise InputError(
            f"cells_per_block is {cells}, but {name} has no memory cells that could share gates; it"
            f" is of {having}"
        )


def _check_value(name: str, unit: UnitKind, option: str, value: Any) -> None:
    if option not in unit.options:
        choices = ", ".join(unit.options) or "none"
        raise InputError(f"{option} is {value}, but {name} has no {option}; its options: {choices}")
    values = unit.options[option]
    if value not in values:
        choices = ", ".join(map(str, values))
        raise InputError(f"{option} is {value}; known: {choices}{nearest(value, values)}")


def check_trained(activation: str, trains: Iterable[str]) -> None:
    """InputError for parameters to train that an activation does not have."""
    parameters = PARAMETERS.get(activation, ())
    unknown = sorted(set(trains) - set(parameters))
    if unknown and not parameters:
        raise InputError(
            f"activation_trains has {', '.join(unknown)}, but activation {activation} has no"
            " parameters that could be trained"
        )
    if unknown:
        raise InputError(
            f"activation_trains has {', '.join(unknown)}; known here: {', '.join(parameters)}"
        )
