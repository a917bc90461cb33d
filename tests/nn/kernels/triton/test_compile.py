"""Compilation of all kernels for several GPUs, which needs none."""

import importlib.util
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch

from bayes_asr.nn.kernels.cuda.static import Shape
from bayes_asr.nn.units.cell import Kernel

if importlib.util.find_spec("triton") is None:
    pytest.skip("triton is not installed", allow_module_level=True)

from triton import compile as compile_kernel
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from bayes_asr.nn.kernels.triton import program
from bayes_asr.nn.kernels.triton.recurrence import find_program

pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
TYPES = {torch.float32: "*fp32", torch.bfloat16: "*bf16", torch.int32: "*i32"}
SHARED = 99 * 2**10  # bytes that a block may have on the GPUs with least
ALIGNED = [["tt.divisibility", 16]]
EVERY_KERNEL = [
    Kernel("rnn", "p-sigmoid"),
    Kernel("mixing", "relu"),
    Kernel("li-bru"),
    Kernel("log-li-bru"),
    Kernel("lstm"),
    Kernel("lstm-peepholes"),
    Kernel("gru"),
    Kernel("mgu", "p-relu"),
    Kernel("minimal-gru"),
    Kernel("ubru"),
    Kernel("ubru-later"),
    Kernel("ubru-gates"),
    Kernel("ubru-gates-later"),
    Kernel("harmonic-li-bru"),
]


def compile_all(
    kernel: Kernel, shape: Shape, capability: int, patch: pytest.MonkeyPatch
) -> dict[str, str]:
    """The code of each kernel of both ways, by its name."""
    launches: list[program.Launch] = []
    patch.setattr(program, "_run", lambda steps: launches.extend(step[0] for step in steps))
    steps = find_program(kernel)
    assert steps is not None
    buffers = steps.allocate(shape)
    steps.forward(buffers)
    steps.backward(buffers)
    codes = {}
    for compiled, _, arguments, options, _ in launches:
        values = [{**arguments, "t": 0}[name] for name in compiled.arg_names]
        paths = dict(walk(values))
        done = compile_kernel(
            ASTSource(
                compiled,
                dict(zip(compiled.arg_names, map(type_of, values), strict=True)),
                {path: value for path, value in paths.items() if type_of(value) == "constexpr"},
                # Numbers of rows in a group are multiples of 16, as addresses of buffers.
                {p: ALIGNED for p, v in paths.items() if len(p) > 1 and type_of(v) != "constexpr"},
            ),
            target=GPUTarget("cuda", capability, 32),
            options=options,
        )
        assert done.metadata.shared <= SHARED
        codes[compiled.__name__] = done.asm["ptx"]
    return codes


def type_of(value: Any) -> Any:
    """The type of an argument for Triton; of a group, a group of types."""
    if isinstance(value, tuple):
        return type(value)(*map(type_of, value))
    if isinstance(value, torch.Tensor):
        return TYPES[value.dtype]
    return "i32" if isinstance(value, int) else "constexpr"


def walk(
    values: Sequence[Any], path: tuple[int, ...] = ()
) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Each argument, also in a group, with its place."""
    for i, value in enumerate(values):
        if isinstance(value, tuple):
            yield from walk(value, (*path, i))
        else:
            yield (*path, i), value


def shape_of(dtype: torch.dtype, B: int = 16, sets: int = 2) -> Shape:
    return Shape(1, B, 2, 550, sets, dtype, torch.device("meta"))


@pytest.mark.slow
def test_products_of_bfloat16_are_those_of_tensor_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = compile_all(Kernel("li-bru"), shape_of(torch.bfloat16), 90, monkeypatch)
    assert set(codes) == {"forward_plain", "backward_plain", "backward_start"}
    for code in codes.values():
        assert "mma" in code
        assert "cp.async" in code  # factors are loaded while others are multiplied


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("kernel", "capability"),
    [*((kernel, 90) for kernel in EVERY_KERNEL), *((Kernel("lstm"), c) for c in (80, 120))],
    ids=lambda value: "-".join(value) if isinstance(value, Kernel) else str(value),
)
def test_every_kernel_is_compiled(
    kernel: Kernel, capability: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "_can_overlap", lambda _: capability >= 90)
    assert compile_all(kernel, shape_of(dtype), capability, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [Kernel("li-bru"), Kernel("lstm"), Kernel("gru")], ids="-".join)
def test_kernels_of_many_rows_are_compiled(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        assert compile_all(kernel, shape_of(dtype, B=64, sets=1), 90, monkeypatch)


def test_three_gates_in_a_product_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(program.UNITS, "rnn", program.Unit(3, 1, 0, *program.PLAIN))
    steps = program.StepKernels("rnn")
    buffers = steps.allocate(Shape(2, 1, 1, 4, 1, torch.float32, torch.device("cpu")))
    for compute in (steps.forward, steps.backward):
        with pytest.raises(ValueError, match="rnn has 3 gates in a product"):
            compute(buffers)
