"""Speech recognition recipes with Bayesian recurrent units on Kaldi features and alignments."""

TYPE_CHECKING = False  # typing's takes long to load, before Ctrl-C is looked after
if TYPE_CHECKING:
    from pathlib import Path

    from bayes_asr.decode.forward.average import AveragedNetwork
    from bayes_asr.decode.forward.log_likelihoods import LogLikelihoods

__version__ = "0.2.0"


def load(
    run: "str | Path",
    *,
    layer: str | None = None,
    head: str | None = None,
    kind: str = "log-likelihoods",
) -> "LogLikelihoods | AveragedNetwork":
    """Load a trained run as a torch module: features [T, F] -> log-likelihoods [T, P].

    Equal to what `bayes-asr forward` writes for the same features. layer: gives the outputs [T, H]
    of that layer instead; head: that head instead of the first; kind: its `log-likelihoods`,
    `log-posteriors` or `posteriors`. InputError if `run` is none.
    """
    from bayes_asr.decode.forward.interface import Output
    from bayes_asr.decode.forward.log_likelihoods import load_any

    return load_any(run, Output(layer, head, kind))
