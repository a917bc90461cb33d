"""From batches, networks and losses of pytorch-kaldi to our section `train`."""

from collections.abc import Mapping, Sequence
from typing import Any

from bayes_asr.pytorch_kaldi.experiment import (
    Architecture,
    Experiment,
    by_epoch,
    parse_flag,
    parse_number,
    parse_schedule,
    parse_whole,
)
from bayes_asr.pytorch_kaldi.notes import Notes
from bayes_asr.pytorch_kaldi.sections import Option, Section
from bayes_asr.pytorch_kaldi.stacks import Stack

OPTIMIZER_OPTIONS = {
    "opt_momentum": "momentum",
    "opt_dampening": "dampening",
    "opt_nesterov": "nesterov",
    "opt_alpha": "alpha",
    "opt_eps": "epsilon",
    "opt_centered": "centered",
    "opt_amsgrad": "amsgrad",
    "opt_betas": "betas",
    "opt_weight_decay": "weight_decay",
}
OUR_OPTIMIZERS = {"adam": "adam-l2"}
"""Those that are called otherwise here: weight decay of our `adam` is not in the gradient."""
OF_BATCHES = (
    *("batch_size_train", "max_seq_length_train", "increase_seq_length_train"),
    *("start_seq_len_train", "multply_factor_seq_len_train"),
)
OF_NETWORKS = ("arch_name", "arch_class", "arch_freeze", "arch_lr", "arch_opt")
OF_SCHEDULE = ("arch_halving_factor", "arch_improvement_threshold")
LONGEST = 10_000_000  # frames: more than any utterance has
PIECES = 32  # of utterances, of which a batch of frames consists: with 8 an MLP learnt slower


Translated = dict[str, Any]


def is_sequential(experiment: Experiment) -> bool:
    """Whether batches are of utterances, as where any network says so."""
    said = (one.options.get("arch_seq_model") for one in experiment.architectures.values())
    return any(option is None or parse_flag(option) for option in said)


def translate_batches(
    section: Section, epochs: int, notes: Notes, *, sequential: bool
) -> Translated:
    """Sizes of batches and lengths of sequences.

    Where no network of theirs is sequential, a batch is of so many frames, drawn from all
    utterances of a chunk: here short pieces of several utterances have as many together.
    """
    notes.use(section.name, *OF_BATCHES)
    if not sequential:
        option = section.take("batch_size_train")
        frames = by_epoch(parse_schedule(option, option.text), int)
        notes.say(
            option.line,
            f"[{section.name}] batch_size_train = {option.text}",
            f"its frames are drawn one by one there, and are {PIECES} pieces of utterances here",
        )
        return _draw_pieces(frames)
    sequences, longest = (
        parse_schedule(option := section.take(name), option.text)
        for name in ("batch_size_train", "max_seq_length_train")
    )
    frames = by_epoch(longest, int)
    if parse_flag(section.take("increase_seq_length_train")) and isinstance(frames, int):
        frames = _grow(section, frames, epochs)
    return {"batch_sequences": by_epoch(sequences, int), "max_frames": frames}


