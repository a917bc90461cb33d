"""Speech recognition recipes with Bayesian recurrent units on Kaldi features and alignments."""

__version__ = "0.2.0"

__all__ = ["__version__", "features", "load", "transcribe"]


def __getattr__(name: str) -> object:
    """Import a function of `decode.python` when it is asked for: torch takes seconds to load."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("bayes_asr.decode.python"), name)
