"""From an experiment of pytorch-kaldi to a configuration of ours.

The mapping is here and in `data_section`, `front_end`, `stacks`, `train_section`. Sections count
what these ask for, and command lines too; `unread` and `notes` say what becomes of the rest.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from bayes_asr.pytorch_kaldi.command_lines import CommandLine
from bayes_asr.pytorch_kaldi.data_section import (
    Translated,
    name_streams,
    name_targets,
    say_directories,
    say_samples,
    translate_data,
)
from bayes_asr.pytorch_kaldi.experiment import Experiment, read_epochs
from bayes_asr.pytorch_kaldi.front_end import translate_front_ends
from bayes_asr.pytorch_kaldi.notes import Notes
from bayes_asr.pytorch_kaldi.sections import (
    Option,
    Section,
    parse_flag,
    parse_number,
    parse_whole,
)
from bayes_asr.pytorch_kaldi.stacks import Origin, Stack, build_stack, list_costs, share_options
from bayes_asr.pytorch_kaldi.train_section import (
    translate_batches,
    translate_training,
    weigh_targets,
)
from bayes_asr.pytorch_kaldi.unread import say_outputs, say_unread

PRESET = "pytorch-kaldi.yaml"  # of conf
UNWRITTEN = "write-model-yourself"  # in the place of a unit

AUGMENTATION: Translated = {"noise": 0.0, "tempo": 0.0}  # which a recipe below may have

DECODING = {
    "min_active": "min_active",
    "max_active": "max_active",
    "beam": "beam",
    "latbeam": "lattice_beam",
    "acwt": "acoustic_scale",
}


@dataclass(frozen=True)
class Translation:
    """The translation of an experiment.

    keys: of our configuration, by section; notes: what could not be carried over; of_network: those
    of the notes that are of the network and its front ends; origins: what each layer and head of
    ours is there, by its name; nothing where ours has no such network.
    """

    keys: Translated
    notes: Notes
    of_network: Notes
    origins: Mapping[str, Origin]


def translate(
    experiment: Experiment, *, like_theirs: bool = False, without_data: bool = False
) -> Translation:
    """Say an experiment in our words.

    like_theirs: as far as the preset of theirs cannot say it; without_data: without what is to be
    done for its data.
    """
    notes, of_network = Notes(), Notes()
    sections = experiment.sections
    epochs, seed = read_epochs(sections["exp"]), sections["exp"].take("seed")
    names = name_streams(experiment)
    costs = _leave_out_idle(list_costs(experiment, notes), experiment, notes)
    targets = name_targets(experiment, costs)
    stack = build_stack(experiment, names, of_network, like_theirs=like_theirs) or Stack()
    if idle := stack.heads.keys() - targets.keys():
        stack.leave_out(idle)
    translated: Translated = {
        "seed": parse_whole(seed, seed.text),
        "data": translate_data(experiment, names, targets, notes),
        **translate_front_ends(experiment, names, of_network),
    }
    notes.include(of_network)
    if stack.heads:
        heads = {targets[label]: layer for label, layer in stack.heads.items()}
        shared = share_options(stack.layers)
        translated["model"] = {**shared, "stack": stack.layers, "heads": heads}
    else:
        line = sections["model"].take("model").line
        notes.say(line, "[model]", "there is no network of ours in its place: write model yourself")
        # No such unit: nothing is trained before that, rather than a network that nobody asked for.
        translated["model"] = {"unit": UNWRITTEN}
    translated["train"] = {
        "epochs": epochs,
        "device": "auto" if parse_flag(sections["exp"].take("use_cuda")) else "cpu",
        **AUGMENTATION,
        **translate_batches(experiment, epochs, notes),
        **translate_training(experiment, stack, targets, epochs, notes),
        **weigh_targets(experiment, costs, targets, notes),
    }
    translated["decode"] = _translate_decoding(sections, notes)
    say_samples(experiment, names, notes)
    if not without_data:
        say_directories(experiment, names, notes)
    say_outputs(experiment, costs, targets, notes)
    say_unread(experiment, names, targets, notes)
    # All that is understood was asked for above, so what is left has no counterpart.
    notes.say_rest(sections.values())
    origins = {targets.get(name, name): origin for name, origin in stack.origins.items()}
    return Translation(translated, notes, of_network, origins)


def _leave_out_idle(
    costs: Mapping[tuple[str, str], float], experiment: Experiment, notes: Notes
) -> dict[tuple[str, str], float]:
    """The costs that have a weight, and that of pdfs, which is refused without one."""
    targets, line = name_targets(experiment, costs), experiment.sections["model"].take("model").line
    kept = {}
    for (value, label), weight in costs.items():
        if weight or targets[label] == "pdfs":
            kept[value, label] = weight
        else:
            notes.say(line, f"[model] {label}", f"the weight of its cost is 0: no head for {value}")
    return kept


def _translate_decoding(sections: Mapping[str, Section], notes: Notes) -> Translated:
    section = sections.get("decoding")
    if section is None:
        return {}
    keys: Translated = {}
    for name, key in DECODING.items():
        if option := section.get(name):
            is_integer = key.endswith("active")
            keys[key] = parse_whole(option, option.text) if is_integer else parse_number(option)
    scoring = section.get("scoring_opts")
    return keys | (_translate_scoring(scoring, notes) if scoring else {})


def _translate_scoring(option: Option, notes: Notes) -> Translated:
    """Weights and penalties that Kaldi's scoring scripts try, which here are tried on dev."""
    # The shell takes the quotes off, and parts words at blanks alone.
    words = option.text.strip("\"'").split()
    line = CommandLine(option, option.line, words, notes, of_script=True)
    keys: Translated = {}
    ends = {name: line.take_whole(name) for name in ("min-lmwt", "max-lmwt")}
    low, high = ends.values()
    if low is not None and high is not None:
        if low > high:
            raise option.error(f"--min-lmwt {low} is above --max-lmwt {high}")
        # Their bounds include both ends.
        keys["lm_weights"] = list(range(low, high + 1))
    else:
        for name, weight in ends.items():
            if weight is not None:
                line.say(f"--{name} {weight}", "the other end is missing: set decode.lm_weights")
    if penalties := line.take_numbers("word-ins-penalty"):
        keys["insertion_penalties"] = penalties
        line.say("--word-ins-penalty", "is decode.insertion_penalties, chosen on dev")
    if line.take_flag("decode-mbr", default=False):
        keys["mbr"] = True
    if line.arguments:
        line.say(" ".join(line.arguments), "is no option: left out")
    line.say_pending()
    return keys


class _Plain(yaml.SafeDumper):
    """Writes values in full, as our configurations have no aliases."""

    def ignore_aliases(self, data: object) -> bool:
        """Say that no value is a repetition of another."""
        return True


def write_yaml(cfg: Path, translation: Translation, *, like_theirs: bool = False) -> str:
    """The text of our configuration for one of theirs."""
    keys = {**({"include": PRESET} if like_theirs else {}), **translation.keys}
    text = yaml.dump(keys, Dumper=_Plain, sort_keys=False, width=120, allow_unicode=True)
    return f"# From {cfg.name} of pytorch-kaldi.\n{text}"
