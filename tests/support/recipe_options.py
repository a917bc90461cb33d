"""Options of run.sh as its shell hands them on, which names every one."""

from bayes_asr.recipe.stages.options import RecipeOptions, read_options

DEFAULTS = (
    *("--recipe=mini", "--kaldi-dir=", "--corpus=", "--out=", "--stage=0", "--stop-stage=7"),
    *("--nj=2", "--nproc=", "--seeds=1", "--experiment=", "--dim=", "--features=", "--force="),
)


def options_of(*words: str) -> RecipeOptions:
    """The options of a command line whose words are `--NAME=VALUE`."""
    return read_options((*DEFAULTS, *words))
