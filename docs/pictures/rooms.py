"""Draw the rooms of the code and the way of speech through them: rooms.svg beside this file.

The floors are those of the table in ../architecture.md. Colours are legible on white and on black.

    python docs/pictures/rooms.py
"""

import re
from collections.abc import Iterable
from pathlib import Path

GREY, BLUE, GREEN = "#6e7b88", "#2f81f7", "#238a41"
PICTURE = Path(__file__).with_suffix(".svg")
PAGE = Path(__file__).parent.parent / "architecture.md"
ROW = re.compile(r"^\| (\d+) \| `([\w.]+)` \|", re.M)
WAY = (
    *("data.sound", "data.features", "data.corpus", "train"),
    *("decode.forward", "decode.search", "evaluate.score", "evaluate.report"),
)
WIDTH, HEIGHT, GAP, LEFT = 140, 30, 10, 78
BELOW = 4  # pixels from the middle of a line of text to its foot


def read_floors() -> list[list[str]]:
    """The rooms of each floor, the lowest first."""
    found: dict[int, list[str]] = {}
    for floor, room in ROW.findall(PAGE.read_text(encoding="utf-8")):
        found.setdefault(int(floor), []).append(room)
    return [found[floor] for floor in sorted(found)]


def write(x: float, y: float, words: str, colour: str, anchor: str = "middle") -> str:
    """Words at a place."""
    style = f'fill="{colour}" font-size="13" text-anchor="{anchor}"'
    return f'<text x="{x:g}" y="{y:g}" {style}>{words}</text>'


def draw_room(room: str, x: float, y: float) -> Iterable[str]:
    """A box with the name of a room, and where it is on the way of speech."""
    colour = BLUE if room in WAY else GREY
    box = f'x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="5"'
    yield f'<rect {box} fill="none" stroke="{colour}" stroke-width="1.5"/>'
    number = f"{WAY.index(room) + 1}. " if room in WAY else ""
    yield write(x + WIDTH / 2, y + HEIGHT / 2 + BELOW, f"{number}{room}", colour)


def draw() -> str:
    """The picture."""
    floors = read_floors()
    width = LEFT + max(map(len, floors)) * (WIDTH + GAP)
    height = len(floors) * (HEIGHT + GAP) + 24
    parts = []
    for number, rooms in enumerate(floors, start=1):
        y = height - 24 - number * (HEIGHT + GAP) + GAP
        parts.append(write(LEFT - 14, y + HEIGHT / 2 + BELOW, f"floor {number}", GREY, "end"))
        for place, room in enumerate(rooms):
            parts += draw_room(room, LEFT + place * (WIDTH + GAP), y)
    words = "Each room imports from lower floors only. Numbers: the way of speech."
    parts.append(write(LEFT, height - 8, words, GREEN, "start"))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
    return "\n".join([f'{head} font-family="sans-serif">', *parts, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
