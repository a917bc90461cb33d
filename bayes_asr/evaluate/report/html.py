"""HTML from the templates of this room; all that is filled in is escaped."""

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bayes_asr.base.errors import InputError, printable

TEMPLATES = Path(__file__).parent / "templates"


def render(template: str, **values: Any) -> str:
    """A template with its values; control characters in texts are escapes."""
    if find_spec("jinja2") is None:
        raise InputError("the page needs Jinja2, which is not here: pip install jinja2")
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

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
