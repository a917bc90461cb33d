"""The optional packages, by the names of the extras that install them."""

from importlib.util import find_spec

EXTRAS = {
    "audio": ("kaldi_native_fbank", "soundfile"),
    "decode": ("kaldifst",),
    "export": ("onnx", "onnxruntime", "onnxscript"),
    "report": ("matplotlib", "jinja2"),
    "mini": ("espeakng_loader", "kaldi_native_fbank", "soundfile", "kaldifst"),
}


def find_missing(extra: str) -> list[str]:
    """The packages of an extra that are not installed, as pip calls them."""
    return [name.replace("_", "-") for name in EXTRAS[extra] if find_spec(name) is None]
