"""Scores of each expert, as the corpus' first versions have them: `utt2score`.

A line is an utterance and JSON. Each of five experts writes the phones of a word: plain ones are
right (2), those in {} have a heavy accent (1), those in () are wrong or missed (0), and those in []
were inserted. The published score of a phone is the experts' mean, that of a word their median.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from corpus import HOME, strip_marks

from bayes_asr.base.errors import InputError

RIGHT, MARKED = 2.0, {"{": 1.0, "(": 0.0}
# The first versions' symbols by those of the lexicon: their lexicon/phoneme_set.tsv.
SYMBOLS = {
    "AR": ("EH", "R"),
    "AX": ("AH",),
    "AXR": ("ER",),
    "DR": ("D", "R"),
    "DZ": ("D", "Z"),
    "EE": ("ER",),
    "IR": ("IH", "AH"),
    "OO": ("AH",),
    "TR": ("T", "R"),
    "TS": ("T", "S"),
    "UR": ("UH", "AH"),
}

Scores = list[tuple[str, float]]  # the phones that one expert expected, and their scores


def read_utt2score(path: Path) -> dict[str, dict[str, Any]]:
    """The words of each utterance, as `scores.json` has them.

    InputError where a line is of another form.
    """
    utterances = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        utt, _, entry = line.partition("\t")
        try:
            utterances[utt] = {"words": [agree(word) for word in json.loads(entry)["words"]]}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{path}: {utt}: {error!r}; take it of {HOME} again") from None
    return utterances


def agree(word: Mapping[str, Any]) -> dict[str, Any]:
    """A word as `scores.json` has it, by those experts who expect the phones that most expect."""
    experts = [read_expert(text) for text in word["phones"]]
    expected = Counter(tuple(phone for phone, _ in scores) for scores in experts)
    phones, _ = expected.most_common(1)[0]
    agreeing = [
        [score for _, score in scores]
        for scores in experts
        if tuple(phone for phone, _ in scores) == phones
    ]
    return {
        "text": word["text"].upper(),
        "accuracy": float(np.median(word["accuracy"])),
        "phones": list(phones),
        "phones-accuracy": np.mean(agreeing, axis=0).tolist(),
    }


def read_expert(text: str) -> Scores:
    """The phones that an expert expected, in the lexicon's symbols, with their scores.

    `DH {AX} [R]` is DH 2, AH 1; a bracket may hold several phones.
    """
    scores: Scores = []
    bracket = ""
    for sign in re.findall(r"[({\[\])}]|[^\s({\[\])}]+", text):
        if sign in "({[":
            bracket = sign
        elif sign in ")}]":
            bracket = ""
        elif bracket != "[":
            phone = strip_marks(sign)
            score = MARKED.get(bracket, RIGHT)
            scores += [(symbol, score) for symbol in SYMBOLS.get(phone, (phone,))]
    return scores
