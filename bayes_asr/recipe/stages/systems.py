"""What is trained and compared: one system, or those of an experiment."""

import difflib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.recipe.stages.choices import OptionError, Options
from bayes_asr.recipe.stages.recipe import Recipe, folders_in

SUFFIX = ".yaml"
HYPOTHESES = "hypotheses.txt"
FORM = "NAME = SYSTEM... < NAME = SYSTEM..."


@dataclass(frozen=True)
class Systems:
    """The names of systems, which are those of their folders below `out`.

    system_files: the configuration of each, none where the recipe's is all; compared: what
    `bayes-asr report` is told.
    """

    systems: tuple[str, ...]
    system_files: tuple[str, ...]
    compared: tuple[str, ...]


def choose_systems(options: Options, recipe: Recipe, root: Path) -> Systems:
    """One system, named by the last configuration or the recipe, or one for each of an experiment.

    Configurations go on top of those of an experiment, whose names the last one's is added to.
    An experiment of the recipe hides that of the same name in conf/experiments.
    """
    on_top = [Path(path).name.removesuffix(SUFFIX) for path in options.config[-1:]]
    if not options.experiment:
        return Systems((*on_top, recipe.name)[:1], (), (options.out,))
    named = options.experiment
    homes = Path(recipe.folder, "experiments"), root / "conf" / "experiments"
    inside = (str(home / named) for home in homes if (home / named).is_dir())
    folder = named if "/" in named else next(inside, str(homes[-1] / named))
    files = sorted(file.name for file in Path(folder).glob(f"[!.]*{SUFFIX}") if file.is_file())
    if not files:
        raise OptionError(
            f"--experiment: there are no configurations in {folder}"
            f" (known experiments: {folders_in(*homes)})"
        )
    systems = {
        name: "-".join((name, *on_top)) for name in (file.removesuffix(SUFFIX) for file in files)
    }
    folders = {name: f"{options.out}/{system}" for name, system in systems.items()}
    report = "-".join((f"report_{Path(folder).name}", *on_top))
    compared = [*folders.values(), "--out", f"{options.out}/{report}"]
    compared += state_hypotheses(Path(folder, HYPOTHESES), folders)
    return Systems(
        tuple(systems.values()), tuple(f"{folder}/{file}" for file in files), tuple(compared)
    )


def state_hypotheses(file: Path, folders: Mapping[str, str]) -> Iterator[str]:
    """What an experiment says beforehand, as options of `bayes-asr report`; nothing without a file.

    A line `NAME = SYSTEM... < NAME = SYSTEM...` says that the systems of one group have fewer
    errors than those of another; # begins a comment. folders: of each system. Raises InputError
    for a line of another form, and for a system that there is not.
    """
    lines = file.read_text("utf-8", "replace").splitlines() if file.is_file() else []
    for number, line in enumerate(lines, start=1):
        stated = line.partition("#")[0]
        if not stated.strip():
            continue
        where = f"{file}, line {number}"
        sides = [_read_group(side, folders, where) for side in stated.split("<")]
        if len(sides) != 2:
            raise InputError(f"{where}: a hypothesis is {FORM}")
        (_, fewer), (_, than) = sides
        if both := [system for system in fewer if system in than]:
            raise InputError(f"{where}: {both[0]} is on both sides")
        for option, (name, systems) in zip(("--group", "--against"), sides, strict=True):
            first, *others = (folders[system] for system in systems)
            yield from (option, f"{name}={first}", *others)


def _read_group(side: str, known: Collection[str], where: str) -> tuple[str, list[str]]:
    """What some systems are called together, and these."""
    name, _, members = (part.strip() for part in side.partition("="))
    if not name[:1].isalpha() or not members or "=" in members:
        raise InputError(f"{where}: a hypothesis is {FORM}")
    systems = list(dict.fromkeys(members.split()))
    for system in systems:
        if system not in known:
            near = difflib.get_close_matches(system, known, 1)
            advice = f"did you mean {near[0]}?" if near else f"there are {' '.join(known)}"
            raise InputError(f"{where}: the experiment has no system {system}; {advice}")
    return name, systems
