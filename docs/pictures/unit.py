"""Draw a Bayesian recurrent unit and what it does: unit.svg beside this file.

Left the unit, h_t = σ(W x_t + V log h_{t-1} + b); right one feature over 40 frames: what each frame
says of it, and its probability with and without the memory. Colours are legible on white and on
black.

    python docs/pictures/unit.py
"""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

GREY, BLUE, ORANGE, GREEN = "#6e7b88", "#2f81f7", "#c4651a", "#238a41"
PICTURE = Path(__file__).with_suffix(".svg")
EVIDENCE = [
    1.3 * math.sin(2.3 * t) + 0.9 * math.sin(5.1 * t) + (2.4 if 11 <= t < 27 else -1.6)
    for t in range(40)
]
"""w x_t of one feature, which is present from frame 11 to 26."""
V, B = 1.0, 0.6


def posterior(evidence: Iterable[float], v: float) -> list[float]:
    """h_t of a single unit with h_0 = 1/2: equation 13, all sizes being 1."""
    h, found = 0.5, []
    for a in evidence:
        h = 1 / (1 + math.exp(-(a + v * math.log(h) + B)))
        found.append(h)
    return found


def text(x: float, y: float, words: str, colour: str = GREY, size: int = 13) -> str:
    """Words around x."""
    style = f'fill="{colour}" font-size="{size}" text-anchor="middle"'
    return f'<text x="{x:g}" y="{y:g}" {style}>{words}</text>'


def symbol(x: float, y: float, letter: str, index: str, colour: str = GREY) -> str:
    """A letter of the equation around x, with its index behind it."""
    style = f'fill="{colour}" font-family="serif" font-style="italic"'
    place = f'x="{x:g}" y="{y:g}" font-size="19" text-anchor="middle"'
    below = f'x="{x + 6:g}" y="{y + 5:g}" font-size="12"'
    lower = f"<text {below} {style}>{index}</text>" if index else ""
    return f"<text {place} {style}>{letter}</text>{lower}"


def arrow(points: Sequence[tuple[float, float]], colour: str = GREY) -> str:
    """A line through the points, with a head at the last one."""
    (x0, y0), (x1, y1) = points[-2:]
    length = math.hypot(x1 - x0, y1 - y0)
    dx, dy = (x1 - x0) / length, (y1 - y0) / length
    back = (x1 - 9 * dx, y1 - 9 * dy)
    head = [(x1, y1), (back[0] - 4 * dy, back[1] + 4 * dx), (back[0] + 4 * dy, back[1] - 4 * dx)]
    shaft = line([*points[:-1], back], colour)
    return f'{shaft}<polygon points="{joined(head)}" fill="{colour}"/>'


def line(points: Iterable[tuple[float, float]], colour: str, dashes: str = "") -> str:
    """A line through the points."""
    style = f'fill="none" stroke="{colour}" stroke-width="2" stroke-linejoin="round"'
    style += f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<polyline points="{joined(points)}" {style}/>'


def joined(points: Iterable[tuple[float, float]]) -> str:
    """Points as SVG writes them."""
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def box(x: float, y: float, inside: str) -> str:
    """A square of 44 around (x, y), with something in it."""
    frame = f'<rect x="{x - 22:g}" y="{y - 22:g}" width="44" height="44" rx="6"'
    return f'{frame} fill="none" stroke="{GREY}" stroke-width="2"/>{inside}'


def draw_unit() -> list[str]:
    """The unit, between x = 0 and x = 400."""
    curve = [(252 + 2.6 * u, 100 - 28 * (1 / (1 + math.exp(-u)) - 0.5)) for u in range(-6, 7)]
    return [
        symbol(22, 106, "x", "t", BLUE),
        arrow([(38, 100), (68, 100)], BLUE),
        box(90, 100, symbol(90, 106, "W", "", BLUE)),
        arrow([(112, 100), (160, 100)], BLUE),
        f'<circle cx="175" cy="100" r="15" fill="none" stroke="{GREY}" stroke-width="2"/>',
        line([(167, 100), (183, 100)], GREY),
        line([(175, 92), (175, 108)], GREY),
        symbol(175, 42, "b", ""),
        arrow([(175, 50), (175, 85)]),
        arrow([(190, 100), (230, 100)]),
        box(252, 100, line(curve, GREEN)),
        arrow([(274, 100), (352, 100)], GREEN),
        symbol(370, 106, "h", "t", GREEN),
        arrow([(312, 100), (312, 190), (274, 190)], ORANGE),
        box(252, 190, text(252, 195, "log", ORANGE, 15)),
        arrow([(230, 190), (197, 190)], ORANGE),
        box(175, 190, symbol(175, 196, "V", "", ORANGE)),
        arrow([(175, 168), (175, 115)], ORANGE),
        text(90, 66, "evidence of a frame", BLUE),
        text(205, 232, "what the past expects", ORANGE),
        text(338, 66, "probability", GREEN),
        symbol(329, 157, "h", "t−1", ORANGE),
    ]


def draw_example() -> list[str]:
    """One feature over time, between x = 430 and x = 820."""

    def along(values: Sequence[float], middle: float, scale: float) -> list[tuple[float, float]]:
        return [(440 + 9.4 * t, middle - scale * value) for t, value in enumerate(values)]

    bars = [
        f'<rect x="{x - 2.5:.1f}" y="{min(y, 70):.1f}" width="5" height="{abs(y - 70):.1f}"'
        f' fill="{BLUE}"/>'
        for x, y in along(EVIDENCE, 70, 9)
    ]
    return [
        text(623, 18, "evidence for one feature, frame by frame", BLUE),
        *bars,
        line([(436, 70), (811, 70)], GREY),
        text(623, 130, "probability: — with the past, ··· from each frame alone", GREEN),
        line(along(posterior(EVIDENCE, 0), 215, 70), GREY, "2 4"),
        line(along(posterior(EVIDENCE, V), 215, 70), GREEN),
        text(426, 150, "1", GREY, 12),
        text(426, 219, "0", GREY, 12),
        line([(436, 217), (811, 217)], GREY),
    ]


def draw() -> str:
    """The picture."""
    head = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 820 244" font-family="sans-serif"'
    title = "A Bayesian recurrent unit, and the probability that it gives to a feature over time"
    parts = "\n".join([*draw_unit(), *draw_example()])
    return f'{head} role="img">\n<title>{title}</title>\n{parts}\n</svg>\n'


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
