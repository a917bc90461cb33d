"""Options of a configuration that cannot be carried over, one by one."""

from dataclasses import dataclass, field

from bayes_asr.pytorch_kaldi.sections import Section

SILENT = {  # names of files that theirs needs and ours has not, and options that change no result
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
    "arch_seq_model",
    "data_name",
    "batch_first",
    "norm_vars",
    "normalize_posteriors",
    "require_decoding",
}
NOT_WANTED = ("", "none", "false")
SAID = {
    "cmd": "give Kaldi's scripts to the verbs: --cmd, and decode_cmd for decode",
    "out_folder": "give the folder to train: --out",
    "production": "bayes-asr forward RUN --data computes any data directory, without labels",
    "nr_of_valid_per_epoch": "dev is validated after every epoch",
    "shuffle_forwarding_data": "the order of utterances changes nothing",
    "max_nr_of_parallel_forwarding_processes": "give the processes to forward: --nj",
    "multi_gpu": "start processes by torchrun: docs/training.md",
    "n_chunks": "data are not cut into chunks: features are normalised by all training data",
    "batch_size_valid": "no frame is padded, so no result depends on it",
    "max_seq_length_valid": "utterances of dev are read whole",
    "decoding_script": "bayes-asr decode searches; with --backend kaldi by Kaldi's programs",
    "scoring_script": "bayes-asr score counts: set score.metric, and score.phone_map for TIMIT",
    "skip_scoring": "score is a verb of its own",
    "save_out_file": "give the outputs that you want to forward: --layer, --head, --kind",
    "arch_pretrain_file": "make a run of it: bayes-asr import-weights; then train.init_from",
}
"""By the name of an option: what ours does instead."""

DIFFERENCES = (
    "padded frames: theirs count in loss, error, learning rate and batch norm; here there are none",
    "normalisation: theirs is by each chunk, also of the test set; here by all training data",
    "labels: theirs are shifted by the smallest of each chunk; here they are those of final.mdl",
    "the network: theirs is that of the last epoch; here that of the lowest dev frame error",
    "the last batch of a chunk: theirs leaves out what does not fill it; here no utterance is lost",
    "LM weight: theirs is the best of the test set; here that of dev",
)
"""What differs for every configuration, whatever it says."""

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

    remarks: the line, what stands there and why it is not carried over; handled: section and name
    of the options that are understood.
    """

    remarks: list[tuple[int, str, str]] = field(default_factory=list)
    handled: set[tuple[str, str]] = field(default_factory=set)

    def use(self, section: str, *names: str) -> None:
        """Note that options are carried over, or that something is said of them."""
        self.handled |= {(section, name) for name in names}

    def say(self, line: int, what: str, why: str) -> None:
        """Say that something has no counterpart, and what to do."""
        if (line, what, why) not in self.remarks:
            self.remarks.append((line, what, why))

    def say_rest(self, sections: dict[str, Section]) -> None:
        """Say of every option that nothing has used what becomes of it, once of each name."""
        names: set[str] = set()
        for section in sections.values():
            for name, option in section.options.items():
                if option.mended:
                    lines = ", ".join(map(str, option.mended))
                    why = f"broken commands are joined: line {lines}"
                    self.say(option.line, f"[{section.name}] {name}", why)
                if (section.name, name) in self.handled or name in SILENT or name in names:
                    continue
                if option.text.lower() in NOT_WANTED:
                    continue
                # An option that each network repeats is said once.
                names.add(name)
                why = SAID.get(name, "has no counterpart")
                self.say(option.line, f"[{section.name}] {name} = {_shorten(option.text)}", why)

    def lines(self) -> list[str]:
        """All of it, in the order of the file."""
        return [f"line {line}, {what}: {why}" for line, what, why in sorted(self.remarks)]


def _shorten(text: str) -> str:
    line, *further = text.splitlines() or [""]
    return line[:40] + (" ..." if further or len(line) > 40 else "")
