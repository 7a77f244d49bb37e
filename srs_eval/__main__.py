"""`python -m srs_eval` is `srs-eval`."""

import sys

from srs_eval.cli import main

if __name__ == "__main__":
    sys.exit(main())
