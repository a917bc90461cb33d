"""Options of a configuration that cannot be carried over, one by one."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from bayes_asr.pytorch_kaldi.sections import Option, Section

IDLE = {  # names of files that theirs needs and ours has not, and options that change no result
    "cfg_proto",
    "cfg_proto_chunk",
    "arch_proto",
    "arch_library",
    "model_proto",
    "decoding_proto",
    "decoding_script_folder",
    "run_nn_script",
    "save_gpumem",
    "max_mem",
    "max_arcs",
    "batch_first",
    "norm_vars",
}
USUAL = {  # values of these that change nothing; others are code of somebody's own
    "arch_library": ("neural_networks",),
    "run_nn_script": ("run_nn", "run_nn.py"),
}
NOT_WANTED = ("", "none", "false")  # values of the following that ask for nothing
PRETRAINED = "make a run of it: bayes-asr import-weights; then train.init_from"
BY_FRAMES = "batches are of frames, in pieces of utterances"
SAID = {
    "cmd": "give Kaldi's scripts to the verbs: --cmd, and decode_cmd for decode",
    "out_folder": "give the folder to train: --out",
    "arch_library": "its classes are taken for those of neural_networks",
    "run_nn_script": "what run_nn does is what is carried over",
    "production": "bayes-asr forward RUN --data computes any data directory, without labels",
    "nr_of_valid_per_epoch": "dev is validated after every epoch",
    "shuffle_forwarding_data": "the order of utterances changes nothing",
    "max_nr_of_parallel_forwarding_processes": "give the jobs to forward: --cmd and --nj",
    "multi_gpu": "start processes by torchrun: docs/training.md",
    "n_chunks": "data are not cut into chunks: features are normalised by all training data",
    "max_seq_length_train": BY_FRAMES,
    "increase_seq_length_train": BY_FRAMES,
    "start_seq_len_train": "sequences do not grow, or their lengths are told by epoch",
    "multply_factor_seq_len_train": "sequences do not grow, or their lengths are told by epoch",
    "batch_size_valid": "no frame is padded, so no result depends on it",
    "max_seq_length_valid": "utterances of dev are read whole",
    "decoding_script": "bayes-asr decode searches; with --backend kaldi by Kaldi's programs",
    "scoring_script": "bayes-asr score counts: set score.metric, and score.phone_map for TIMIT",
    "skip_scoring": "score is a verb of its own",
    "save_out_file": "give the outputs that you want to forward: --layer, --head, --kind",
    "arch_pretrain_file": PRETRAINED,
    "pretrain_file": PRETRAINED,
}
"""By the name of an option: what ours does instead."""

DIFFERENCES = (
    "padded frames: theirs count in loss, error, learning rate and batch norm; here there are none",
    "normalisation: theirs is by each chunk, also of the test set; here by all training data",
    "labels: theirs are shifted by the smallest of each chunk; here they are those of final.mdl",
    "the network: theirs is that of the last epoch; here that of the lowest dev frame error",
    "max_seq_length_train: theirs leaves utterances of up to 1.25 times it whole, and cuts others"
    " into pieces of it and a rest; here pieces have equal lengths, and none is longer",
    "the last batch of a chunk: theirs leaves out what does not fill it; here no utterance is lost",
    "LM weight: theirs is the best of the test set; here that of dev",
)
"""What differs for every configuration, whatever it says."""

WITHOUT_PRESET = (
    "first weights: theirs of MLPs and heads are smaller (24.5 times below Glorot's), of cuDNN's"
    " classes otherwise drawn: --like-theirs",
    "gradients: theirs are not shortened; here to train.max_gradient_norm: --like-theirs",
)
"""What differs unless the preset is asked for."""

OF_WEIGHTS = (
    "not carried over: the state of the optimizers (optimizer_par), so that no training goes on:"
    " begin another with train.init_from",
    "normalisation: measured on all training data; theirs is by each chunk, and is not saved",
    "priors: by the counts that theirs wrote beside its networks, or of the training alignments",
)
"""What is said of networks that are made a run."""


@dataclass
class Notes:
    """Remarks on a configuration.

    remarks: the line, what stands there and why it is not carried over; left_out: sections that are
    left out as a whole.
    """

    remarks: list[tuple[int, str, str]] = field(default_factory=list)
    left_out: set[str] = field(default_factory=set)

    def say(self, line: int, what: str, why: str) -> None:
        """Say, once, that something has no counterpart, and what to do."""
        if (what, why) not in [remark[1:] for remark in self.remarks]:
            self.remarks.append((line, what, why))

    def include(self, others: "Notes") -> None:
        """Take the remarks of others, and what they leave out."""
        self.left_out |= others.left_out
        for remark in others.remarks:
            self.say(*remark)

    def leave_out(self, section: Section, name: str, why: str) -> None:
        """Say that a whole section is left out."""
        self.left_out.add(section.name)
        self.say(section.line, f"[{section.name}] {name}", f"{why}: left out")

    def say_rest(self, sections: Iterable[Section]) -> None:
        """Say of every option that nobody has asked for what becomes of it, once of each name."""
        remaining: dict[str, list[Option]] = {}
        for section in sections:
            for option in section.options.values():
                self._say_mended(option)
                if section.name not in self.left_out and option.name not in section.consumed:
                    remaining.setdefault(option.name, []).append(option)
        unusual = {name: _list_unusual(options) for name, options in remaining.items()}
        idle = [o[0] for name, o in remaining.items() if name in IDLE and not unusual[name]]
        if idle:
            further = (f", {option.name} (line {option.line})" for option in idle[1:])
            self.say(idle[0].line, idle[0].name + "".join(further), "change no result here")
        for name, options in remaining.items():
            wanted = [o for o in options if name not in SAID or o.text.lower() not in NOT_WANTED]
            if wanted and (name not in IDLE or unusual[name]):
                self._say_repeated(unusual[name] or wanted, SAID.get(name, "has no counterpart"))

    def _say_repeated(self, options: Sequence[Option], why: str) -> None:
        """Say of an option why it is left out, and where else it is."""
        option, *further = options
        places = ", ".join(f"[{o.section}]" for o in further)
        value = f"[{option.section}] {option.name} = {_shorten(option.text)}"
        self.say(option.line, value, f"{why}{'; also in ' if further else ''}{places}")

    def _say_mended(self, option: Option) -> None:
        if option.mended:
            lines = ", ".join(map(str, option.mended))
            why = f"broken commands are joined: line {lines}"
            self.say(option.line, f"[{option.section}] {option.name}", why)

    def lines(self) -> list[str]:
        """All of it, in the order of the file."""
        return [f"line {line}, {what}: {why}" for line, what, why in sorted(self.remarks)]


def _list_unusual(options: Sequence[Option]) -> list[Option]:
    """Those that name code of somebody's own where others name what all have."""
    return [option for option in options if option.text not in USUAL.get(option.name, option.text)]


def _shorten(text: str) -> str:
    line, *further = text.splitlines() or [""]
    return line[:40] + (" ..." if further or len(line) > 40 else "")
