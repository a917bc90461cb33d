"""What comes with the package and is not Python: `conf/`, `recipes/`, `local/` and `run.sh`."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
# An installed package carries them inside; a checkout has them beside.
HOME = next((d for d in (PACKAGE, PACKAGE.parent) if (d / "conf").is_dir()), PACKAGE)
CONF = HOME / "conf"


def find_configuration(named: Path) -> Path:
    """The file of this name, else the one `conf/...` or `recipes/...` that comes with the package.

    A name of neither is returned as it is.
    """
    ours = HOME / named
    if named.parts[:1] in (("conf",), ("recipes",)) and not named.exists() and ours.is_file():
        return ours
    return named
