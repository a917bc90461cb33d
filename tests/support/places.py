"""Where tests find real speech: BAYES_ASR_DATA, by default ../shared/data beside the checkout."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONF = ROOT / "conf"
RECIPES = ROOT / "recipes"
DATA = Path(os.environ.get("BAYES_ASR_DATA", ROOT.parent / "shared" / "data"))
