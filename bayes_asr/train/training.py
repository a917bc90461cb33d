"""Training: from a configuration to a run directory."""

import json
import platform
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bayes_asr.config import Config, ModelConfig, TrainConfig, differences
from bayes_asr.config import load as load_config
from bayes_asr.data.alignments import log_priors
from bayes_asr.data.batches import batches_of, in_order
from bayes_asr.data.features import Normalisation
from bayes_asr.errors import InputError
from bayes_asr.files import replacing
from bayes_asr.log import LOGGER
from bayes_asr.nn.cells import CELLS
from bayes_asr.nn.model import AcousticModel
from bayes_asr.tables.reader import OpenPipe
from bayes_asr.train import checkpoint
from bayes_asr.train.batch import loader
from bayes_asr.train.corpus import LabelledSet, training_and_dev
from bayes_asr.train.lock import in_use
from bayes_asr.train.loop import Totals, Update, run_epoch
from bayes_asr.train.schedule import next_rate

WITHOUT_EFFECT = (  # on training: these keys may change when a run is resumed
    "data.expected_dims",
    "data.graph",
    "data.max_skipped",
    "data.test.",
    "decode.",
    "score.",
)
RECORDS = (  # what a run has learnt; its scores are of a network that is gone with it
    *("config.yaml", "env.json", "history.jsonl", "last.pt", "best.pt"),
    *("score_dev.json", "score_test.json"),
)


def train(
    config: Config, run: Path, *, new: bool = False, open_pipe: OpenPipe | None = None
) -> None:
    """Train into `run`, or go on with the run that is there.

    Writes config.yaml, env.json, history.jsonl, last.pt after every epoch and best.pt at the lowest
    dev frame error. `new` discards what is there, once the data are found to be usable. InputError
    where the run there has another configuration, or is being trained by another process.
    """
    with in_use(run / "train.log"):
        _train(config, run, new, open_pipe)


def _train(config: Config, run: Path, new: bool, open_pipe: OpenPipe | None) -> None:
    # What is recorded must not depend on the working directory.
    located = str(Path(config.data.dir).absolute())
    config = replace(config, data=replace(config.data, dir=located))
    if not new:
        _check_same_run(config, run)
    train_set, dev_set = training_and_dev(config, open_pipe)
    training = Training.start(config, run, train_set, new=new)
    while len(training.history) < config.train.epochs:
        training.run_epoch(train_set, dev_set)
    best = min(training.history, key=lambda entry: float(entry["dev_error"]))
    LOGGER.info("trained: best dev frame error %.4f in epoch %d", best["dev_error"], best["epoch"])


def architecture(config: ModelConfig, inputs: int, outputs: list[int]) -> dict[str, Any]:
    """The arguments of AcousticModel, as plain values for the checkpoint."""
    if config.unit not in CELLS:
        raise InputError(f"model.unit is {config.unit}; known units: {', '.join(CELLS)}")
    units = [config.units] * config.layers if isinstance(config.units, int) else config.units
    if len(units) != config.layers:
        raise InputError(
            f"model.units has {len(units)} numbers, but model.layers is {config.layers}; give one"
            " number for each layer, or one for all"
        )
    own = ("form", "activation", "activation_trains", "peepholes", "smooth")
    shared = {k: v for k, v in vars(config).items() if k not in own and k != "layers"}
    options = {k: getattr(config, k) for k in own}
    return {
        **shared,
        "inputs": inputs,
        "outputs": outputs,
        "units": list(units),
        "options": {k: list(v) if isinstance(v, tuple) else v for k, v in options.items() if v},
    }


