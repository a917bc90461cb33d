"""Programs on static buffers (`cuda.static`), against the equations in double precision.

Run by itself, it computes in Triton's interpreter, which has to be chosen before triton is
imported: of each line, a list of `UNITS` and what is of `Case`, it prints the largest errors.
"""

import copy
import json
import os
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bayes_asr.nn.frames import PackedFrames
from bayes_asr.nn.kernels.cuda.static import Program, Shape, find_rows, unpack
from bayes_asr.nn.kernels.reference.gradients import weight_gradient
from bayes_asr.nn.kernels.reference.scan import step_through
from bayes_asr.nn.units.cell import Cell, build_cell, name_kernel

FREE = ("p-sigmoid", "p-relu")  # activations with coefficients
UNITS: dict[str, tuple[str, dict[str, Any]]] = {
    "bru": ("bru", {}),
    "bru-log": ("bru", {"form": "log"}),
    "li-gru": ("li-gru", {}),
    "li-bru": ("li-bru", {}),
    "li-bru-log": ("li-bru", {"form": "log"}),
    "li-bru-harmonic": ("li-bru", {"form": "harmonic"}),
    "lstm": ("lstm", {}),
    "lstm-peepholes": ("lstm", {"peepholes": True}),
    "gru": ("gru", {}),
    "mgu": ("mgu", {}),
    "minimal-gru": ("minimal-gru", {}),
    "ubru": ("ubru", {}),
    "ubru-later": ("ubru", {}),
    "ubru-gates": ("ubru", {"transitions": "from-input"}),
    "ubru-gates-later": ("ubru", {"transitions": "from-input"}),
    **{
        f"rnn-{f}": ("rnn", {"activation": f})
        for f in ("tanh", "relu", "sigmoid", "softplus", "leaky-relu", "elu", "linear", *FREE)
    },
    **{f"{u}-{f}": (u, {"activation": f}) for u in ("li-gru", "gru", "minimal-gru") for f in FREE},
}
"""Every unit that has kernels: its name in the catalogue and its options."""


class Case(NamedTuple):
    """A ragged batch in a bucket of T steps and B sequences, of which some are spare."""

    H: int = 70
    sets: int = 2
    D: int = 2
    lengths: tuple[int, ...] = (3, 2, 1)
    T: int = 4
    B: int = 8
    dtype: torch.dtype = torch.float32
    device: str = "cpu"

    @property
    def shape(self) -> Shape:
        device = torch.device(self.device)
        return Shape(self.T, self.B, self.D, self.H, self.sets, self.dtype, device)


class Batch(NamedTuple):
    """What a program reads, as packed frames."""

    cell: Cell
    frames: PackedFrames
    rows: Tensor
    tensors: dict[str, Tensor]


def draw(unit: str, case: Case) -> Batch:
    """Random numbers of a case; those of V are exact in the type of terms."""
    torch.manual_seed(5)
    name, options = UNITS[unit]
    cell = build_cell(name, case.H, case.sets, options)
    if unit.endswith("-later"):
        smoother = build_cell(name, case.H, case.sets, {**options, "smooth": True})
        cell = smoother.backward_message() or cell
    for parameter in cell.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    frames = PackedFrames(case.lengths)
    state, X = (len(case.lengths), case.D, case.H), cell.gates * case.H
    tensors = {
        "terms": torch.randn(frames.count, case.D, X).to(case.dtype),
        "arriving": torch.randn(frames.count, case.D, case.H).to(case.dtype),
        "initial": torch.randn(cell.states, *state) / 2,
        "mask": (torch.rand(state) > 0.2).float() / 0.8,
    }
    if cell.recurrent:
        V = torch.randn(case.sets, case.H, X) / case.H**0.5
        tensors["V"] = V.to(case.dtype).float()
    coefficients = cell.coefficients()
    if coefficients is not None:
        tensors["coefficients"] = coefficients.detach()
    rows = find_rows(frames, (False,) * case.D, case.B).to(case.device)
    return Batch(cell, frames, rows, tensors)


def expected_of(batch: Batch) -> dict[str, Tensor]:
    """States, and gradients by all that is trained, by the equations."""
    cell, frames, _, tensors = batch
    cell = copy.deepcopy(cell).double()
    read = {name: tensor.double().requires_grad_() for name, tensor in tensors.items()}
    terms, V, initial = read["terms"], read.get("V"), read["initial"]
    h, _ = step_through(cell, terms, V, read["mask"], frames, tuple(initial))
    leaves = {"da": terms, "by_initial": initial, **({} if V is None else {"by_V": V})}
    leaves |= dict(cell.named_parameters())
    by = torch.autograd.grad((h * read["arriving"]).sum(), list(leaves.values()))
    return {"h": h, **dict(zip(leaves, by, strict=True))}


