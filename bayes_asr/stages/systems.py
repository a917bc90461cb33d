"""What is trained and compared: one system, or those of an experiment."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bayes_asr.errors import InputError
from bayes_asr.stages.choices import OptionError, Options
from bayes_asr.stages.recipe import folders_in

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


def choose_systems(options: Options, recipe: str, root: Path) -> Systems:
    """One system, named by the last configuration or the recipe, or one for each of an experiment.

    Configurations go on top of those of an experiment, whose names the last one's is added to.
    """
    on_top = [Path(path).name.removesuffix(SUFFIX) for path in options.config[-1:]]
    if not options.experiment:
        return Systems((*on_top, recipe)[:1], (), (options.out,))
    named = options.experiment
    folder = named if "/" in named else f"{root}/conf/experiments/{named}"
    files = sorted(file.name for file in Path(folder).glob(f"[!.]*{SUFFIX}") if file.is_file())
    if not files:
        raise OptionError(
            f"--experiment: there are no configurations in {folder}"
            f" (known experiments: {folders_in(root / 'conf' / 'experiments')})"
        )
    systems = {
        name: "-".join((name, *on_top)) for name in (file.removesuffix(SUFFIX) for file in files)
    }
    folders = {name: f"{options.out}/{system}" for name, system in systems.items()}
    report = "-".join((f"report_{Path(folder).name}", *on_top))
    compared = [*folders.values(), "--out", f"{options.out}/{report}"]
    for fewer, than in read_hypotheses(Path(folder, HYPOTHESES), list(systems)):
        compared += ["--group", *fewer.locate(folders), "--against", *than.locate(folders)]
    return Systems(
        tuple(systems.values()), tuple(f"{folder}/{file}" for file in files), tuple(compared)
    )


@dataclass(frozen=True)
class Group:
    """Systems of an experiment, and what they are called together."""

    name: str
    systems: tuple[str, ...]

    def locate(self, folders: Mapping[str, str]) -> tuple[str, ...]:
        """Their folders, the first with the name of the group."""
        first, *others = (folders[system] for system in self.systems)
        return f"{self.name}={first}", *others


def read_hypotheses(file: Path, systems: Sequence[str]) -> Iterator[tuple[Group, Group]]:
    """What an experiment says beforehand: one group of its systems has fewer errors than another.

    A hypothesis is a line `NAME = SYSTEM... < NAME = SYSTEM...`; # begins a comment. None where
    there is no file. Raises InputError for a line of another form, and for an unknown system.
    """
    if not file.is_file():
        return
    for number, line in enumerate(file.read_text("utf-8", "replace").splitlines(), start=1):
        stated = line.partition("#")[0]
        if stated.strip():
            where = f"{file}, line {number}"
            sides = stated.split("<")
            if len(sides) != 2:
                raise InputError(f"{where}: a hypothesis is {FORM}")
            fewer, than = (_read_group(side, systems, where) for side in sides)
            if both := sorted({*fewer.systems} & {*than.systems}):
                raise InputError(f"{where}: {both[0]} is on both sides")
            yield fewer, than


def _read_group(side: str, systems: Sequence[str], where: str) -> Group:
    name, _, members = (part.strip() for part in side.partition("="))
    if not name[:1].isalpha() or not members or "=" in members:
        raise InputError(f"{where}: a hypothesis is {FORM}")
    for member in members.split():
        if member not in systems:
            near = difflib.get_close_matches(member, systems, 1)
            advice = f"did you mean {near[0]}?" if near else f"there are {' '.join(systems)}"
            raise InputError(f"{where}: the experiment has no system {member}; {advice}")
    return Group(name, tuple(dict.fromkeys(members.split())))
