"""The files of the package that are not Python, such as `conf/` and `run.sh`, and its extras."""

import os
from importlib.util import find_spec
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
# An installed package carries them inside; a checkout has them beside.
HOME = next((d for d in (PACKAGE, PACKAGE.parent) if (d / "conf").is_dir()), PACKAGE)
CONF = HOME / "conf"
SCRIPT, RECIPE_SCRIPTS = "BAYES_ASR_STAGE_OF", ("run.sh", "bayes-asr run")
"""A variable that names the script which runs this verb as a stage, and those that run recipes."""

EXTRAS = {
    "audio": ("kaldi_native_fbank", "soundfile"),
    "decode": ("kaldifst",),
    "export": ("onnx", "onnxruntime", "onnxscript"),
    "report": ("matplotlib", "jinja2"),
    "mini": ("espeakng_loader", "kaldi_native_fbank", "soundfile", "kaldifst"),
}
"""Packages by the names of the extras that install them."""


def recipe_script() -> str:
    """The script that runs a recipe, of which this process is a stage; empty where it is none."""
    script = os.environ.get(SCRIPT)
    return script if script in RECIPE_SCRIPTS else ""


def advise_new_run() -> str:
    """Words that say how a training starts over: by its option, or by that of the script."""
    if script := recipe_script():
        return f"start over with {script} --force --stage {os.environ.get('BAYES_ASR_STAGE', 3)}"
    return "start over with --new"


def install_command(extra: str) -> str:
    """The command that installs an extra: of a checkout there, else of the package by its name."""
    return (
        f"pip install 'bayes_asr[{extra}]'" if HOME == PACKAGE else f"pip install -e '.[{extra}]'"
    )


def find_missing(extra: str) -> list[str]:
    """The packages of an extra that are not installed, as pip calls them."""
    return [name.replace("_", "-") for name in EXTRAS[extra] if find_spec(name) is None]


def find_configuration(path: Path) -> Path:
    """The file of this name, else the one `conf/...` or `recipes/...` that comes with the package.

    A name of neither is returned as it is. So is what follows a `#`: `split_system`.
    """
    file, _ = split_system(path)
    is_ours = file.parts[:1] in (("conf",), ("recipes",)) and not file.exists()
    return HOME / path if is_ours and (HOME / file).is_file() else path


def split_system(path: Path) -> tuple[Path, str]:
    """The file and the system of `FILE#SYSTEM`, one of a list of systems; else the file and ""."""
    # The last # counts, as folders may have one in their names.
    file, mark, system = str(path).rpartition("#")
    return (Path(file), system) if mark and not path.exists() else (path, "")
