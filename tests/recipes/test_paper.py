"""What the recipes and the experiments of this repository train, together, key by key."""

from pathlib import Path
from typing import Any

import pytest

from bayes_asr.config.changes import describe_changes
from bayes_asr.config.merge import load
from bayes_asr.config.schema import Config, differences
from tests.support.experiments import list_systems, name_of
from tests.support.places import CONF, RECIPES

CORPORA = [  # of transcribed speech: what tells utterances apart has experiments of its own
    path for path in sorted(RECIPES.glob("*/config.yaml")) if "classes:" not in path.read_text()
]
FIGURES = list_systems("figure1", "figure2")
BASELINES = list_systems("pytorch-kaldi")
# Section 5 of Bittar & Garner (2021), and for the corpora its optimizers.
SYSTEM = {
    "model.layers": 4,
    "model.units": 550,
    "model.bidirectional": True,
    "model.norm": "batch",
    "model.dropout": 0.2,
    "model.hand_on": "log",
    "train.epochs": 24,
}
OPTIMIZERS = {"timit": "adam", "ami": "rmsprop", "librispeech": "rmsprop"}
# What pytorch-kaldi's configurations say beside that: layers, learning rate; all of them RMSprop.
PYTORCH_KALDI = {
    "pk-gru": (5, 4e-4),
    "pk-li-gru": (5, 4e-4),
    "pk-lstm": (4, 1.6e-3),
    "pk-rnn-relu": (4, 3.2e-4),
}
UNITS = {
    "rnn": {"unit": "rnn", "activation": "tanh"},
    "rnn-relu": {"unit": "rnn", "activation": "relu"},
    "rnn-sigmoid": {"unit": "rnn", "activation": "sigmoid"},
    "bru": {"unit": "bru"},
    "bru-log": {"unit": "bru", "form": "log"},
    "lstm": {"unit": "lstm"},
    "gru": {"unit": "gru"},
    "li-gru": {"unit": "li-gru", "activation": "relu"},
    "li-gru-softplus": {"unit": "li-gru", "activation": "softplus"},
    "li-bru": {"unit": "li-bru"},
}
# The sample of TIMIT is small; its figures are those of these settings.
SAMPLE = {
    "data.train.features": ("data-fmllr-tri3/train", "data/train"),
    "data.train.alignments": ("exp/tri3_ali",),
    "data.dev.features": ("data-fmllr-tri3/dev", "data/dev"),
    "data.dev.alignments": ("exp/tri3_ali_dev",),
    "data.test.features": ("data-fmllr-tri3/test", "data/test"),
    "data.graph": ("exp/tri3/graph",),
    "data.expected_dims": (40, 50),
    "model.layers": 3,
    "model.units": 256,
    "train.epochs": 40,
    "train.batch_sequences": 2,
    "train.schedule": "cosine",
    "train.noise": 0.4,
    "train.tempo": 0.1,
    "decode.acoustic_scale": 0.4,
    "decode.lm_weights": (1, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 10, 12),
    "score.metric": "per",
    "score.phone_map": 39,
}


def named(path: Path) -> str:
    """A recipe by its folder, a system by its name."""
    return path.parent.name if path.name == "config.yaml" else name_of(path)


def value(config: Config, key: str) -> Any:
    section: Any = config
    for part in key.split("."):
        section = getattr(section, part)
    return section


@pytest.mark.parametrize("recipe", OPTIMIZERS)
@pytest.mark.parametrize("experiment", FIGURES, ids=named)
def test_figures_are_of_the_system_of_the_paper(recipe: str, experiment: Path) -> None:
    config = load([RECIPES / recipe / "config.yaml", experiment])
    expected = SYSTEM | {"train.optimizer": OPTIMIZERS[recipe]}
    assert {key: value(config, key) for key in expected} == expected
    unit = {"form": None, "activation": None, "peepholes": False} | UNITS[name_of(experiment)]
    assert {key: getattr(config.model, key) for key in unit} == unit


@pytest.mark.parametrize("recipe", CORPORA, ids=named)
@pytest.mark.parametrize("experiment", FIGURES, ids=named)
def test_figure_changes_nothing_but_the_unit(recipe: Path, experiment: Path) -> None:
    changed = differences(load([recipe]), load([recipe, experiment]))
    assert set(changed) <= {"model.unit", "model.form", "model.activation"}
    assert describe_changes([recipe, experiment]) == []


@pytest.mark.parametrize("recipe", CORPORA, ids=named)
@pytest.mark.parametrize("experiment", BASELINES, ids=named)
def test_baseline_is_that_of_pytorch_kaldi_on_the_corpus_as_it_is(
    recipe: Path, experiment: Path
) -> None:
    """Its network and training are its subject; what it changes of the recipe's is announced."""
    alone, config = load([recipe]), load([recipe, experiment])
    layers, rate = PYTORCH_KALDI[name_of(experiment)]
    expected = SYSTEM | {
        "model.layers": layers,
        "model.tied_directions": True,
        "train.optimizer": "rmsprop",
        "train.learning_rate": rate,
        "train.schedule": "newbob",
    }
    assert {key: value(config, key) for key in expected} == expected
    said = " ".join(describe_changes([recipe, experiment]))
    of_nobody = load([])
    for key, (before, _) in differences(alone, config).items():
        assert not key.startswith(("data.", "features.", "decode.", "score."))
        assert key not in ("train.batch_sequences", "train.monophone_weight")
        assert before == value(of_nobody, key) or f"{key} {before} -> " in said


def test_sample_is_set_as_its_figures_are() -> None:
    sample = load([RECIPES / "timit_sample" / "config.yaml"])
    changed = {key: value(sample, key) for key in differences(load([]), sample)}
    assert changed == SAMPLE


@pytest.mark.parametrize("recipe", CORPORA, ids=named)
def test_system_of_the_paper_leaves_to_a_recipe_what_is_the_corpus(recipe: Path) -> None:
    changed = differences(load([recipe]), load([recipe, CONF / "paper.yaml"]))
    of_corpora = ("optimizer", "learning_rate", "batch_sequences", "monophone_weight")
    assert not [key for key in changed if not key.startswith(("model.", "train."))]
    assert not {f"train.{key}" for key in of_corpora} & changed.keys()
