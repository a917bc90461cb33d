"""Questions of the shell: `python -m bayes_asr.recipe.stages SCRIPT QUESTION ROOT OPTION...`.

Each answer is a word a line. Several questions have commas between them, and their answers each its
question and a tab before it. ROOT is the checkout or the package, OPTIONs are all of run.sh.
"""

import bayes_asr.recipe.stages.interruption  # noqa: F401 - first: Ctrl-C may come while the others load

# isort: split
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

from bayes_asr.base.errors import InputError, complaint
from bayes_asr.recipe.stages.options import OptionError, RecipeOptions, read_options


def main(script: str, asked: str, root: str, *words: str) -> int:
    """Answer on standard output; returns 2 for a mistake in options, 1 for other bad input."""
    questions = asked.split(",")
    try:
        options = read_options(words)
        for question in questions:
            before = f"{question}\t" if len(questions) > 1 else ""
            for line in QUESTIONS[question](options, Path(root)):
                print(f"{before}{line}")
    except (InputError, OSError) as error:
        print(f"{script}: {complaint(error)}", file=sys.stderr)
        return 2 if isinstance(error, OptionError) else 1
    return 0


# Imports wait for their question: `refuse` has the standard library alone.


def refuse(options: RecipeOptions, root: Path) -> Iterable[str]:
    """Nothing; raises OptionError for a mistake that shows without a configuration."""
    from bayes_asr.base.files import read_text
    from bayes_asr.recipe.stages.checks import check_alone
    from bayes_asr.recipe.stages.recipe import CONFIG, locate_recipe
    from bayes_asr.recipe.stages.systems import find_experiment

    check_alone(options)
    recipe = locate_recipe(options.recipe, root)
    # A recipe that builds on another one, whose configuration it names, may take its experiments;
    # `check`, which reads configurations, finds them.
    if CONFIG not in read_text(Path(recipe.file(CONFIG))):
        find_experiment(options, recipe, root)
    return ()


def check(options: RecipeOptions, root: Path) -> Iterable[str]:
    """Notices; raises OptionError or InputError for whatever would end a stage."""
    from bayes_asr.recipe.stages.checks import check_options
    from bayes_asr.recipe.stages.configurations import check_configurations
    from bayes_asr.recipe.stages.preparation import trains_gmms
    from bayes_asr.recipe.stages.recipes import find_recipe, recognise_corpus
    from bayes_asr.recipe.stages.systems import choose_systems

    recipe = find_recipe(options.recipe, root)
    systems = choose_systems(options, recipe, root)
    check_options(options, recipe, by_gmms=trains_gmms(options, recipe))
    yield from check_configurations(options, recipe, systems, root)
    if options.corpus:
        yield from recognise_corpus(Path(options.corpus), recipe, root)


def folders(options: RecipeOptions, root: Path) -> Iterable[str]:
    """The folders of the recipe and of those that it builds on."""
    from bayes_asr.recipe.stages.recipes import find_recipe

    return find_recipe(options.recipe, root).folders


def prepare_options(options: RecipeOptions, root: Path) -> Iterable[str]:
    """The options of the recipe's prepare.py."""
    from bayes_asr.recipe.stages import preparation
    from bayes_asr.recipe.stages.recipes import find_recipe

    return preparation.prepare_options(options, find_recipe(options.recipe, root))


def forget_changed_corpus(options: RecipeOptions, root: Path) -> Iterator[str]:
    """A notice where the corpus, or a model, is not what was prepared, and no stamp any more."""
    from bayes_asr.recipe.stages.preparation import forget_changed, read_folders
    from bayes_asr.recipe.stages.recipes import find_recipe

    if options.corpus:
        folders = read_folders(options, find_recipe(options.recipe, root))
        yield from filter(None, [forget_changed(folders, Path(options.out))])


def max_skipped(options: RecipeOptions, root: Path) -> Iterable[str]:
    """The share of utterances that may lack features, empty where it is the default."""
    from bayes_asr.recipe.stages import preparation
    from bayes_asr.recipe.stages.recipes import find_recipe

    yield preparation.max_skipped(options, find_recipe(options.recipe, root))


def systems(options: RecipeOptions, root: Path) -> Iterator[str]:
    """Verb, name and configuration of each system, with tabs between them."""
    from bayes_asr.recipe.stages.configurations import recognisers
    from bayes_asr.recipe.stages.recipes import find_recipe
    from bayes_asr.recipe.stages.systems import choose_systems

    recipe = find_recipe(options.recipe, root)
    trained = choose_systems(options, recipe, root)
    verbs = recognisers(options, recipe, trained, root)
    for row in zip(verbs, trained.names, trained.files or ("",), strict=True):
        yield "\t".join(row)


def compared(options: RecipeOptions, root: Path) -> Iterable[str]:
    """The arguments of `bayes-asr report`."""
    from bayes_asr.recipe.stages.recipes import find_recipe
    from bayes_asr.recipe.stages.systems import choose_systems

    return choose_systems(options, find_recipe(options.recipe, root), root).compared


def run_of(options: RecipeOptions) -> tuple[Path, Path]:
    """The run that --out names, and the folder of its data."""
    from bayes_asr.recipe.stages.run_inputs import find_data

    run = Path(options.out)
    return run, find_data(run, options.kaldi_dir)


def ignored(options: RecipeOptions, root: Path) -> Iterable[str]:
    """Notices of what a run, named by --out, decodes by though its configuration has changed."""
    from bayes_asr.recipe.stages.configurations import describe_ignored
    from bayes_asr.recipe.stages.recipes import find_recipe
    from bayes_asr.recipe.stages.systems import choose_systems

    if options.stage <= 3:
        return ()
    recipe = find_recipe(options.recipe, root)
    systems = choose_systems(options, recipe, root)
    return describe_ignored(Path(options.out), options, recipe, systems, root)


def features(name: str, options: RecipeOptions, root: Path) -> Iterable[str]:
    """The tables of features that a run, named by --out, has of a set."""
    from bayes_asr.recipe.stages.run_inputs import list_features

    return map(str, list_features(*run_of(options), name))


def graph(options: RecipeOptions, root: Path) -> Iterable[str]:
    """The files of the graph by which a run, named by --out, decodes."""
    from bayes_asr.recipe.stages.run_inputs import list_graph

    return map(str, list_graph(*run_of(options)))


def settings(options: RecipeOptions, root: Path) -> Iterable[str]:
    """Digests of the settings by which a run, named by --out, forwards and decodes."""
    from bayes_asr.recipe.stages.run_inputs import list_settings

    return list_settings(Path(options.out))


def references(options: RecipeOptions, root: Path) -> Iterable[str]:
    """What dev and test of a run, named by --out, are scored against, and by which rules."""
    from bayes_asr.recipe.stages.run_inputs import list_references

    return map(str, list_references(*run_of(options)))


QUESTIONS: Mapping[str, Callable[[RecipeOptions, Path], Iterable[str]]] = {
    "refuse": refuse,
    "check": check,
    "folders": folders,
    "prepare-options": prepare_options,
    "forget-changed-corpus": forget_changed_corpus,
    "max-skipped": max_skipped,
    "systems": systems,
    "compared": compared,
    "features-dev": partial(features, "dev"),
    "features-test": partial(features, "test"),
    "graph": graph,
    "references": references,
    "settings": settings,
    "ignored": ignored,
}

if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
