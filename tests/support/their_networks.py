"""pytorch-kaldi's networks: their weights, made up, and their equations, written a second time.

The equations are those of its neural_networks.py, frame by frame, in evaluation. `their_class` is
the original, where PYTORCH_KALDI names a clone.
"""

import importlib
import os
import sys
import types
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import conv1d, max_pool1d

GATES = {
    "liGRU": ("wh", "wz"),
    "GRU": ("wh", "wz", "wr"),
    "minimalGRU": ("wh", "wz"),
    "RNN": ("wh",),
    "LSTM": ("wfx", "wix", "wox", "wcx"),
}
"""By class: what its feed-forward weights are called."""
PREFIX = {"liGRU": "ligru", "GRU": "gru", "minimalGRU": "minimalgru", "RNN": "rnn", "LSTM": "lstm"}
ACTIVATION = {"relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid}
INPUTS, UNITS = 5, (4, 3)


def recurrent_name(name: str) -> str:
    """What the recurrent weights beside feed-forward ones are called: wz and uz, wfx and ufh."""
    return f"u{name[1]}h" if len(name) == 3 else f"u{name[1]}"


def make_up(kind: str, *, batch_norm: bool, bidirectional: bool) -> dict[str, Tensor]:
    """The state of a network of two layers; all that evaluation reads is random."""
    torch.manual_seed(len(kind))
    state: dict[str, Tensor] = {}
    inputs = INPUTS
    for number, units in enumerate(UNITS):
        for name in GATES[kind]:
            state[f"{name}.{number}.weight"] = torch.randn(units, inputs)
            state[f"{recurrent_name(name)}.{number}.weight"] = torch.randn(units, units) / 2
            if not batch_norm:
                state[f"{name}.{number}.bias"] = torch.randn(units)
            state |= make_up_norm(f"bn_{name}.{number}", units)
        state |= make_up_unused(number, units)
        inputs = units * (2 if bidirectional else 1)
    return state


def make_up_unused(number: int, units: int) -> dict[str, Tensor]:
    """The layer normalisation that every layer of theirs has, and few use."""
    return {f"ln.{number}.gamma": torch.ones(units), f"ln.{number}.beta": torch.zeros(units)}


def make_up_norm(name: str, units: int) -> dict[str, Tensor]:
    """A batch norm that has seen data."""
    return {
        f"{name}.weight": torch.rand(units) + 0.5,
        f"{name}.bias": torch.randn(units),
        f"{name}.running_mean": torch.randn(units),
        f"{name}.running_var": torch.rand(units) + 0.5,
        f"{name}.num_batches_tracked": torch.tensor(7),
    }


def compute(
    kind: str,
    state: dict[str, Tensor],
    x_TF: Tensor,
    *,
    batch_norm: bool,
    bidirectional: bool,
    activation: str,
    dropout: float,
) -> Tensor:
    """What theirs computes [T, H] of one utterance [T, F] in evaluation."""
    for number, units in enumerate(UNITS):
        given = {n.replace(f".{number}.", "."): v for n, v in state.items() if f".{number}." in n}
        one = [
            _run(kind, given, x, units, batch_norm, ACTIVATION[activation], 1 - dropout)
            for x in ((x_TF, x_TF.flip(0)) if bidirectional else (x_TF,))
        ]
        x_TF = torch.cat([one[0], one[1].flip(0)], 1) if bidirectional else one[0]
    return x_TF


def _run(
    kind: str, w: dict[str, Tensor], x_TF: Tensor, units: int, norm: bool, act: Any, kept: float
) -> Tensor:
    def feed(name: str) -> Tensor:
        a = x_TF @ w[f"{name}.weight"].T
        if not norm:
            return a + w[f"{name}.bias"]
        a = (a - w[f"bn_{name}.running_mean"]) / (w[f"bn_{name}.running_var"] + 1e-5).sqrt()
        return a * w[f"bn_{name}.weight"] + w[f"bn_{name}.bias"]

    terms = {name: feed(name) for name in GATES[kind]}
    h = c = torch.zeros(units)
    states = []
    for t in range(len(x_TF)):

        def term(name: str, h: Tensor, t: int = t) -> Tensor:
            return terms[name][t] + w[f"{recurrent_name(name)}.weight"] @ h

        if kind == "LSTM":
            forget, take, out = (term(name, h).sigmoid() for name in ("wfx", "wix", "wox"))
            c = take * act(term("wcx", h)) * kept + forget * c
            h = out * act(c)
        elif kind == "RNN":
            h = act(term("wh", h)) * kept
        else:
            z = term("wz", h).sigmoid()
            through = {"liGRU": h, "minimalGRU": z * h}
            read = term("wr", h).sigmoid() * h if kind == "GRU" else through[kind]
            h = z * h + (1 - z) * (act(term("wh", read)) * kept)
        states.append(h)
    return torch.stack(states)


def make_up_layers(
    prefix: str, shapes: list[tuple[int, ...]], inputs: int, *, bias: bool
) -> dict[str, Tensor]:
    """Feed-forward or convolutional layers, with all norms, and both norms of the input.

    shapes: of the weights of each layer, and behind them the size of what is normalised.
    """
    torch.manual_seed(len(shapes))
    state = make_up_norm("bn0", inputs)
    state |= {"ln0.gamma": torch.rand(inputs) + 0.5, "ln0.beta": torch.randn(inputs)}
    for number, (units, *weight, size) in enumerate(shapes):
        if weight:
            state[f"{prefix}.{number}.weight"] = torch.randn(units, *weight) / 2
        else:  # of a SincNet
            for name in ("low", "band"):
                state[f"{prefix}.{number}.{name}_hz_"] = torch.rand(units, 1) / 9
        if weight and bias:
            state[f"{prefix}.{number}.bias"] = torch.randn(units)
        state |= make_up_norm(f"bn.{number}", units)
        of_frame = (units, size) if size else (units,)
        state[f"ln.{number}.gamma"] = torch.rand(of_frame) + 0.5
        state[f"ln.{number}.beta"] = torch.randn(of_frame)
    return state


def keep(state: dict[str, Tensor], input_norm: str) -> dict[str, Tensor]:
    """The state of a network with one norm of the input, `ln0` or `bn0`, or none."""
    return {
        name: tensor
        for name, tensor in state.items()
        if not name.startswith(("ln0", "bn0")) or name.startswith(input_norm or "-")
    }


def normalise(w: dict[str, Tensor], x: Tensor, norm: str, eps: float = 1e-5) -> Tensor:
    """What theirs makes of [T, H] or [T, C, Q] by the norm `ln` or `bn`, or nothing by ""."""
    if norm.startswith("ln"):
        centred = x - x.mean(-1, keepdim=True)
        deviation = (centred.square().sum(-1, keepdim=True) / (x.shape[-1] - 1)).sqrt()
        return w[f"{norm}.gamma"] * centred / (deviation + 1e-6) + w[f"{norm}.beta"]
    if norm.startswith("bn"):
        parts = ("running_mean", "running_var", "weight", "bias")
        mean, var, scale, shift = (
            w[f"{norm}.{part}"].reshape(-1, *(1,) * (x.ndim - 2)) for part in parts
        )
        return (x - mean) / (var + eps).sqrt() * scale + shift
    return x


def compute_mlp(state: dict[str, Tensor], x: Tensor, norm: str, input_norm: str) -> Tensor:
    """What an MLP of theirs with relu computes of frames [T, F], in evaluation."""
    x = normalise(state, x, input_norm)
    for number in range(2):
        w = {n.replace(f".{number}.", "."): v for n, v in state.items() if f".{number}." in n}
        x = torch.relu(normalise(w, x @ w["wx.weight"].T + w["wx.bias"], norm))
    return x


def compute_maps(
    state: dict[str, Tensor],
    x: Tensor,
    norm: str,
    input_norm: str,
    *,
    kernels: tuple[int, ...],
    pools: tuple[int, ...],
) -> Tensor:
    """What a CNN or SincNet of theirs with relu computes of frames [T, F], in evaluation."""
    x = normalise(state, x, input_norm)[:, None]
    for number, (kernel, pool) in enumerate(zip(kernels, pools, strict=True)):
        w = {n.replace(f".{number}.", "."): v for n, v in state.items() if f".{number}." in n}
        weight = w.get("conv.weight")
        filters = band_pass(w, kernel)[:, None] if weight is None else weight
        x = max_pool1d(conv1d(x, filters, w.get("conv.bias")), pool)
        # Theirs hands BatchNorm1d the number of values as its epsilon.
        x = torch.relu(normalise(w, x, norm, eps=x.shape[-1]))
    return x.flatten(1)


def band_pass(w: dict[str, Tensor], kernel: int, rate: int = 1000, least: int = 50) -> Tensor:
    """Equation 4 of Ravanelli & Bengio (2018), scaled to a largest value of 1, and its window."""
    low = least / rate + w["conv.low_hz_"].double().abs().numpy()
    high = low + least / rate + w["conv.band_hz_"].double().abs().numpy()
    n = np.arange(kernel) - kernel // 2
    g = 2 * high * np.sinc(2 * high * n) - 2 * low * np.sinc(2 * low * n)
    return torch.tensor(g / g.max(1, keepdims=True) * np.hamming(kernel)).float()


def feed_forward_options(prefix: str, norm: str, input_norm: str, **sizes: str) -> dict[str, str]:
    """The options of an MLP (dnn), CNN (cnn) or SincNet (sinc) of two layers."""
    flags = {
        "use_batchnorm": f"{norm == 'bn'},{norm == 'bn'}",
        "use_laynorm": f"{norm == 'ln'},{norm == 'ln'}",
        "use_batchnorm_inp": str(input_norm == "bn0"),
        "use_laynorm_inp": str(input_norm == "ln0"),
        "act": "relu,relu",
        "drop": "0.1,0.1",
    }
    return {f"{prefix}_{name}": value for name, value in {**sizes, **flags}.items()}


def options(
    kind: str, *, batch_norm: bool, bidirectional: bool, activation: str, dropout: float
) -> dict[str, str]:
    """The options of the configuration, which the original takes too."""
    prefix = PREFIX[kind]
    return {
        f"{prefix}_lay": ",".join(map(str, UNITS)),
        f"{prefix}_drop": ",".join([str(dropout)] * len(UNITS)),
        f"{prefix}_use_batchnorm": ",".join([str(batch_norm)] * len(UNITS)),
        f"{prefix}_use_laynorm": ",".join(["False"] * len(UNITS)),
        f"{prefix}_use_batchnorm_inp": "False",
        f"{prefix}_use_laynorm_inp": "False",
        f"{prefix}_act": ",".join([activation] * len(UNITS)),
        f"{prefix}_bidir": str(bidirectional),
        f"{prefix}_orthinit": "True",
    }


def load_theirs() -> Any:
    """The module neural_networks of a clone; the test is skipped where there is none."""
    clone = os.environ.get("PYTORCH_KALDI", "")
    if not os.path.exists(os.path.join(clone, "neural_networks.py")):
        pytest.skip("PYTORCH_KALDI does not name a clone of mravanelli/pytorch-kaldi")
    if "distutils.util" not in sys.modules:  # which Python has no more; it asks for one function
        util = types.ModuleType("distutils.util")
        util.strtobool = lambda text: text.lower() in ("true", "1", "yes")  # type: ignore[attr-defined]
        sys.modules.setdefault("distutils", types.ModuleType("distutils"))
        sys.modules["distutils.util"] = util
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        patch.syspath_prepend(clone)
        return importlib.import_module("neural_networks")
