"""What run.sh refuses: options that there are not, and those that a recipe has no use for."""

from pathlib import Path

import pytest

from bayes_asr.recipe.stages.checks import check_options
from bayes_asr.recipe.stages.choices import OptionError, parse
from bayes_asr.recipe.stages.recipe import Recipe


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--speed=3"], "unrecognized arguments: --speed=3"),
        (["--stage=two"], "argument --stage: invalid int value: 'two'"),
        (["--out"], "argument --out: expected one argument"),
        (["--recip=mini"], "unrecognized arguments: --recip=mini"),
    ],
)
def test_what_is_no_option_is_a_mistake(words: list[str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse(words)


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
        check_options(parse(words.split()), Recipe("made"), by_gmms=False)


def test_where_a_corpus_is_found_is_said(tmp_path: Path) -> None:
    (tmp_path / "prepare.py").touch()
    recipe = Recipe(str(tmp_path), offers=("corpus",), source="git clone URL, free")
    with pytest.raises(OptionError, match=r"or --kaldi-dir \(git clone URL, free\)"):
        check_options(parse([]), recipe, by_gmms=False)
