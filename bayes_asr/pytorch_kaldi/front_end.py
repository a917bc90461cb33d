"""From `fea_opts` of pytorch-kaldi to our front ends: by Kaldi's usual commands, unrun."""

from collections.abc import Mapping

from bayes_asr.pytorch_kaldi.command_lines import CommandLine
from bayes_asr.pytorch_kaldi.data_section import FEATURES, Translated, take_stream
from bayes_asr.pytorch_kaldi.experiment import DataSet, Experiment, FeatureEntry
from bayes_asr.pytorch_kaldi.notes import Notes

PIPE = "ark:-"
DELTA_ORDER, DELTA_WINDOW = 2, 2  # of Kaldi's add-deltas; ours has this window alone


def translate_front_ends(
    experiment: Experiment, names: Mapping[str, str], notes: Notes
) -> Translated:
    """The sections `features` and `streams`, by the first training set; others are compared."""
    reference, *further = (experiment.sets[name] for name in experiment.used)
    streams: dict[str, Translated] = {}
    for source, target in names.items():
        streams[target] = _translate_stream(reference, reference.streams[source], notes)
        for data in further:
            stream = take_stream(data, source)
            if _translate_stream(data, stream, notes) != streams[target]:
                what = f"[{data.section.name}] {source}: fea_opts, cw_left, cw_right"
                notes.say(stream.line, what, f"are those of {reference.name} in all sets here")
    front_ends = {FEATURES: streams.pop(FEATURES, {}), "streams": streams}
    return {key: value for key, value in front_ends.items() if value}


def _translate_stream(data: DataSet, stream: FeatureEntry, notes: Notes) -> Translated:
    """The front end of a stream: its commands, where these are Kaldi's usual ones, and context."""
    options: Translated = {"left_context": stream.left, "right_context": stream.right}
    for command in filter(None, (part.strip() for part in stream.commands.split("|"))):
        program, *words = command.split()
        what = f"{stream.name}: {command[:60]}"
        line = CommandLine(data.section.take("fea"), stream.line, words, notes, of_script=False)
        if program == "apply-cmvn" and not {"cmvn", "deltas"} & options.keys():
            options["cmvn"] = _translate_cmvn(line)
            notes.say(
                stream.line,
                f"{stream.name}: apply-cmvn",
                "statistics are those of cmvn.scp of the data directory, or where there is none, of"
                " the speaker's utterances",
            )
            pipes = line.arguments[1:]
        elif program == "add-deltas" and "deltas" not in options:
            options["deltas"] = _translate_deltas(line)
            pipes = line.arguments
        else:
            # Ours normalises once, and then appends derivatives once.
            notes.say(stream.line, what, "no command is run: apply it")
            continue
        line.say_pending()
        if pipes != [PIPE, PIPE]:
            notes.say(stream.line, what, f"is read as if it ended in {PIPE} {PIPE}")
    return options


def _translate_cmvn(line: CommandLine) -> str:
    """The value of `cmvn`; InputError for what Kaldi refuses."""
    means, variances, reverse = (
        line.take_flag(name, default=name == "norm-means")
        for name in ("norm-means", "norm-vars", "reverse")
    )
    if line.take("utt2spk") is None:
        line.say("apply-cmvn", "has no --utt2spk, so that it is of utterances; here of speakers")
    if reverse:
        line.say("--reverse", "nothing here takes normalisation back: cmvn is none")
        return "none"
    if not means and variances:
        raise line.option.error("--norm-vars=true wants --norm-means=true, as in Kaldi", line.line)
    if not means:
        line.say("--norm-means=false", "apply-cmvn does nothing then: cmvn is none")
        return "none"
    return "mean-variance" if variances else "mean"


def _translate_deltas(line: CommandLine) -> int:
    """The value of `deltas`, the order of the derivatives."""
    order, window = line.take_whole("delta-order"), line.take_whole("delta-window")
    if window not in (None, DELTA_WINDOW):
        line.say(f"--delta-window={window}", f"is {DELTA_WINDOW} here")
    return DELTA_ORDER if order is None else order
