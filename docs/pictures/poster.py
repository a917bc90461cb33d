"""Draw the two diagrams of the poster of Bittar & Garner (2021): poster.svg beside this file.

Above its Fig. 1, Bayes's theorem as a layer; below its Fig. 2, the Li-BRU of equations 7a to 7c.
Both are drawn anew. Colours are legible on white and on black.

    python docs/pictures/poster.py
"""

import math
from pathlib import Path

from unit import BLUE, GREEN, GREY, ORANGE, arrow, box, line, symbol, text

PICTURE = Path(__file__).with_suffix(".svg")
SIGMOID = [(u, 1 / (1 + math.exp(-u))) for u in range(-6, 7)]


def wide_box(x: float, y: float, width: float, words: str, colour: str) -> str:
    """A box of height 44 around (x, y) with words in it."""
    frame = f'<rect x="{x - width / 2:g}" y="{y - 22:g}" width="{width:g}" height="44" rx="6"'
    return f'{frame} fill="none" stroke="{GREY}" stroke-width="2"/>{text(x, y + 5, words, colour)}'


def sigmoid_box(x: float, y: float, colour: str) -> str:
    """A box with the curve of the sigmoid."""
    return box(x, y, line([(x + 2.6 * u, y - 28 * (s - 0.5)) for u, s in SIGMOID], colour))


def node(x: float, y: float, sign: str) -> str:
    """A circle around (x, y), with the sign of what it does to its inputs."""
    circle = f'<circle cx="{x:g}" cy="{y:g}" r="15" fill="none" stroke="{GREY}" stroke-width="2"/>'
    return circle + text(x, y + 6, sign, GREY, 18)


def hat(x: float, y: float, colour: str) -> str:
    """The tilde of the candidate's h."""
    return text(x, y, "~", colour, 16)


def draw_approach() -> list[str]:
    """What a frame says and what the past expects, joined by Bayes's theorem."""
    return [
        symbol(56, 66, "x", "t", BLUE),
        text(58, 92, "frame", BLUE),
        arrow([(74, 60), (110, 60)], BLUE),
        wide_box(215, 60, 210, "Gaussians: W x + b, (3)", BLUE),
        text(215, 28, "feature present, or absent?"),
        arrow([(320, 60), (452, 60), (452, 115)], BLUE),
        text(386, 48, "log r, likelihoods", BLUE),
        symbol(56, 206, "h", "t−1", ORANGE),
        text(60, 232, "last posterior", ORANGE),
        arrow([(82, 200), (110, 200)], ORANGE),
        wide_box(215, 200, 210, "betas: V log h + b, (4)", ORANGE),
        text(215, 242, "which features follow which?"),
        arrow([(320, 200), (452, 200), (452, 145)], ORANGE),
        text(386, 222, "logit p, prior", ORANGE),
        node(452, 130, "+"),
        text(520, 104, "Bayes, (1)"),
        arrow([(467, 130), (556, 130)]),
        sigmoid_box(578, 130, GREEN),
        arrow([(600, 130), (690, 130)], GREEN),
        symbol(708, 136, "h", "t", GREEN),
        text(708, 164, "posterior", GREEN),
        arrow([(645, 130), (645, 264), (58, 264), (58, 240)], ORANGE),
        text(560, 256, "one frame later", ORANGE),
    ]


def draw_li_bru() -> list[str]:
    """The gate and the candidate read the same two inputs; the gate mixes candidate and past."""
    return [
        symbol(40, 76, "x", "t", BLUE),
        arrow([(58, 70), (208, 70)], BLUE),
        arrow([(120, 70), (120, 170), (208, 170)], BLUE),
        symbol(40, 246, "h", "t−1", ORANGE),
        arrow([(66, 240), (98, 240)], ORANGE),
        box(120, 240, text(120, 245, "log", ORANGE, 15)),
        line([(142, 240), (170, 240), (170, 90)], ORANGE),
        arrow([(170, 90), (208, 90)], ORANGE),
        arrow([(170, 190), (208, 190)], ORANGE),
        sigmoid_box(230, 80, GREY),
        text(230, 44, "relevance of the frame, (7a)"),
        sigmoid_box(230, 180, GREEN),
        text(230, 222, "candidate, (7b)", GREEN),
        symbol(352, 70, "z", "t"),
        line([(252, 80), (400, 80)], GREY),
        arrow([(400, 80), (400, 165)]),
        arrow([(400, 80), (495, 80)]),
        wide_box(530, 80, 66, "1 − z", GREY),
        symbol(320, 170, "h", "t", GREEN),
        hat(320, 156, GREEN),
        arrow([(252, 180), (385, 180)], GREEN),
        node(400, 180, "×"),
        arrow([(415, 180), (605, 180)], GREEN),
        arrow([(40, 256), (40, 284), (530, 284), (530, 255)], ORANGE),
        arrow([(563, 80), (586, 80), (586, 240), (545, 240)]),
        node(530, 240, "×"),
        arrow([(530, 225), (530, 206), (620, 206), (620, 195)], ORANGE),
        node(620, 180, "+"),
        text(660, 150, "(7c)"),
        arrow([(635, 180), (700, 180)], GREEN),
        symbol(718, 186, "h", "t", GREEN),
        text(712, 214, "log h to the next layer"),
    ]


def draw() -> str:
    """The picture."""
    head = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 600" font-family="sans-serif"'
    title = "A layer by Bayes's theorem, and a light Bayesian recurrent unit"
    below = '<g transform="translate(0 300)">'
    parts = "\n".join([*draw_approach(), below, *draw_li_bru(), "</g>"])
    return f'{head} role="img">\n<title>{title}</title>\n{parts}\n</svg>\n'


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
