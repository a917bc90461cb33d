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

from bayes_asr.recipe.scripts import exit_status

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
    return exit_status(parser.prog, lambda: compare(args.run, args.data, path))


def compare(run: Path, data: Path, scores: Path) -> None:
    """Print the table of a run's pronunciation_{train,dev,test} against the experts' scores."""
    experts = read_scores(scores)
    train, dev, test = (
        read_goodness(run / f"pronunciation_{name}", data / name, experts)
        for name in ("train", "dev", "test")
    )
    print(*tabulate(train, dev, test), sep="\n")


def tabulate(train: ScoredPhones, dev: ScoredPhones, test: ScoredPhones) -> list[str]:
    """The lines of a Markdown table: phones by each regression, and words by the last one."""
    people = test.speaker, test.group
    classes = np.rint(test.accuracy), classify(train, test)
    rows = [
        describe("goodness", test.accuracy, test.goodness, *people),
        describe("quadratic, classes", *classes, *people, error=True),
    ]
    for name, predicted in predict_all(train, dev, test).items():
        rows.append(describe(name, test.accuracy, predicted, *people, error=True))
    # A word has the mean of what the last regression makes of its phones.
    words, start, number = np.unique(test.word, return_index=True, return_counts=True)
    means = np.add.reduceat(predicted, start) / number
    people = test.speaker[start], test.group[start]
    return [
        f"{len(test.phone)} phones of test; {test.lost} were aligned otherwise than the experts"
        " have them",
        "",
        "| | correlation, 95 % over speakers | MSE | adults | children |",
        "|---|---|---|---|---|",
        *rows,
        describe("words", test.word_accuracy[words], means, *people),
    ]


def classify(train: ScoredPhones, test: ScoredPhones) -> np.ndarray:
    """The classes 0, 1, 2 [N] of the phones of test, as Kaldi's gop_to_score_eval.py has them."""
    inputs, accuracy = quadratic(train.goodness), np.rint(train.accuracy)
    fitted = fit(inputs, accuracy, train.phone, balanced=True)
    return np.rint(np.clip(fitted.predict(quadratic(test.goodness), test.phone), 0, BEST))


def predict_all(
    train: ScoredPhones, dev: ScoredPhones, test: ScoredPhones
) -> dict[str, np.ndarray]:
    """The accuracies [N] of the phones of test as each regression of train predicts them."""
    polynomial = fit(quadratic(train.goodness), train.accuracy, train.phone)
    mean, deviation = train.features.mean(axis=0), train.features.std(axis=0)
    inputs, dev_inputs, test_inputs = (
        np.column_stack([np.ones(len(x)), (x - mean) / np.maximum(deviation, 1e-6)])
        for x in (train.features, dev.features, test.features)
    )
    fits = {ridge: fit(inputs, train.accuracy, train.phone, ridge=ridge) for ridge in RIDGES}
    errors = {
        ridge: np.mean((fitted.predict(dev_inputs, dev.phone) - dev.accuracy) ** 2)
        for ridge, fitted in fits.items()
    }
    best = min(errors, key=errors.__getitem__)
    return {
        "quadratic": polynomial.predict(quadratic(test.goodness), test.phone),
        f"ridge ({best:g}) of all log posteriors": fits[best].predict(test_inputs, test.phone),
    }


def describe(
    name: str,
    accuracy: np.ndarray,
    predicted: np.ndarray,
    speaker: np.ndarray,
    group: np.ndarray,
    *,
    error: bool = False,
) -> str:
    """A row: all [N], those of adults, those of children."""
    by_group = [
        f"{correlate(predicted[mask], accuracy[mask], speaker[mask]).value:.3f}"
        for mask in (group == "adult", group == "child")
    ]
    mse = f"{np.mean((predicted - accuracy) ** 2):.3f}" if error else ""
    correlation = correlate(predicted, accuracy, speaker)
    return f"| {' | '.join((name, str(correlation), mse, *by_group))} |"


if __name__ == "__main__":
    sys.exit(main())
