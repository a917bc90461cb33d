"""Counted things in messages."""


def count_of(number: int, one: str, several: str = "") -> str:
    """`1 word is`, `2 words are`; several: as of more than one, by default with an s behind it."""
    return f"{number} {one if number == 1 else several or f'{one}s'}"
