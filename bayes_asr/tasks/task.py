"""The task of a configuration: labels, heads, losses, verb, measure. It imports no torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, get_args

from bayes_asr.base.errors import InputError, nearest
from bayes_asr.base.log import LOGGER
from bayes_asr.config.catalogue import CRITERIA, FRAMES_TASK, UTTERANCE_TASKS, find
from bayes_asr.config.inputs import DataConfig
from bayes_asr.config.schema import Config
from bayes_asr.config.training_keys import TrainConfig
from bayes_asr.data.directories import locate_all


class Measure(NamedTuple):
    """The measure on dev that chooses the best epoch and drives the schedule; less is better.

    of: `dev_X` and `train_X` in the history; name: in words; is_share: whether it is a fraction,
    which is shown in per cent; parts: the data that the history has it of. A decoder has no errors
    of training data that compare with those of dev: there it reads the correct labels before the
    next one (teacher forcing), on dev those that it has written.
    """

    of: str
    name: str
    is_share: bool
    parts: tuple[str, ...] = ("train", "dev")

    @property
    def on_dev(self) -> str:
        """The name of the measure on dev in the history."""
        return f"dev_{self.of}"


FRAMES = Measure("error", "frame error", True)
LOSS = Measure("loss", "loss", False)


@dataclass(frozen=True)
class LabelSource:
    """The place of the labels that a network learns first, and the function that opens them.

    noun, with_article: what an utterance may lack, without and with it; key: of the configuration,
    in which `{set}` stands for train, dev or test. file: in each data directory,
    opened by `opener(file, data directories, names of the training set, open_pipe)`; without one,
    labels are in the directories of `key`, each opened by `opener(directory, index)`.
    """

    noun: str = "alignment"
    with_article: str = "an alignment"
    key: str = "data.{set}.alignments"
    opener: str = "data.corpus.labels_index:open_alignments"
    file: str = ""


Recogniser = Literal["decode", "classify", "generate", "forward"]


class Task:
    """The learning problem of a configuration. A subclass is one task; `task_of` makes it.

    config: the configuration, whose keys go together where the task has been made. recogniser: the
    verb that turns outputs into words, classes or labels; `forward` where they are numbers, and the
    stages of a recipe end there. measure: what a training is judged by.
    """

    recogniser: ClassVar[Recogniser] = "decode"
    measure: ClassVar[Measure] = FRAMES

    def __init_subclass__(cls) -> None:
        """InputError for a verb that there is not."""
        if cls.recogniser not in (verbs := get_args(Recogniser)):
            message = f"{cls.__name__}: recogniser is {cls.recogniser}, none of {', '.join(verbs)}"
            raise InputError(message + nearest(cls.recogniser, verbs))

    def __init__(self, config: Config) -> None:
        """Take a configuration; InputError for keys that have no meaning in this task."""
        self.config = config
        self._check()

    def _check(self) -> None:
        """InputError for keys that a subclass has no use for, or lacks."""

    @property
    def labels(self) -> LabelSource:
        """The labels of the first head."""
        return LabelSource()

    @property
    def weights(self) -> dict[str, float]:
        """Weights of the losses by target, each of which is a head; the first is recognised."""
        raise NotImplementedError

    @property
    def head_options(self) -> dict[str, Any]:
        """Arguments of `build_network` beside streams, layers and sizes."""
        return {}

    @property
    def output_stride(self) -> int:
        """Of how many frames the network has outputs of one."""
        return 1

    def locate_model(self, *, announce: bool = True) -> Path:
        """The final.mdl whose pdfs the network has."""
        aligned, *_ = locate_all(self.config.data, "train", "alignments", announce=False)
        if announce:
            LOGGER.info("model: %s", aligned / "final.mdl")
        return aligned / "final.mdl"

    def training(self) -> Any:
        """The `TaskTraining`, which imports torch."""
        return find("train.task_training:TaskTraining")(self)


class FramesTask(Task):
    """The pdf of each frame, by an alignment, and what else `train.target_weights` weighs."""

    def _check(self) -> None:
        # `tri2.pdfs` and `tri2.monophones` are targets of the label set tri2.
        trained = {target.partition(".")[0] for target in self.config.train.target_weights}
        for name in self.config.data.train.label_names:
            if name not in trained:
                raise InputError(
                    f"data.train.labels.{name} is learnt by no output: give"
                    f" train.target_weights.{name}.pdfs a weight, or .monophones, or {name} where"
                    " the labels are whole numbers"
                )

    @property
    def weights(self) -> dict[str, float]:
        """Weights of the losses; that of the pdfs is 1."""
        options = self.config.train
        weights = {"pdfs": 1.0, "monophones": options.monophone_weight, **options.target_weights}
        return {name: weight for name, weight in weights.items() if weight}


def refuse_labels_of_utterances(data: DataConfig, frame_key: str) -> None:
    """InputError for labels of utterances, which a task of frames has no use for."""
    for key, file in utterance_files(data).items():
        raise contradict(frame_key, key, file)


def contradict(frame_key: str, key: str, file: str) -> InputError:
    """The error of a key of frames beside a key of utterances."""
    return InputError(
        f"{frame_key} is of labels of frames, but data.{key} = {file} is of utterances; set one of"
        " the two"
    )


def refuse_pieces(options: TrainConfig, values: str) -> None:
    """InputError where an utterance is cut or resampled, but `values` are of all of it."""
    for key in ("tempo", "max_frames"):
        if value := getattr(options, key):
            raise InputError(
                f"train.{key} is {value}, but the {values} of {options.criterion} are of"
                " utterances as they are; set it to 0"
            )


def task_of(config: Config) -> Task:
    """The task of `train.criterion`, `data.classes`, `data.sequences`; InputError as of `Task`."""
    files = utterance_files(config.data)
    if len(files) > 1:
        both = ", and ".join(f"data.{key} is {file}" for key, file in files.items())
        raise InputError(f"{both}; a network learns one of the two: set the other to null")
    task = CRITERIA[config.train.criterion].task
    if files and task == FRAMES_TASK:
        task = UTTERANCE_TASKS[next(iter(files))]
    built: Task = find(task)(config)
    return built


def utterance_files(data: DataConfig) -> dict[str, str]:
    """The files of data directories with labels of utterances, by their keys."""
    return {key: file for key in UTTERANCE_TASKS if (file := getattr(data, key))}
