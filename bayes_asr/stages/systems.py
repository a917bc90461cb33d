"""What is trained and compared: one system, or those of an experiment."""

from dataclasses import dataclass
from pathlib import Path

from bayes_asr.stages.choices import OptionError, Options
from bayes_asr.stages.recipe import folders_in

SUFFIX = ".yaml"


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
    systems = ["-".join((file.removesuffix(SUFFIX), *on_top)) for file in files]
    report = "-".join((f"report_{Path(folder).name}", *on_top))
    compared = (*(f"{options.out}/{name}" for name in systems), "--out", f"{options.out}/{report}")
    return Systems(tuple(systems), tuple(f"{folder}/{file}" for file in files), compared)
