"""`python -m srs_eval` and the program `srs-eval`.

An interrupt while the command line is still being imported ends it as silently as one later, and
too little memory with the same sentence.
"""

import sys


def main() -> int:
    """Run the command line; returns the exit code."""
    try:
        from srs_eval.cli import main as cli
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        from srs_eval.data.memory import NOT_ENOUGH, is_short_of_memory

        if not is_short_of_memory(error):
            raise
        print(f"srs-eval: {NOT_ENOUGH}", file=sys.stderr)
        return 2
    try:
        return cli.main()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