@dataclass
class Training:
    """A run while it is trained: what changes, and where it is kept."""

    config: Config
    run: Path
    model: AcousticModel
    architecture: dict[str, Any]
    optimizer: torch.optim.Optimizer
    normalisation: Normalisation
    log_priors: np.ndarray
    rate: float
    front_end: dict[str, Any] | None
    history: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def start(cls, config: Config, run: Path, data: LabelledSet, *, new: bool) -> "Training":
        """Build everything, and go on after the last epoch that was saved unless `new`."""
        last = run / "last.pt"
        saved = checkpoint.read(last) if last.exists() and not new else {}
        normalisation = _normalisation(saved, data)
        outputs = [data.alignments.model.num_pdfs]
        if config.train.monophone_weight:
            outputs.append(data.alignments.num_monophones)
        inputs = data[min(data.lengths)].shape[1]
        plan = architecture(config.model, inputs, outputs)
        torch.manual_seed(config.seed)
        model = AcousticModel(**plan)
        training = cls(
            config,
            run,
            model,
            plan,
            _optimizer(config.train, model),
            normalisation,
            log_priors(data.alignments.pdf_counts(data.lengths)),
            config.train.learning_rate,
            _front_end(data),
        )
        _describe(config.model, model)
        if saved:
            training._restore(saved)
        elif new:
            for name in RECORDS:
                (run / name).unlink(missing_ok=True)
        for unfinished in run.glob(".*.partial*"):  # of a process that was killed while writing
            unfinished.unlink()
        config.save(run / "config.yaml")
        if len(training.history) < config.train.epochs:  # else it says what the run came from
            _record_environment(run, model, training.front_end)
        return training

    def _restore(self, saved: dict[str, Any]) -> None:
        for key in ("inputs", "outputs"):
            old, now = saved["architecture"][key], self.architecture[key]
            if old != now:
                raise InputError(
                    f"{self.run / 'last.pt'}: made for other data: its network has {key} {old}, but"
                    f" these data need {now}; start over with --new"
                )
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.rate, self.history = saved["rate"], saved["history"]
        self._write_history()  # a run may have been killed between last.pt and its history
        LOGGER.info("resuming after epoch %d of %d", len(self.history), self.config.train.epochs)

    def run_epoch(self, train_set: LabelledSet, dev_set: LabelledSet) -> None:
        """Train and validate once, and save."""
        options, epoch = self.config.train, len(self.history) + 1
        self.rate = next_rate(options, self.rate, [entry["dev_error"] for entry in self.history])
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate
        self.model.train_activations(epoch > options.freeze_activations)
        trained = run_epoch(
            self.model,
            self._batches(train_set, epoch),
            loader(
                train_set,
                self.normalisation,
                seed=self.config.seed,
                epoch=epoch,
                noise=options.noise,
                tempo=options.tempo,
            ),
            update=Update(
                self.model,
                self.optimizer,
                monophone_weight=options.monophone_weight,
                max_gradient_norm=options.max_gradient_norm,
            ),
            title=f"epoch {epoch}",
        )
        self._save(epoch, trained, self._validate(dev_set, epoch))

    def _batches(self, data: LabelledSet, epoch: int) -> list[list[str]]:
        return batches_of(
            data.lengths,
            sequences=self.config.train.batch_sequences,
            frames=self.config.train.batch_frames,
            seed=self.config.seed,
            epoch=epoch,
        )

    def _validate(self, data: LabelledSet, epoch: int) -> Totals:
        batches = in_order(data.lengths, sequences=32, frames=self.config.train.batch_frames)
        load = loader(data, self.normalisation, seed=0, epoch=0)
        return run_epoch(self.model, batches, load, title=f"epoch {epoch} dev")

    def _save(self, epoch: int, trained: Totals, validated: Totals) -> None:
        train, dev = trained.metrics(), validated.metrics()
        entry = {
            "epoch": epoch,
            "train_loss": train["loss"],
            "train_error": train["error"],
            "dev_loss": dev["loss"],
            "dev_error": dev["error"],
            "learning_rate": self.rate,
            "gradient_norm": trained.gradient_norm / trained.batches,
            "frames_per_second": train["frames_per_second"],
            "seconds": trained.seconds + validated.seconds,
        }
        is_best = all(entry["dev_error"] < old["dev_error"] for old in self.history)
        self.history.append(entry)
        LOGGER.info(
            "epoch %d of %d: train loss %.3f, error %.3f; dev loss %.3f, error %.4f;"
            " learning rate %.3g; %.0f frames/s",
            epoch,
            self.config.train.epochs,
            *(entry[key] for key in ("train_loss", "train_error", "dev_loss", "dev_error")),
            self.rate,
            entry["frames_per_second"],
        )
        self._write(is_best)

    def _write(self, is_best: bool) -> None:
        """Write best.pt before last.pt: a run killed between them repeats the epoch and best.pt."""
        content = {
            "architecture": self.architecture,
            "model": self.model.state_dict(),
            "mean": torch.from_numpy(self.normalisation.mean),
            "deviation": torch.from_numpy(self.normalisation.deviation),
            "log_priors": torch.from_numpy(self.log_priors),
            "frontend": self.front_end,
        }
        if is_best:
            checkpoint.save(self.run / "best.pt", content)
        checkpoint.save(
            self.run / "last.pt",
            {
                **content,
                "optimizer": self.optimizer.state_dict(),
                "rate": self.rate,
                "history": self.history,
            },
        )
        self._write_history()

    def _write_history(self) -> None:
        with replacing(self.run / "history.jsonl") as temporary:
            temporary.write_text("".join(json.dumps(entry) + "\n" for entry in self.history))


