"""From an experiment of pytorch-kaldi to a configuration of ours.

The mapping is here and in `data_section`, `stacks`, `train_section`; `notes` holds what is said of
the rest.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from bayes_asr.pytorch_kaldi.data_section import (
    Translated,
    name_streams,
    name_targets,
    translate_data,
    translate_front_ends,
)
from bayes_asr.pytorch_kaldi.experiment import (
    Experiment,
    parse_flag,
    parse_number,
    parse_whole,
)
from bayes_asr.pytorch_kaldi.notes import Notes
from bayes_asr.pytorch_kaldi.sections import Section
from bayes_asr.pytorch_kaldi.stacks import Origin, Stack, build_stack, list_costs
from bayes_asr.pytorch_kaldi.train_section import (
    is_sequential,
    translate_batches,
    translate_training,
    weigh_targets,
)

DECODING = {
    "min_active": "min_active",
    "max_active": "max_active",
    "beam": "beam",
    "latbeam": "lattice_beam",
    "acwt": "acoustic_scale",
}
LMWT = re.compile(r"--(?P<end>min|max)-lmwt[ =](?P<weight>\d+)")


@dataclass(frozen=True)
class Translation:
    """The translation of an experiment.

    keys: of our configuration, by section; notes: what could not be carried over; origins: what
    each layer and head of ours is there, by its name; nothing where ours has no such network.
    """

    keys: Translated
    notes: Notes
    origins: Mapping[str, Origin]


def translate(experiment: Experiment) -> Translation:
    """Say an experiment in our words."""
    notes = Notes()
    sections = experiment.sections
    epochs, seed = (
        parse_whole(option := sections["exp"].take(name), option.text)
        for name in ("n_epochs_tr", "seed")
    )
    names = name_streams(experiment)
    costs = list_costs(experiment, notes)
    targets = name_targets(experiment, costs)
    stack = build_stack(experiment, names, notes)
    translated: Translated = {
        "seed": seed,
        "data": translate_data(experiment, names, targets, notes),
        **translate_front_ends(experiment, names, notes),
    }
    notes.use("exp", "seed", "n_epochs_tr", "use_cuda")
    if stack and stack.heads:
        heads = {targets[label]: layer for label, layer in stack.heads.items() if label in targets}
        translated["model"] = {"stack": stack.layers, "heads": heads}
    else:
        line = sections["model"].take("model").line
        notes.say(line, "[model]", "there is no network of ours in its place: write model yourself")
        stack = Stack()
    translated["train"] = {
        "epochs": epochs,
        "device": "auto" if parse_flag(sections["exp"].take("use_cuda")) else "cpu",
        **translate_batches(
            sections["batches"], epochs, notes, sequential=is_sequential(experiment)
        ),
        **translate_training(experiment, stack, targets, epochs, notes),
        **weigh_targets(experiment, costs, targets, notes),
    }
    translated["decode"] = _translate_decoding(sections, notes)
    for section, names_used in (
        ("data_use", ("train_with", "valid_with", "forward_with")),
        ("model", ("model",)),
        ("forward", ("forward_out", "normalize_with_counts_from")),
    ):
        notes.use(section, *names_used)
    # All that is understood was noted above, so what is left has no counterpart.
    notes.say_rest(dict(sections))
    origins = {targets.get(name, name): origin for name, origin in stack.origins.items()}
    return Translation(translated, notes, origins)


def _translate_decoding(sections: Mapping[str, Section], notes: Notes) -> Translated:
    section = sections.get("decoding")
    if section is None:
        return {}
    notes.use(section.name, *DECODING, "scoring_opts")
    keys: Translated = {}
    for name, key in DECODING.items():
        if option := section.options.get(name):
            is_integer = key.endswith("active")
            keys[key] = parse_whole(option, option.text) if is_integer else parse_number(option)
    scoring = section.options.get("scoring_opts")
    ends = {m["end"]: int(m["weight"]) for m in LMWT.finditer(scoring.text if scoring else "")}
    # Their bounds include both ends.
    if len(ends) == 2:
        keys["lm_weights"] = list(range(ends["min"], ends["max"] + 1))
    return keys
