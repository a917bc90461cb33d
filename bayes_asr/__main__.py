"""`python -m bayes_asr` is `bayes-asr`."""

import sys

from bayes_asr.cli import main

if __name__ == "__main__":
    sys.exit(main())
