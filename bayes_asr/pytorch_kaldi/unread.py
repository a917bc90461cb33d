"""Parts of an experiment that theirs does not need, or that nothing here takes, said one by one."""

from collections.abc import Mapping

from bayes_asr.pytorch_kaldi.command_lines import CommandLine
from bayes_asr.pytorch_kaldi.experiment import PHONES, DataSet, Experiment, LabelEntry
from bayes_asr.pytorch_kaldi.notes import Notes
from bayes_asr.pytorch_kaldi.sections import Section, parse_flag

COUNTED = ("", "auto", "none")  # values of lab_count_file that name no file


def say_unread(
    experiment: Experiment, names: Mapping[str, str], targets: Mapping[str, str], notes: Notes
) -> None:
    """Say which sets, networks, streams, labels and operations are left out.

    names, targets: our names of the streams that are read and of the labels that are learnt.
    """
    for name, data in experiment.sets.items():
        if name not in experiment.used:
            notes.leave_out(data.section, name, "[data_use] does not name it")
    computed = {o.first for o in experiment.operations if o.kind == "compute"}
    for name, network in experiment.architectures.items():
        if name not in computed:
            notes.leave_out(network.section, name, "[model] does not compute it")
    for data in (experiment.sets[name] for name in experiment.used):
        for stream in data.streams.values():
            if stream.name not in names:
                notes.say(stream.line, f"fea_name = {stream.name}", "[model] does not read it")
        for block in data.blocks:
            _say_label(experiment, data, block, targets, notes)
    _say_operations(experiment, notes)


def _say_label(
    experiment: Experiment,
    data: DataSet,
    block: LabelEntry,
    targets: Mapping[str, str],
    notes: Notes,
) -> None:
    """Say what of a block of labels is not carried over."""
    if block["lab_count_file"] not in COUNTED:
        what = f"lab_count_file = {block['lab_count_file']}"
        notes.say(block.line, what, "priors are of the training alignments, or forward --counts")
    if data.name not in (*experiment.train, *experiment.valid):
        if block["lab_folder"]:
            what = f"[{data.section.name}] lab_name, lab_folder, lab_opts"
            notes.say(block.line, what, "no labels of test are read")
        return
    if block.name not in targets:
        what = f"lab_name = {block.name}"
        notes.say(block.line, what, "no cost of loss_final compares with it: left out")
        return
    command, *words = block["lab_opts"].split() or [""]
    line = CommandLine(data.section.take("lab"), block.line, words, notes, of_script=False)
    if command not in ("ali-to-pdf", PHONES):
        line.say(command or "without lab_opts", "is taken for ali-to-pdf")
    if command == PHONES and not line.take_flag("per-frame", default=False):
        line.say(PHONES, "phones of each frame are read, as by --per-frame=true")
    if block.of_phones != experiment.sets[experiment.train[0]].labels[block.name].of_phones:
        line.say(command, f"is read as in {experiment.train[0]}")
    if line.arguments:
        line.say(" ".join(line.arguments), "has no counterpart: left out")
    line.say_pending()


def _say_operations(experiment: Experiment, notes: Notes) -> None:
    """Say which operations neither the loss nor the error nor an output depends on."""
    forward = experiment.sections["forward"].take("forward_out")
    needed = {"loss_final", "err_final", *(part.strip() for part in forward.text.split(","))}
    for operation in reversed(experiment.operations):
        if operation.result in needed:
            needed |= {operation.first, operation.second}
        else:
            what = f"[model] {operation.result}"
            notes.say(operation.line, what, "loss_final, err_final, forward_out do not need it")


def say_outputs(
    experiment: Experiment,
    costs: Mapping[tuple[str, str], float],
    targets: Mapping[str, str],
    notes: Notes,
) -> None:
    """Say what of `[forward]` and of the final error is not carried over.

    costs: the outputs that are compared with a label, and that label.
    """
    section = experiment.sections["forward"]
    outputs = section.take("forward_out")
    written, *further = (part.strip() for part in outputs.text.split(","))
    for name in further:
        notes.say(
            outputs.line, f"[forward] {name}", "one output is decoded: forward --layer, --head"
        )
    label = next((label for output, label in costs if output == written), None)
    if label is None or targets[label] != "pdfs":
        head = f"the head {targets[label]}" if label else "compared with no label"
        what = f"[forward] forward_out = {written}"
        notes.say(outputs.line, what, f"is {head}; pdfs are decoded: forward --layer, --head")
    _say_switches(section, targets, notes)
    final = next(o for o in experiment.operations if o.result == "err_final")
    if final.kind != "cost_err" or targets.get(final.second) != "pdfs":
        what = f"[model] err_final = {final.kind}({final.first},{final.second})"
        notes.say(final.line, what, "the error that the schedule reads is that of the pdfs")


def _say_switches(section: Section, targets: Mapping[str, str], notes: Notes) -> None:
    """Say how else the output that is decoded is written there than here."""
    for name, why in (
        ("normalize_posteriors", "what false writes is forward --kind log-posteriors"),
        ("require_decoding", "decode is a verb of its own"),
    ):
        option = section.get(name)
        if option and not parse_flag(option, option.text.split(",")[0].strip()):
            notes.say(option.line, f"[forward] {name} = {option.text}", why)
    counts = section.get("normalize_with_counts_from")
    source = counts.text.split(",")[0].strip() if counts else ""
    if counts and source.lower() not in COUNTED and targets.get(source) != "pdfs":
        why = "priors are of the training alignments: others by forward --counts FILE"
        notes.say(counts.line, f"[forward] {counts.name} = {source}", why)