def fill(buffers: dict[str, Tensor], batch: Batch, names: set[str]) -> None:
    """Put what is read into buffers, whose spare places are no numbers."""
    for name in names & batch.tensors.keys():
        tensor, buffer = batch.tensors[name].to(buffers["h"].device), buffers[name]
        if name in ("terms", "arriving"):
            buffer.flatten(0, 2).index_copy_(0, batch.rows, tensor.flatten(0, 1))
        else:
            buffer[..., : tensor.shape[-3], :, :].copy_(tensor)


def compute(program: Program, batch: Batch, case: Case) -> dict[str, Tensor]:
    """What `expected_of` returns, by a program that finds no number where it may expect none."""
    buffers = program.allocate(case.shape)
    sizes = torch.zeros(case.T, dtype=torch.int32)
    sizes[: len(batch.frames.sizes)] = torch.tensor(batch.frames.sizes)
    buffers["sizes"].copy_(sizes)
    read = {"mask", "initial", "V", "coefficients"}
    spoil(buffers, set())
    fill(buffers, batch, read | {"terms"})
    program.forward(buffers)
    spoil(buffers, read | {"h", "restored", *program.saved})
    fill(buffers, batch, {"arriving"})
    program.backward(buffers)
    return gather(buffers, batch, case)


def spoil(buffers: dict[str, Tensor], names: set[str]) -> None:
    """Make all buffers no numbers, but those with some names."""
    for name, buffer in buffers.items():
        if name not in names and buffer.is_floating_point():
            buffer.fill_(float("nan"))


def gather(buffers: dict[str, Tensor], batch: Batch, case: Case) -> dict[str, Tensor]:
    """States and gradients in buffers, of which those of spare places have to be 0."""
    n = len(case.lengths)
    alive = torch.zeros(case.T * case.B * case.D, dtype=torch.bool, device=case.device)
    alive[batch.rows] = True
    assert not buffers["da"].flatten(0, 2)[~alive].any()
    assert not buffers["by_initial"][:, n:].any()
    da, h = (unpack(buffers[name], batch.rows) for name in ("da", "h"))
    results = {"h": h, "da": da, "by_initial": buffers["by_initial"][:, :n]}
    if "V" in buffers:
        initial = buffers["initial"][:1].to(case.dtype)
        previous = unpack(torch.cat((initial, buffers["h"][:-1])), batch.rows).float()
        restored = (
            unpack(buffers["restored"], batch.rows).float() if "restored" in buffers else None
        )
        results["by_V"] = weight_gradient(previous, restored, da.float(), buffers["V"].float())
    if "by_coefficients" in buffers:
        assert not buffers["by_coefficients"][n:].any()
        by_set = buffers["by_coefficients"].sum(0).unflatten(0, (case.sets, -1)).sum(1)
        cell = copy.deepcopy(batch.cell).double()
        names, parameters = zip(*cell.named_parameters(), strict=True)
        coefficients = cell.coefficients()
        assert coefficients is not None
        by = torch.autograd.grad(coefficients, parameters, by_set.double().cpu())
        results |= dict(zip(names, by, strict=True))
    return results


def program_of(cell: Cell) -> Program:
    """The kernels of Triton for a cell."""
    from bayes_asr.nn.kernels.triton.recurrence import find_program

    kernel = name_kernel(cell)
    program = kernel and find_program(kernel)
    assert program
    return program


def errors(unit: str, case: Case) -> dict[str, float]:
    """The relative errors of states and gradients by the kernels of Triton."""
    batch = draw(unit, case)
    computed, expected = compute(program_of(batch.cell), batch, case), expected_of(batch)
    return {
        name: ((computed[name].cpu().double() - value).norm() / value.norm()).item()
        for name, value in expected.items()
    }


def main() -> None:
    """Print the largest error of each unit of a line."""
    from triton.runtime import interpreter

    from bayes_asr.nn.kernels.triton import program

    program.PROGRAMS = 1  # the interpreter runs one program after the other
    interpreter._patch_lang = once(interpreter._patch_lang)
    for line in sys.stdin:
        units, options = json.loads(line)
        options["dtype"] = getattr(torch, options.get("dtype", "float32"))
        case = Case(**options)
        print(json.dumps({unit: max(errors(unit, case).values()) for unit in units}), flush=True)


def once(patch: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Let what a module has of triton be the interpreter's to the end, not patched at each call."""
    scopes: dict[str, Any] = {}

    def patch_once(function: Any) -> Any:
        if function.__module__ not in scopes:
            scopes[function.__module__] = patch(function)
            scopes[function.__module__].restore = lambda: None
        return scopes[function.__module__]

    return patch_once


if __name__ == "__main__":
    assert os.environ["TRITON_INTERPRET"] == "1"
    main()
