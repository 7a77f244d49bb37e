"""`python -m srs_eval` and the program `srs-eval`.

An interrupt while the command line is still being imported ends it as silently as one later.
"""

import sys


def main() -> int:
    """Run the command line; returns the exit code."""
    try:
        from srs_eval.cli import main as cli

        return cli.main()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
