"""Kinds of arguments that several verbs take."""

import argparse


def positive(text: str) -> int:
    """A whole number of at least 1, such as a number of processes."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number of at least 1")
    return int(text)
