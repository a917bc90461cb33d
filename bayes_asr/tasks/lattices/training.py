"""Training by a criterion on lattices, which goes on from a network of cross entropy."""

from torch import Tensor

from bayes_asr.base.log import LOGGER
from bayes_asr.config.schema import Config
from bayes_asr.config.training_keys import SequenceConfig
from bayes_asr.data.corpus.index import Index
from bayes_asr.data.corpus.labelled import LabelledSet
from bayes_asr.kaldi_io.byte_reader import OpenPipe
from bayes_asr.tasks.lattices.denlats import write_denlats_of_epoch
from bayes_asr.tasks.lattices.regeneration import LatticeRegeneration, find_initial_lattices
from bayes_asr.tasks.lattices.targets import add_lattices, complete_sequence_options
from bayes_asr.train.task_training import Regenerate, TaskTraining


class LatticesTraining(TaskTraining):
    """Training on the denominator lattice of each utterance."""

    def complete_options(self, begun: Config | None = None) -> Config:
        """The configuration with the options of the criterion that default to the decoding's."""
        return complete_sequence_options(self.config, begun)

    def complete(self, name: str, data: LabelledSet, index: Index) -> LabelledSet:
        """The set `name` with its lattices; InputError without any."""
        return add_lattices(self.config, name, data, index)

    def regeneration(self, train_set: LabelledSet, open_pipe: OpenPipe | None) -> Regenerate | None:
        """Function that decodes the training set anew, where `train.sequence.lattices` wants it."""
        if self.config.train.sequence.lattices != "each-epoch":
            return None
        find_initial_lattices(self.config)

        def reopen(config: Config, index: Index) -> LabelledSet:
            return add_lattices(config, "train", train_set, index)

        return LatticeRegeneration(write_denlats_of_epoch, reopen, open_pipe).regenerate

    def _criterion_arguments(self, log_priors: Tensor) -> tuple[str, SequenceConfig, Tensor]:
        options = self.config.train
        return options.criterion, options.sequence, log_priors

    def choose_log_priors(
        self, counted: Tensor, inherited: Tensor | None, *, trained: bool
    ) -> Tensor:
        """Those of the network that it goes on from; else those counted, after a warning."""
        if not trained:
            LOGGER.warning(
                "%s begins with outputs that nothing has trained, and teaches them next to nothing;"
                " train by cross-entropy first, and name that run before --criterion",
                self.config.train.criterion,
            )
        return counted if inherited is None else inherited
