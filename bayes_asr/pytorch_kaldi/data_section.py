"""From sets, streams and labels of pytorch-kaldi to our sections `data`, `features`, `streams`."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from bayes_asr.pytorch_kaldi.experiment import DataSet, Experiment, FeatureEntry
from bayes_asr.pytorch_kaldi.notes import Notes

FEATURES = "features"
TABLE = "feats.scp"
USES = {"train": "train_with", "dev": "valid_with", "test": "forward_with"}

Translated = dict[str, Any]


def name_streams(experiment: Experiment) -> dict[str, str]:
    """Our name of each stream that is read, by theirs: the first is `features`, and no other."""
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
    free = next(name for n in count(2) if (name := f"{FEATURES}{n}") not in streams)
    ours = {FEATURES: free, **dict.fromkeys(names[:1], FEATURES)}
    return {name: ours.get(name, name) for name in names}


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
    # The set that they validate on first is dev here, also where it is forwarded.
    tested = [name for name in experiment.forward if name != experiment.valid[0]]
    sets_by_use = {"train": experiment.train, "dev": experiment.valid, "test": tested}
    data: Translated = {}
    for use, set_names in sets_by_use.items():
        if len(set_names) > 1 and use != "train":
            option = experiment.sections["data_use"].take(USES[use])
            skipped = ", ".join(set_names[1:])
            notes.say(option.line, f"[data_use] {skipped}", f"{use} is {set_names[0]} alone here")
        sets = [experiment.sets[name] for name in set_names]
        set_targets = {} if use == "test" else targets
        data[use] = _translate_sets(sets if use == "train" else sets[:1], names, set_targets)
    if not tested:
        del data["test"]
    data["graph"] = _choose_graph(experiment, notes)
    return data


def _choose_graph(experiment: Experiment, notes: Notes) -> list[str]:
    """The graph of the first set that is forwarded; others are said."""
    forwarded = [block for name in experiment.forward for block in experiment.sets[name].blocks]
    graphs = [block["lab_graph"] for block in forwarded if block["lab_graph"]][:1]
    for name in experiment.used:
        for block in experiment.sets[name].blocks:
            if block["lab_graph"] and block["lab_graph"] not in graphs:
                why = f"the graph is {graphs[0] if graphs else 'of the test set'}: left out"
                notes.say(block.line, f"lab_graph = {block['lab_graph']}", why)
    return graphs


def _translate_sets(
    sets: Sequence[DataSet], names: Mapping[str, str], targets: Mapping[str, str]
) -> Translated:
    """Directories of a set of ours, which may be several of theirs."""
    keys: Translated = {}
    several = "_all_of" if len(sets) > 1 else ""
    for source, target in names.items():
        folders = [_find_directory(take_stream(data, source)) for data in sets]
        if target == FEATURES:
            keys[f"features{several}"] = folders
        else:
            keys.setdefault(f"streams{several}", {})[target] = folders
    for source, target in targets.items():
        folders = [_take_label_folder(data, source) for data in sets]
        # A dot in our name marks a label set beside the alignments.
        if "." not in target:
            keys[f"alignments{several}"] = folders
        else:
            keys.setdefault(f"labels{several}", {})[source] = folders
    return keys


def take_stream(data: DataSet, name: str) -> FeatureEntry:
    """A stream of a set; InputError where it is missing."""
    if name not in data.streams:
        raise data.section.take("fea").error(f"there is no stream {name}, which [model] reads")
    return data.streams[name]


def _take_label_folder(data: DataSet, name: str) -> str:
    """The directory of the alignments of a label; InputError where it is missing."""
    if name not in data.labels or not data.labels[name]["lab_folder"]:
        raise data.section.take("lab").error(f"there is no lab_folder of {name}, which is learnt")
    return data.labels[name]["lab_folder"]


def _find_directory(stream: FeatureEntry) -> str:
    """The data directory of a table; where it is called otherwise than feats.scp, one to make."""
    table = Path(stream.table)
    return str(table.parent if table.name == TABLE else table.with_suffix(""))


def _find_texts(data: DataSet, stream: FeatureEntry) -> str:
    """The directory whose utt2spk, text and wav.scp go with a table."""
    table = Path(stream.table)
    folders = (block["lab_data_folder"].rstrip("/") for block in data.blocks)
    beside = str(table.parent)
    return beside if table.name == TABLE else next(filter(None, folders), beside)


def say_directories(experiment: Experiment, names: Mapping[str, str], notes: Notes) -> None:
    """Say which directories are to be made, and whose texts are not those of theirs."""
    for data in (experiment.sets[name] for name in experiment.used):
        for source, target in names.items():
            stream = take_stream(data, source)
            directory, table = _find_directory(stream), Path(stream.table)
            texts = _find_texts(data, stream)
            if table.name != TABLE:
                copies = f"mkdir -p {directory} && cp {table} {directory}/{TABLE} && cp {texts}"
                notes.say(
                    stream.line,
                    f"fea_lst = {table}",
                    f"make a data directory of it: {copies}/{{utt2spk,text}} {directory}",
                )
            for block in data.blocks:
                folder = block["lab_data_folder"].rstrip("/")
                if target == FEATURES and folder not in ("", texts):
                    why = f"utt2spk and text are those of {directory}"
                    notes.say(block.line, f"lab_data_folder = {folder}", why)


def say_samples(experiment: Experiment, names: Mapping[str, str], notes: Notes) -> None:
    """Say of what the samples of SincNet are to be made."""
    for data in (experiment.sets[name] for name in experiment.used):
        for stream in (take_stream(data, s) for s in names if experiment.reads_samples(s)):
            notes.say(
                stream.line,
                f"fea_lst = {stream.table}",
                "samples of SincNet: make them of the wav.scp of a copy DIR of"
                f" {_find_texts(data, stream)}, bayes-asr features --kind samples --window 200 DIR,"
                " and name DIR in data",
            )
