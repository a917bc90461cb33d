"""From sets, streams and labels of pytorch-kaldi to our sections `data`, `features`, `streams`."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bayes_asr.pytorch_kaldi.experiment import DataSet, Experiment, FeatureEntry
from bayes_asr.pytorch_kaldi.notes import Notes

FEATURES = "features"
USES = {"train": "train_with", "dev": "valid_with", "test": "forward_with"}
CMVN = re.compile(r"apply-cmvn\s+(?P<options>.*)")
DELTAS = re.compile(r"add-deltas\s+(?:--delta-order=(?P<order>\d)\s+)?ark:- ark:-")

Translated = dict[str, Any]


def name_streams(experiment: Experiment) -> dict[str, str]:
    """Our name of each stream that is read, by theirs: the first is `features`."""
    streams = experiment.sets[experiment.train[0]].streams
    sources = [
        operation.second for operation in experiment.operations if operation.kind == "compute"
    ]
    sources += [
        name
        for operation in experiment.operations
        if not operation.kind.startswith(("compute", "cost", "mse"))
        for name in (operation.first, operation.second)
    ]
    names = [name for name in streams if name in sources]
    return {name: FEATURES if number == 0 else name for number, name in enumerate(names)}


def name_targets(experiment: Experiment, costs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Our name of each label that is learnt, by theirs: `pdfs` is that which is decoded.

    costs: what is compared with a label, and the label.
    """
    labels = experiment.sets[experiment.train[0]].labels
    written = experiment.sections["forward"].take("forward_out").text.split(",")[0].strip()
    # False sorts before True: the label whose outputs are written comes first.
    ordered = [label for _, label in sorted(costs, key=lambda cost: cost[0] != written)]
    ordered = list(dict.fromkeys(ordered))
    if not ordered:
        return {}
    directory = labels[ordered[0]]["lab_folder"]
    kinds = {False: "pdfs", True: "monophones"}
    return {
        name: kinds[labels[name].of_phones]
        if labels[name]["lab_folder"] == directory
        else f"{name}.{kinds[labels[name].of_phones]}"
        for name in ordered
    }


def translate_data(
    experiment: Experiment, names: Mapping[str, str], targets: Mapping[str, str], notes: Notes
) -> Translated:
    # What they validate on is forwarded too, and is dev here.
    tested = [name for name in experiment.forward if name not in experiment.valid]
    sets_by_use = {"train": experiment.train, "dev": experiment.valid, "test": tested}
    data: Translated = {}
    for use, set_names in sets_by_use.items():
        if len(set_names) > 1 and use != "train":
            option = experiment.sections["data_use"].take(USES[use])
            skipped = ", ".join(set_names[1:])
            notes.say(option.line, f"[data_use] {skipped}", f"{use} is {set_names[0]} alone here")
        sets = [experiment.sets[name] for name in set_names]
        set_targets = {} if use == "test" else targets
        data[use] = _translate_sets(sets if use == "train" else sets[:1], names, set_targets, notes)
    if not tested:
        del data["test"]
    graphs = [
        labels["lab_graph"]
        for name in experiment.forward
        for labels in experiment.sets[name].labels.values()
    ]
    data["graph"] = list(dict.fromkeys(filter(None, graphs)))[:1]
    for section in experiment.sections:
        if section.startswith("dataset"):
            notes.use(section, "fea", "lab")
    return data


def _translate_sets(
    sets: Sequence[DataSet], names: Mapping[str, str], targets: Mapping[str, str], notes: Notes
) -> Translated:
    """Directories of a set of ours, which may be several of theirs."""
    keys: Translated = {}
    several = "_all_of" if len(sets) > 1 else ""
    for source, target in names.items():
        folders = [
            _find_directory(data, data.streams[source], notes)
            for data in sets
            if source in data.streams
        ]
        if target == FEATURES:
            keys[f"features{several}"] = folders
        else:
            keys.setdefault(f"streams{several}", {})[target] = folders
    for source, target in targets.items():
        folders = [data.labels[source]["lab_folder"] for data in sets if source in data.labels]
        # A dot in our name marks a label set beside the alignments.
        if folders and "." not in target:
            keys[f"alignments{several}"] = folders
        elif folders:
            keys.setdefault(f"labels{several}", {})[source] = folders
    return keys


def _find_directory(data: DataSet, stream: FeatureEntry, notes: Notes) -> str:
    """The data directory of a table; where it is called otherwise than feats.scp, one to make."""
    table = Path(stream.table)
    if table.name == "feats.scp":
        return str(table.parent)
    directory = str(table.with_suffix(""))
    tables = next((labels["lab_data_folder"] for labels in data.labels.values()), str(table.parent))
    notes.say(
        stream.line,
        f"fea_lst = {table}",
        f"make a data directory of it: mkdir -p {directory} && cp {table} {directory}/feats.scp &&"
        f" cp {tables.rstrip('/')}/{{utt2spk,text}} {directory}",
    )
    return directory


def translate_front_ends(
    experiment: Experiment, names: Mapping[str, str], notes: Notes
) -> Translated:
    data = experiment.sets[experiment.train[0]]
    streams = {
        target: _translate_commands(data.streams[source], notes) for source, target in names.items()
    }
    front_ends = {FEATURES: streams.pop(FEATURES, {}), "streams": streams}
    return {key: value for key, value in front_ends.items() if value}


def _translate_commands(stream: FeatureEntry, notes: Notes) -> Translated:
    """The front end of a stream: its commands, where these are Kaldi's usual ones, and context."""
    options: Translated = {"left_context": stream.left, "right_context": stream.right}
    for command in filter(None, (part.strip() for part in stream.commands.split("|"))):
        if cmvn := CMVN.fullmatch(command):
            variances = "--norm-vars=true" in cmvn["options"]
            options["cmvn"] = "mean-variance" if variances else "mean"
            notes.say(
                stream.line,
                f"{stream.name}: apply-cmvn",
                "statistics are those of cmvn.scp of the data directory, or where there is none, of"
                " the speaker's utterances",
            )
        elif deltas := DELTAS.fullmatch(command):
            # add-deltas appends two derivatives where it is not told.
            options["deltas"] = int(deltas["order"] or 2)
        else:
            notes.say(stream.line, f"{stream.name}: {command[:60]}", "no command is run: apply it")
    return options
