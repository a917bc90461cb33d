"""From batches, networks and losses of pytorch-kaldi to our section `train`."""

from collections.abc import Mapping, Sequence
from typing import Any

from bayes_asr.config.epochs import at_epoch
from bayes_asr.pytorch_kaldi.architectures import (
    Architecture,
    by_epoch,
    parse_schedule,
)
from bayes_asr.pytorch_kaldi.experiment import Experiment
from bayes_asr.pytorch_kaldi.notes import Notes
from bayes_asr.pytorch_kaldi.sections import (
    Option,
    Section,
    parse_flag,
    parse_number,
    parse_whole,
)
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
OF_SCHEDULE = ("arch_halving_factor", "arch_improvement_threshold")
LONGEST = 10_000_000  # frames: more than any utterance has
LAST_EPOCH = 10_000  # for which lengths are told
PIECES = 32  # of utterances, of which a batch of frames consists: with 8 an MLP learnt slower


Translated = dict[str, Any]


def _is_sequential(experiment: Experiment) -> bool:
    """Whether batches are of utterances, as where any network says so."""
    switches = [
        network.section.get("arch_seq_model") for network in experiment.architectures.values()
    ]
    # A network without the switch counts as one of sequences. All are read, right or wrong.
    sequential = [option is None or parse_flag(option) for option in switches]
    return any(sequential)


def translate_batches(experiment: Experiment, epochs: int, notes: Notes) -> Translated:
    """Sizes of batches and lengths of sequences.

    Where no network of theirs is sequential, a batch is of so many frames, drawn from all
    utterances of a chunk: here short pieces of several utterances have as many together.
    """
    section = experiment.sections["batches"]
    if not _is_sequential(experiment):
        option = section.take("batch_size_train")
        frames = by_epoch(parse_schedule(option, option.text, epochs, whole=True), int)
        notes.say(
            option.line,
            f"[{section.name}] batch_size_train = {option.text}",
            f"its frames are drawn one by one there, and are {PIECES} pieces of utterances here",
        )
        return _draw_pieces(frames)
    sequences, longest = (
        parse_schedule(option := section.take(name), option.text, epochs, whole=True)
        for name in ("batch_size_train", "max_seq_length_train")
    )
    frames = by_epoch(longest, int)
    if section.flag("increase_seq_length_train"):
        if (sets := len(experiment.train)) > 1:
            option = section.take("increase_seq_length_train")
            what = f"[batches] {option.name} = {option.text}"
            why = f"after each of {sets} training sets there, of epochs here"
            notes.say(option.line, what, why)
        frames = _grow(section, frames, epochs, sets)
    return {"batch_sequences": by_epoch(sequences, int), "max_frames": frames}


