"""A reader of TextGrids in their long form, line by line, as Praat's manual describes them."""

from pathlib import Path


def read_textgrid(path: Path) -> tuple[float, dict[str, list[tuple[float, float, str]]]]:
    """The end of a TextGrid, and the intervals of each tier that have a text."""
    tiers: dict[str, list[tuple[float, float, str]]] = {}
    end = begin = stop = 0.0
    intervals: list[tuple[float, float, str]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        key, _, value = (part.strip() for part in line.partition("="))
        if key == "name":
            intervals = tiers.setdefault(value[1:-1], [])
        elif key == "xmin":
            begin = float(value)
        elif key == "xmax":
            stop = float(value)
            end = end if tiers else stop
        elif key == "text" and value != '""':
            intervals.append((begin, stop, value[1:-1].replace('""', '"')))
    return end, tiers
