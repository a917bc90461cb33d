"""Kinds of arguments that several verbs take."""

import argparse


def positive(text: str) -> int:
    """A whole number of at least 1, such as a number of processes."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number of at least 1")
    return int(text)


def share(text: str) -> float:
    """A number from 0 to 1."""
    if not 0 <= float(text) <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return float(text)
