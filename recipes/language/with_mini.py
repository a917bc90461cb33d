"""Makes the files of the mini recipe importable: eSpeak NG, sound in noise."""

import sys
from pathlib import Path

MINI = Path(__file__).resolve().parent.parent / "mini"
sys.path.append(str(MINI))
