"""Pages by the templates of this room, and names for the files beside them."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bayes_asr.base.errors import InputError, printable
from bayes_asr.base.files import replacing

TEMPLATES = Path(__file__).parent / "templates"
LONGEST_NAME = 100  # bytes of the part of a file's name that comes out of data


def render(template: str, **values: Any) -> str:
    """A template of this room with its values, escaped; control characters are escapes too."""
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError:
        raise InputError("the page needs Jinja2, which is not here: pip install jinja2") from None
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: printable(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["numeric"] = lambda cell: re.match(r"[<[]?\s*[-+]?\d", cell) is not None
    return environment.get_template(template).render(**values)


def write_file(path: Path, text: str) -> None:
    """Write a text, complete or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def name_files(parts: Iterable[Sequence[str]]) -> list[str]:
    """A name for a file of each, made of these parts, that leads nowhere else and is its own.

    Parts come out of data: a slash, a space and the like become `_`. Names that would be the same,
    were capitals small, get numbers.
    """
    names: list[str] = []
    for part in parts:
        plain = re.sub(r"[^\w.-]+", "_", "_".join(part))
        # A cut inside of a letter of several bytes leaves no half letter.
        plain = plain.encode()[:LONGEST_NAME].decode(errors="ignore")
        name, number = plain, 1
        # File systems of macOS and Windows do not tell capitals apart.
        while name.lower() in {n.lower() for n in names}:
            number += 1
            name = f"{plain}-{number}"
        names.append(name)
    return names
