"""What run.sh refuses: options that a recipe has no use for."""

from pathlib import Path

import pytest

from bayes_asr.recipe.stages.checks import check_options
from bayes_asr.recipe.stages.options import OptionError
from bayes_asr.recipe.stages.recipe import Recipe
from tests.support.recipe_options import options_of


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--seeds=0 --nj=0", "--seeds 0: at least one"),
        ("--nproc=0", "--nproc 0: at least one"),
        ("--stage=8 --stop-stage=9", "--stage 8 --stop-stage 9: no stage of 0 to 7"),
        ("--corpus=. --kaldi-dir=.", "exclude each other"),
        ("--corpus=/absent", "--corpus /absent: there is no such folder"),
        ("--corpus=.", "recipe made is not available: recipe.offers in made/config.yaml"),
        ("--dim=40 --kaldi-dir=.", "--dim and --kaldi-dir exclude each other"),
        ("--dim=40", "--dim 40: choosing the feature dimension is not available"),
        ("--kaldi-dir=/absent", "--kaldi-dir /absent: there is no such folder"),
        ("--out=/dev/null", "--out /dev/null: /dev/null is no folder; name another place"),
        ("--out=/dev/null/x", "--out /dev/null/x: /dev/null is no folder; name another place"),
        ("", "the recipe made starts from the data and exp folders of a Kaldi experiment"),
        ("--kaldi-dir=. --set=seed=1", "the seeds are chosen by --seeds"),
        ("--kaldi-dir=. --set=a=1 --stage=4", "--set a=1: a run takes its configuration from"),
        ("--kaldi-dir=. --config=/absent", "--config /absent: there is no such file"),
    ],
)
def test_what_a_recipe_has_no_use_for_is_refused(words: str, message: str) -> None:
    with pytest.raises(OptionError, match=message.replace(".", r"\.")):
        check_options(options_of(*words.split()), Recipe("made"), by_gmms=False)


def test_where_a_corpus_is_found_is_said(tmp_path: Path) -> None:
    (tmp_path / "prepare.py").touch()
    recipe = Recipe(str(tmp_path), offers=("corpus",), source="git clone URL, free")
    with pytest.raises(OptionError, match=r"or --kaldi-dir \(git clone URL, free\)"):
        check_options(options_of(), recipe, by_gmms=False)
