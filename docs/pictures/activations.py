"""Draw Fig. 1 and 2 of Zhang & Woodland (2015): activations.svg beside this file.

Left, functions that p-Sigmoid approximates, dotted, and p-Sigmoid(eta, gamma, theta); right,
p-ReLU(alpha, beta). All are computed by the code of the network. Colours are legible on white and
on black.

    python docs/pictures/activations.py
"""

from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from torch import Tensor

from bayes_asr.nn.units.activations import FIXED, PARAMETERISED

GREY, BLUE, ORANGE, GREEN, RED = "#6e7b88", "#2f81f7", "#c4651a", "#238a41", "#d1242f"
PICTURE = Path(__file__).with_suffix(".svg")
WIDTH, HEIGHT, GAP = 330, 250, 40
RANGE = (-5.0, 5.0)
A = torch.linspace(*RANGE, 201, dtype=torch.float64)


def parameterised(name: str, *values: float) -> Callable[[Tensor], Tensor]:
    """An activation with these values of all of its parameters."""
    kind = PARAMETERISED[name]
    made = kind(1, 1, tuple(kind.initial)).double()
    for parameter, value in zip(made.parameters(), values, strict=True):
        parameter.data.fill_(value)
    return lambda a: made(a[:, None])[:, 0].detach()


FIGURE_1 = [
    ("step", GREY, "3", lambda a: (a > 0).to(a.dtype)),
    ("softplus", GREY, "3", FIXED["softplus"]),
    ("ReLU", GREY, "3", FIXED["relu"]),
    ("p-Sigmoid(1, 30, 0)", BLUE, "0", parameterised("p-sigmoid", 1, 30, 0)),
    ("p-Sigmoid(4, 1, 2)", GREEN, "0", parameterised("p-sigmoid", 4, 1, 2)),
    ("p-Sigmoid(3, 2, 3)", ORANGE, "0", parameterised("p-sigmoid", 3, 2, 3)),
    ("p-Sigmoid(3, -2, 3), as printed", RED, "0", parameterised("p-sigmoid", 3, -2, 3)),
]
FIGURE_2 = [
    ("p-ReLU(1, 0), the ReLU", GREY, "3", parameterised("p-relu", 1, 0)),
    ("p-ReLU(1, 0.25), the beginning", BLUE, "0", parameterised("p-relu", 1, 0.25)),
    ("p-ReLU(0.5, -0.25)", GREEN, "0", parameterised("p-relu", 0.5, -0.25)),
    ("p-ReLU(-0.5, 0.5)", ORANGE, "0", parameterised("p-relu", -0.5, 0.5)),
]
Curve = tuple[str, str, str, Callable[[Tensor], Tensor]]


def write(x: float, y: float, words: str, colour: str) -> str:
    """Words that begin at a place."""
    return f'<text x="{x:g}" y="{y:g}" fill="{colour}" font-size="12">{words}</text>'


def draw_panel(title: str, curves: Iterable[Curve], left: float, names: float) -> Iterable[str]:
    """Axes, curves and what they are called, from `names` on downwards."""

    def x_of(a: float) -> float:
        return left + WIDTH * (a - RANGE[0]) / (RANGE[1] - RANGE[0])

    def y_of(f: float) -> float:
        return 24 + HEIGHT * (5.0 - f) / 8.0

    yield write(left, 14, title, GREY)
    for start, end in (((RANGE[0], 0), (RANGE[1], 0)), ((0, -2.5), (0, 5))):
        ends = " ".join(f"{x_of(a):g},{y_of(f):g}" for a, f in (start, end))
        yield f'<polyline points="{ends}" stroke="{GREY}" stroke-width="0.5"/>'
    for number, (name, colour, dots, function) in enumerate(curves):
        points = " ".join(
            f"{x_of(a):.1f},{y_of(f):.1f}"
            for a, f in zip(A.tolist(), function(A).tolist(), strict=True)
        )
        style = f'fill="none" stroke="{colour}" stroke-width="1.5" stroke-dasharray="{dots}"'
        yield f'<polyline points="{points}" {style}/>'
        yield write(left, names + 13 * number, name, colour)


def draw() -> str:
    """The picture."""
    parts = [
        *draw_panel("Figure 1: p-Sigmoid and what it comes near to", FIGURE_1, 10, 200),
        *draw_panel("Figure 2: p-ReLU", FIGURE_2, 10 + WIDTH + GAP, 40),
    ]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * WIDTH + GAP + 20} 284"'
    return "\n".join([f'{head} font-family="sans-serif">', *parts, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
