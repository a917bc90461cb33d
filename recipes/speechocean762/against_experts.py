#!/usr/bin/env python3
"""The goodness of pronunciation of a run's phones against the experts' scores of them.

RUN has pronunciation_SET, as bayes-asr pronunciation makes it. Regressions of each phone are learnt
of train, their ridge is chosen on dev, and test is scored: correlations with intervals over
speakers, mean squared errors, adults and children apart. Nothing is done where the clone has no
scores.
"""

import bayes_asr.recipe.stages.interruption  # noqa: F401 - first: Ctrl-C may come while the others load

# isort: split
import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from corpus import HOME
from experts import find_scores, read_scores
from goodness import ScoredPhones, read_goodness
from regressions import correlate, fit, quadratic

from bayes_asr.base.errors import InputError

RIDGES = (1.0, 10.0, 100.0, 1000.0, 10000.0)
BEST = 2.0  # accuracy of a phone


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; return 0, or 1 after one line that says what is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("run", type=Path, metavar="RUN", help="run directory of the network")
    parser.add_argument("--data", type=Path, required=True, help="folder of train, dev and test")
    parser.add_argument("--corpus", type=Path, required=True, help=f"a clone of {HOME}")
    args = parser.parse_args(argv)
    path = find_scores(args.corpus)
    if path is None:
        print(f"{args.corpus}: no resource/scores.json, so pronunciation is not held against it")
        return 0
    try:
        experts = read_scores(path)
        train, dev, test = (
            read_goodness(args.run / f"pronunciation_{name}", args.data / name, experts)
            for name in ("train", "dev", "test")
        )
        print(*tabulate(train, dev, test), sep="\n")
    except (InputError, OSError) as error:
        print(f"{parser.prog}: error: {error}", file=sys.stderr)
        return 1
    return 0


def tabulate(train: ScoredPhones, dev: ScoredPhones, test: ScoredPhones) -> list[str]:
    """The lines of a Markdown table: phones by each regression, and words by the last one."""
    rows = [describe("goodness", test.goodness, test.accuracy, test.speaker, test.group)]
    for name, predicted in predict_all(train, dev, test).items():
        error = np.mean((predicted - test.accuracy) ** 2)
        rows.append(describe(name, predicted, test.accuracy, test.speaker, test.group, error))
    # The word of each phone is the mean of what the last regression makes of its phones.
    words, start, number = np.unique(test.word, return_index=True, return_counts=True)
    means = np.add.reduceat(predicted, start) / number
    accuracy = test.word_accuracy[words]
    return [
        f"{len(test.phone)} phones of test; {test.lost} were aligned otherwise than the experts"
        " have them",
        "",
        "| | correlation, 95 % over speakers | MSE | adults | children |",
        "|---|---|---|---|---|",
        *rows,
        describe("words", means, accuracy, test.speaker[start], test.group[start]),
    ]


def predict_all(
    train: ScoredPhones, dev: ScoredPhones, test: ScoredPhones
) -> dict[str, np.ndarray]:
    """The accuracies [N] of the phones of test as each regression of train predicts them."""
    polynomials = [quadratic(scored.goodness) for scored in (train, test)]
    # As Kaldi's recipe has it: three classes, each as heavy as the others, in train and in test.
    classes = fit(polynomials[0], np.rint(train.accuracy), train.phone, balanced=True)
    mean, deviation = train.features.mean(axis=0), train.features.std(axis=0)
    standardised = [
        np.column_stack([np.ones(len(x)), (x - mean) / np.maximum(deviation, 1e-6)])
        for x in (train.features, dev.features, test.features)
    ]
    fits = {
        ridge: fit(standardised[0], train.accuracy, train.phone, ridge=ridge) for ridge in RIDGES
    }
    errors = {
        ridge: np.mean((of.predict(standardised[1], dev.phone) - dev.accuracy) ** 2)
        for ridge, of in fits.items()
    }
    best = min(errors, key=errors.__getitem__)
    return {
        "quadratic, classes balanced and rounded": np.rint(
            np.clip(classes.predict(polynomials[1], test.phone), 0, BEST)
        ),
        "quadratic": fit(polynomials[0], train.accuracy, train.phone).predict(
            polynomials[1], test.phone
        ),
        f"ridge ({best:g}) of all log posteriors": fits[best].predict(standardised[2], test.phone),
    }


def describe(
    name: str,
    predicted: np.ndarray,
    accuracy: np.ndarray,
    speaker: np.ndarray,
    group: np.ndarray,
    error: float | None = None,
) -> str:
    """A row: all [N], those of adults, those of children."""
    apart = [
        f"{correlate(predicted[of], accuracy[of], speaker[of]).value:.3f}"
        for of in (group == "adult", group == "child")
    ]
    mse = "" if error is None else f"{error:.3f}"
    return f"| {' | '.join((name, str(correlate(predicted, accuracy, speaker)), mse, *apart))} |"


if __name__ == "__main__":
    sys.exit(main())
