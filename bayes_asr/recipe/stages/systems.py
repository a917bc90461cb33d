"""The systems that are trained and compared: one, or those of an experiment."""

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import read_bytes
from bayes_asr.base.installed import split_system
from bayes_asr.recipe.stages.options import OptionError, RecipeOptions
from bayes_asr.recipe.stages.recipe import Recipe

SUFFIX = ".yaml"
HYPOTHESES = "hypotheses.txt"
FORM = "NAME = SYSTEM... < NAME = SYSTEM..."


@dataclass(frozen=True)
class Systems:
    """The names of systems, which are those of their folders below `out`.

    files: the configuration of each, none where the recipe's is all; compared: the arguments of
    `bayes-asr report`.
    """

    names: tuple[str, ...]
    files: tuple[str, ...]
    compared: tuple[str, ...]


def find_experiment(options: RecipeOptions, recipe: Recipe, root: Path) -> Path | None:
    """A list of systems, or a folder of configurations; None without --experiment.

    An experiment of the recipe, or of one that it builds on, hides that of the same name in
    conf/experiments. OptionError where there is none.
    """
    if not options.experiment:
        return None
    name = options.experiment
    homes = [Path(home, "experiments") for home in (*recipe.folders, f"{root}/conf")]
    # A name with a slash is a path, and any other is looked for in the known folders.
    candidates = (
        [Path(name)]
        if "/" in name
        else [path for home in homes for path in (home / f"{name}{SUFFIX}", home / name)]
    )
    for path in candidates:
        if path.is_file() or any(_configurations(path)):
            return path
    experiments = {path.name.removesuffix(SUFFIX) for home in homes for path in home.glob("[!.]*")}
    raise OptionError(
        f"--experiment: there are no configurations in {candidates[-1]}"
        f" (known experiments: {' '.join(sorted(experiments))})"
    )


def choose_systems(options: RecipeOptions, recipe: Recipe, root: Path) -> Systems:
    """One system, named by the last configuration or the recipe, or one for each of an experiment.

    Configurations go on top of those of an experiment, whose names the last one's is added to.
    """
    on_top = [name_system(path) for path in options.config[-1:]]
    experiment = find_experiment(options, recipe, root)
    if experiment is None:
        # The last configuration names the system, or else the recipe does.
        return Systems((*on_top, recipe.name)[:1], (), (options.out,))
    if experiment.is_file():
        from bayes_asr.config.systems import read_systems  # PyYAML is there after setup alone

        names, hypotheses = read_systems(experiment)
        files = [f"{experiment}#{name}" for name in names]
    else:
        files = [str(path) for path in _configurations(experiment)]
        names = [name_system(file) for file in files]
        hypotheses = list(_read_lines(experiment / HYPOTHESES))
    # A configuration on top makes other systems, which get other folders.
    systems = {name: "-".join((name, *on_top)) for name in names}
    folders = {name: f"{options.out}/{system}" for name, system in systems.items()}
    report = "-".join((f"report_{name_system(str(experiment))}", *on_top))
    compared = [*folders.values(), "--out", f"{options.out}/{report}"]
    compared += state_hypotheses(hypotheses, folders)
    return Systems(tuple(systems.values()), tuple(files), tuple(compared))


def name_system(configuration: str) -> str:
    """The name of a configuration: of its file, or of `FILE#SYSTEM` the system's."""
    file, system = split_system(Path(configuration))
    return system or file.name.removesuffix(SUFFIX)


def _configurations(directory: Path) -> Iterator[Path]:
    """The configurations of a folder in the order of their names, spelled as the folder is."""
    return iter(sorted(path for path in directory.glob(f"[!.]*{SUFFIX}") if path.is_file()))


def _read_lines(file: Path) -> Iterator[tuple[str, str]]:
    """Hypotheses of a file, and their lines; # begins a comment. Nothing without the file."""
    lines = read_bytes(file).decode("utf-8", "replace").splitlines() if file.is_file() else []
    for number, line in enumerate(lines, start=1):
        if hypothesis := line.partition("#")[0].strip():
            yield hypothesis, f"{file}, line {number}"


def state_hypotheses(
    hypotheses: Iterable[tuple[str, str]], folders: Mapping[str, str]
) -> Iterator[str]:
    """Options of `bayes-asr report` for what an experiment says beforehand.

    A hypothesis `NAME = SYSTEM... < NAME = SYSTEM...` says that the systems of one group have fewer
    errors than those of another; with each comes where it is written. folders: of each system.
    Raises InputError for one of another form, and for a system that there is not.
    """
    for hypothesis, where in hypotheses:
        sides = [_read_group(side, folders, where) for side in hypothesis.split("<")]
        if len(sides) != 2:
            raise InputError(f"{where}: a hypothesis is {FORM}")
        (_, better), (_, worse) = sides
        if both := [system for system in better if system in worse]:
            raise InputError(f"{where}: {both[0]} is on both sides")
        for option, (name, systems) in zip(("--group", "--against"), sides, strict=True):
            # An option takes NAME=FOLDER as one word, and each further folder as another.
            nearest, *further = (folders[system] for system in systems)
            yield from (option, f"{name}={nearest}", *further)


def _read_group(side: str, names: Collection[str], where: str) -> tuple[str, list[str]]:
    """The name of a group of systems, and these."""
    name, _, members = (part.strip() for part in side.partition("="))
    if not name[:1].isalpha() or not members or "=" in members:
        raise InputError(f"{where}: a hypothesis is {FORM}")
    systems = list(dict.fromkeys(members.split()))
    for system in systems:
        if system not in names:
            match = difflib.get_close_matches(system, names, 1)
            advice = f"did you mean {match[0]}?" if match else f"there are {' '.join(names)}"
            raise InputError(f"{where}: the experiment has no system {system}; {advice}")
    return name, systems
