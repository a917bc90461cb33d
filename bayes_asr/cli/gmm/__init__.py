"""bayes-asr gmm: Gaussian mixtures in Kaldi's steps, one file for each kind of step."""

import argparse
from importlib import import_module
from types import ModuleType

from bayes_asr.cli.arguments import Parser

STEPS = {
    "lang": "make the lang folder of a dictionary, as prepare_lang.sh",
    "mono": "train monophones from states of equal lengths, as train_mono.sh",
    "deltas": "train triphones on cepstra and their derivatives, as train_deltas.sh",
    "lda-mllt": "train triphones on spliced cepstra, as train_lda_mllt.sh",
    "sat": "train speaker-adapted triphones, as train_sat.sh",
    "align": "align transcripts, as align_si.sh or, where the model is adapted, align_fmllr.sh",
    "decode": "decode, as decode.sh or, where the model is adapted, decode_fmllr.sh",
    "score": "count errors of what was decoded; the LM weight is chosen on dev",
    "baseline": "decode a recipe's sets by the GMM of its alignments, as its networks are decoded",
    "chain-tree": "make tree, alignments and denominator graph of LF-MMI, as chain/build_tree.sh",
    "features": "write what the speaker-adapted model reads, as make_fmllr_feats.sh",
}
TRAININGS = ("mono", "deltas", "lda-mllt", "sat")


class StepParser(Parser):
    """The parser of a step, whose module is imported when the step is chosen: it takes a second."""

    def parse_known_args(  # type: ignore[override]  # argparse's own has overloads
        self, args: list[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Add the step's arguments first."""
        module_of(self.prog.split()[-1]).add_arguments(self)
        return super().parse_known_args(args, namespace)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the steps."""
    steps = parser.add_subparsers(
        dest="step", metavar="STEP", required=True, parser_class=StepParser
    )
    for step, what in STEPS.items():
        steps.add_parser(step, help=what, description=what)


def run(args: argparse.Namespace) -> None:
    """Run the step."""
    module_of(args.step).run(args)


def module_of(step: str) -> ModuleType:
    """The module of a step."""
    return import_module(
        f"bayes_asr.cli.gmm.{'train' if step in TRAININGS else step.replace('-', '_')}"
    )