def _draw_pieces(frames: int | Mapping[int, int]) -> Translated:
    """Batches of so many frames, of one number or by epoch, in pieces of utterances."""
    each = frames if isinstance(frames, Mapping) else {1: frames}
    # PIECES pieces of this length fill a batch.
    pieces = {epoch: max(1, count // PIECES) for epoch, count in each.items()}
    return {
        "batch_sequences": PIECES,
        "batch_frames": max(each.values()),
        "max_frames": pieces if isinstance(frames, Mapping) else pieces[1],
    }


def _grow(
    section: Section, longest: int | Mapping[int, int], epochs: int, sets: int
) -> dict[int, int]:
    """Lengths that grow after each training set of each epoch up to the longest of that epoch."""
    length, factor = (
        parse_whole(option := section.take(name), option.text, least=1)
        for name in ("start_seq_len_train", "multply_factor_seq_len_train")
    )
    lengths = []
    for epoch in range(1, min(epochs, LAST_EPOCH) + 1):
        # As there, the first length is that which is asked for, even above the longest.
        lengths.append(min(length, LONGEST))
        for _ in range(sets):
            length = min(length * factor, at_epoch(longest, epoch))
    # Only epochs in which the length changes are named.
    previous = [None, *lengths]
    return {
        n: x for n, (x, last) in enumerate(zip(lengths, previous, strict=False), 1) if x != last
    }


def translate_training(
    experiment: Experiment, stack: Stack, targets: Mapping[str, str], epochs: int, notes: Notes
) -> Translated:
    order = [operation.first for operation in experiment.operations if operation.kind == "compute"]
    networks = [experiment.architectures[name] for name in dict.fromkeys(order)]
    if not networks:
        raise experiment.sections["model"].take("model").error("no line computes a network")
    reference = networks[0]
    # The first network sets the rate, and others get a factor on it.
    rate = reference.learning_rate[0][0]
    for network in networks:
        if not network.learning_rate[0][0]:
            raise network.section.take("arch_lr").error(
                "begins with 0, and rates here are multiples of the first; arch_freeze = True"
                " keeps a network as it is"
            )
    optimizer_options = _choose_optimizer_options(networks)
    for network in networks:
        _compare(reference, network, optimizer_options, notes)
        if not stack.list_parts(network) and (how := _train_otherwise(reference, network)):
            what = f"[{network.section.name}] arch_lr, arch_opt, arch_freeze"
            notes.say(network.section.line, what, f"has no layers here; train.layers: {how}")
    layers = {
        targets.get(name, name): how
        for network in networks
        if (how := _train_otherwise(reference, network))
        for name in stack.list_parts(network)
    }
    schedule: Translated = {"schedule": "newbob"}
    if len(reference.learning_rate) > 1:
        rates = by_epoch(reference.learning_rate, float)
        schedule = {"schedule": "list", "learning_rates": rates}
    return {
        "optimizer": OUR_OPTIMIZERS.get(reference.optimizer, reference.optimizer),
        **_translate_optimizer(optimizer_options),
        "learning_rate": rate,
        **schedule,
        "halving_factor": reference.halving_factor,
        "improvement_threshold": reference.improvement_threshold,
        **({"layers": layers} if layers else {}),
    }


def _train_otherwise(reference: Architecture, network: Architecture) -> Translated:
    """Training options of the layers of a network, where they differ from those of the first."""
    factor = network.learning_rate[0][0] / reference.learning_rate[0][0]
    optimizer = OUR_OPTIMIZERS.get(network.optimizer, network.optimizer)
    return {
        # Rounding keeps 0.0004 / 0.0002 from digits that nobody wrote.
        **({"learning_rate_factor": round(factor, 9)} if factor != 1 else {}),
        **({"optimizer": optimizer} if network.optimizer != reference.optimizer else {}),
        **({"frozen_epochs": "all"} if network.frozen else {}),
    }


def _choose_optimizer_options(networks: Sequence[Architecture]) -> dict[str, Option]:
    """Each option of optimizers, as the first network has it whose optimizer has such an option."""
    options: dict[str, Option] = {}
    for network in networks:
        for name in OPTIMIZER_OPTIONS:
            if option := network.section.get(name):
                options.setdefault(name, option)
    return options


def _compare(
    reference: Architecture,
    network: Architecture,
    optimizer_options: Mapping[str, Option],
    notes: Notes,
) -> None:
    """Say what ours has once for all layers and theirs has for each network."""
    line, where = network.section.line, f"[{network.section.name}] {network.name}"
    # Schedules are alike where they differ by a constant factor only.
    shapes = [
        [
            (value / architecture.learning_rate[0][0], count)
            for value, count in architecture.learning_rate
        ]
        for architecture in (reference, network)
    ]
    if shapes[0] != shapes[1]:
        notes.say(line, f"{where}: arch_lr", f"follows the schedule of {reference.name}")
    for name in OF_SCHEDULE:
        if network.section.take(name).text != reference.section.take(name).text:
            notes.say(line, f"{where}: {name}", f"is that of {reference.name} for all layers")
    for name in OPTIMIZER_OPTIONS:
        option, shared = network.section.get(name), optimizer_options.get(name)
        if option and shared and shared.text != option.text:
            why = f"is one for all layers: {shared.text}"
            notes.say(option.line, f"{where}: {name} = {option.text}", why)


def _translate_optimizer(options: Mapping[str, Option]) -> Translated:
    keys: Translated = {}
    for name, option in options.items():
        key = OPTIMIZER_OPTIONS[name]
        if key == "betas":
            keys[key] = [parse_number(option, x.strip(), most=1) for x in option.text.split(",")]
            if len(keys[key]) != 2:
                raise option.error(f"{len(keys[key])} numbers; Adam has 2")
        elif key in ("nesterov", "centered", "amsgrad"):
            keys[key] = parse_flag(option)
        else:
            keys[key] = parse_number(option)
    return keys


def weigh_targets(
    experiment: Experiment,
    costs: Mapping[tuple[str, str], float],
    targets: Mapping[str, str],
    notes: Notes,
) -> Translated:
    """Weights of the losses against that of the pdfs, which is 1."""
    weights = {targets[label]: weight for (_, label), weight in costs.items()}
    # Dividing all losses by one number leaves the optimum as it is.
    of_pdfs, option = weights.pop("pdfs", 1.0), experiment.sections["model"].take("model")
    if not of_pdfs:
        raise option.error("the cost of pdfs has no weight in loss_final, and ours is always 1")
    if of_pdfs != 1:
        notes.say(
            option.line,
            "[model] loss_final",
            f"all losses are divided by {of_pdfs:g}, that of pdfs; so is what one step of sgd does",
        )
    scaled = {name: weight / of_pdfs for name, weight in weights.items()}
    further = {name: weight for name, weight in scaled.items() if name != "monophones"}
    return {
        "monophone_weight": scaled.get("monophones", 0.0),
        **({"target_weights": further} if further else {}),
    }