def _draw_pieces(frames: int | Mapping[int, int]) -> Translated:
    """Batches of so many frames, of one number or by epoch, in pieces of utterances."""
    each = frames if isinstance(frames, Mapping) else {1: frames}
    pieces = {epoch: max(1, count // PIECES) for epoch, count in each.items()}
    return {
        "batch_sequences": PIECES,
        "batch_frames": max(each.values()),
        "max_frames": pieces if isinstance(frames, Mapping) else pieces[1],
    }


def _grow(section: Section, longest: int, epochs: int) -> dict[int, int]:
    """Lengths that grow after each epoch up to the longest."""
    start, factor = (
        parse_whole(option := section.take(name), option.text)
        for name in ("start_seq_len_train", "multply_factor_seq_len_train")
    )
    lengths = [min(longest, LONGEST, start * factor**epoch) for epoch in range(min(epochs, 100))]
    before = [None, *lengths]
    return {n: x for n, (x, last) in enumerate(zip(lengths, before, strict=False), 1) if x != last}


def translate_training(
    experiment: Experiment, stack: Stack, targets: Mapping[str, str], epochs: int, notes: Notes
) -> Translated:
    used = [one.first for one in experiment.operations if one.kind == "compute"]
    networks = [experiment.architectures[name] for name in dict.fromkeys(used)]
    first = networks[0]
    rate = first.learning_rate[0][0]
    chosen = _choose_optimizer_options(networks)
    for network in networks:
        notes.use(network.section, *OF_NETWORKS, *OF_SCHEDULE, *OPTIMIZER_OPTIONS)
        of_layers = (name for name in network.options if _is_of_layers(name))
        notes.use(network.section, *(of_layers if network.layers else network.options))
        _compare(first, network, chosen, notes)
    layers = {
        targets.get(name, name): how
        for network in networks
        if (how := _train_otherwise(first, network))
        for name in stack.list_parts(network)
    }
    schedule: Translated = {"schedule": "newbob"}
    if len(first.learning_rate) > 1:
        rates = by_epoch(first.learning_rate, float)
        schedule = {"schedule": "list", "learning_rates": rates}
    return {
        "optimizer": OUR_OPTIMIZERS.get(first.optimizer, first.optimizer),
        **_translate_optimizer(chosen),
        "learning_rate": rate,
        **schedule,
        "halving_factor": first.halving_factor,
        "improvement_threshold": first.improvement_threshold,
        **({"layers": layers} if layers else {}),
    }


def _is_of_layers(name: str) -> bool:
    """Whether an option describes layers, which the stack carries."""
    prefixes = ("ligru_", "gru_", "lstm_", "rnn_", "minimalgru_", "dnn_", "cnn_", "sinc_")
    cudnn = ("hidden_size", "num_layers", "bias", "dropout", "bidirectional", "nonlinearity")
    return name.startswith(prefixes) or name in cudnn


def _train_otherwise(first: Architecture, network: Architecture) -> Translated:
    """How the layers of a network are trained, where that is not as those of the first."""
    factor = network.learning_rate[0][0] / first.learning_rate[0][0]
    optimizer = OUR_OPTIMIZERS.get(network.optimizer, network.optimizer)
    return {
        **({"learning_rate_factor": round(factor, 9)} if factor != 1 else {}),
        **({"optimizer": optimizer} if network.optimizer != first.optimizer else {}),
        **({"frozen_epochs": "all"} if network.frozen else {}),
    }


def _choose_optimizer_options(networks: Sequence[Architecture]) -> dict[str, Option]:
    """Each option of optimizers, as the first network has it whose optimizer has such an option."""
    chosen: dict[str, Option] = {}
    for network in networks:
        for name in OPTIMIZER_OPTIONS:
            if name in network.options:
                chosen.setdefault(name, network.options[name])
    return chosen


def _compare(
    first: Architecture, network: Architecture, chosen: Mapping[str, Option], notes: Notes
) -> None:
    """Say what ours has once for all layers and theirs has for each network."""
    where = f"[{network.section}] {network.name}"
    shapes = [
        [(value / one.learning_rate[0][0], count) for value, count in one.learning_rate]
        for one in (first, network)
    ]
    if shapes[0] != shapes[1]:
        notes.say(network.line, f"{where}: arch_lr", f"follows the schedule of {first.name}")
    for name in OF_SCHEDULE:
        if network.options[name].text != first.options[name].text:
            notes.say(network.line, f"{where}: {name}", f"is that of {first.name} for all layers")
    for name in OPTIMIZER_OPTIONS:
        theirs, ours = network.options.get(name), chosen.get(name)
        if theirs and ours and ours.text != theirs.text:
            why = f"is one for all layers: {ours.text}"
            notes.say(theirs.line, f"{where}: {name} = {theirs.text}", why)


def _translate_optimizer(chosen: Mapping[str, Option]) -> Translated:
    found: Translated = {}
    for theirs, option in chosen.items():
        ours = OPTIMIZER_OPTIONS[theirs]
        if ours == "betas":
            found[ours] = [parse_number(option, part.strip()) for part in option.text.split(",")]
        elif ours in ("nesterov", "centered", "amsgrad"):
            found[ours] = parse_flag(option)
        else:
            found[ours] = parse_number(option)
    return found


def weigh_targets(
    experiment: Experiment,
    costs: Mapping[tuple[str, str], float],
    targets: Mapping[str, str],
    notes: Notes,
) -> Translated:
    """Weights of the losses against that of the pdfs, which is 1."""
    weights = {targets[label]: weight for (_, label), weight in costs.items()}
    of_pdfs = weights.pop("pdfs", 1.0)
    if of_pdfs != 1:
        line = experiment.sections["model"].take("model").line
        notes.say(
            line, "[model] loss_final", f"all losses are divided by {of_pdfs:g}, that of pdfs"
        )
    scaled = {name: weight / of_pdfs for name, weight in weights.items()}
    others = {name: weight for name, weight in scaled.items() if name != "monophones"}
    return {
        "monophone_weight": scaled.get("monophones", 0.0),
        **({"target_weights": others} if others else {}),
    }
