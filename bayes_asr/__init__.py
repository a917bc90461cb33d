"""Speech recognition recipes with Bayesian recurrent units on Kaldi features and alignments."""

TYPE_CHECKING = False  # typing's takes long to load, before Ctrl-C is looked after
if TYPE_CHECKING:
    from pathlib import Path

    from bayes_asr.forward.log_likelihoods import LogLikelihoods

__version__ = "0.1.0"


def load(run: "str | Path") -> "LogLikelihoods":
    """Load a trained run as a torch module: features [T, F] -> log-likelihoods [T, P].

    Equal to what `bayes-asr forward` writes for the same features. InputError if `run` is none.
    """
    from bayes_asr.forward.log_likelihoods import load as load_run

    return load_run(run)
