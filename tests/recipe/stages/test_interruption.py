"""Ctrl-C in a recipe's script is said in one line, whenever it comes."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.places import RECIPES, ROOT
from tests.support.recipe_options import DEFAULTS

SCRIPTS = [*RECIPES.glob("*/prepare.py"), *RECIPES.glob("*/align.py"), ROOT / "local/kaldi_data.py"]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.name}")
@pytest.mark.parametrize("moment", ["imports", "work"])
def test_interruption_is_said_in_one_line(script: Path, moment: str, tmp_path: Path) -> None:
    """While other modules are loaded, and while the script works."""
    source = script.read_text()
    first = source.index("import bayes_asr.recipe.stages.interruption")
    assert not re.search("^(import|from)", source[:first], re.MULTILINE), "it is the first import"
    copy = tmp_path / script.name
    begins = source.index("import", first + 10) if moment == "imports" else len(source)
    begins = source.rindex("\n", 0, begins) + 1
    raised = f"import os\nos.kill(os.getpid(), {signal.SIGINT.value})\n"
    copy.write_text(source[:begins].replace('if __name__ == "__main__":', "if False:") + raised)
    done = subprocess.run(
        [sys.executable, copy],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": f"{ROOT}:{script.parent}"},
    )
    assert done.stderr == f"{script.name}: interrupted\n"
    assert done.returncode == -signal.SIGINT, "a shell takes it for 130"


def test_other_errors_keep_their_traceback() -> None:
    code = "import bayes_asr.recipe.stages.interruption\n1 / 0"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr


@pytest.mark.parametrize("moment", ["imports", "work"])
def test_questions_of_the_shell_are_interrupted_in_one_line(moment: str) -> None:
    """While the modules load, and while it answers."""
    module = "options" if moment == "imports" else "checks"
    code = (
        "import os, runpy, signal, sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, *rest):\n"
        f"        if name == 'bayes_asr.recipe.stages.{module}':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "script = os.path.abspath('bayes_asr/recipe/stages/__main__.py')\n"
        f"sys.argv = [script, 'run.sh', 'refuse', '.', *{DEFAULTS}]\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stderr == "run.sh: interrupted\n"
    assert done.returncode == -signal.SIGINT


def test_little_is_loaded_before_interruptions_are_said() -> None:
    """Nothing that Python has not loaded at its start, but for the packages themselves."""
    code = (
        "import sys\nbefore = {*sys.modules}\nimport bayes_asr.recipe.stages.interruption\n"
        "print(*sorted({*sys.modules} - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.split() == [
        "bayes_asr",
        "bayes_asr.recipe",
        "bayes_asr.recipe.stages",
        "bayes_asr.recipe.stages.interruption",
    ]