def _optimizer(config: TrainConfig, model: AcousticModel) -> torch.optim.Optimizer:
    """Adam, or RMSprop with pytorch-kaldi's constants."""
    options: dict[str, Any] = {"lr": config.learning_rate, "weight_decay": config.weight_decay}
    options["foreach"] = True
    if config.optimizer == "adam":
        return torch.optim.AdamW(model.parameters(), **options)
    options |= {"alpha": 0.95, "eps": 1e-8}
    return torch.optim.RMSprop(model.parameters(), **options)


def _check_same_run(config: Config, run: Path) -> None:
    """Refuse to go on with a run that was started with another configuration."""
    recorded = run / "config.yaml"
    if not (run / "last.pt").exists():
        return
    for key, (old, now) in differences(load_config([recorded]), config).items():
        # The cosine depends on its length; with newbob, epochs can be added to a run.
        added = key == "train.epochs" and config.train.schedule == "newbob"
        if not added and not key.startswith(WITHOUT_EFFECT):
            raise InputError(
                f"{recorded}: {key} is {old} in this run, but {now} now; train into another folder,"
                " or start over with --new"
            )


def _normalisation(saved: dict[str, Any], data: LabelledSet) -> Normalisation:
    if saved:
        return Normalisation(saved["mean"].numpy(), saved["deviation"].numpy())
    LOGGER.info("measuring the normalisation on %d training utterances", len(data.lengths))
    return Normalisation.of(data[utt] for utt in data.lengths)


def _describe(config: ModelConfig, model: AcousticModel) -> None:
    LOGGER.info(
        "%s, %d layers of %s units, %s directions, %s initial state: %d parameters (%d without the"
        " heads)",
        config.unit,
        config.layers,
        config.units,
        "tied" if config.tied_directions else "untied",
        config.initial_state,
        sum(p.numel() for p in model.parameters()),
        sum(p.numel() for p in model.layers.parameters()),
    )


def _front_end(data: LabelledSet) -> dict[str, Any] | None:
    """What computed the features from sound, as the data directory says; None where it does not."""
    path = data.features.directory / "frontend.json"
    if not path.exists():
        return None
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise InputError(f"{path}: not a JSON object; compute the features again")
    return fields


def _record_environment(run: Path, model: AcousticModel, front_end: dict[str, Any] | None) -> None:
    """Write env.json: what, besides the configuration, the numbers of a run may depend on."""
    environment = {
        "bayes_asr": version("bayes_asr"),
        "frontend": front_end,
        "parameters": sum(p.numel() for p in model.parameters()),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
    }
    with replacing(run / "env.json") as temporary:
        temporary.write_text(json.dumps(environment, indent=1) + "\n")
