"""What comes with the package and is not Python: `conf/`, `recipes/`, `local/` and `run.sh`."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
# An installed package carries them inside; a checkout has them beside.
HOME = next((d for d in (PACKAGE, PACKAGE.parent) if (d / "conf").is_dir()), PACKAGE)
CONF = HOME / "conf"


def find_configuration(named: Path) -> Path:
    """The file of this name, else the one `conf/...` or `recipes/...` that comes with the package.

    A name of neither is returned as it is. So is what follows a `#`: `split_system`.
    """
    file, _ = split_system(named)
    is_ours = file.parts[:1] in (("conf",), ("recipes",)) and not file.exists()
    return HOME / named if is_ours and (HOME / file).is_file() else named


def split_system(named: Path) -> tuple[Path, str]:
    """The file and the system of `FILE#SYSTEM`, one of a list of systems; else the file and ""."""
    file, mark, system = str(named).rpartition("#")
    return (Path(file), system) if mark and not named.exists() else (named, "")
