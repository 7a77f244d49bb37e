"""Run the command line as `python -m srs_eval` or as the program `srs-eval`.

An interrupt while the command line is still being imported ends the program as silently as a later
one, and too little memory then ends it with the same sentence as later. The exit codes here are
those of `srs_eval.cli.exit_codes`.
"""

import sys


def main() -> int:
    """Run the command line and return the exit code."""
    try:
        from srs_eval.cli import main as cli
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        from srs_eval.data.memory import NOT_ENOUGH_MEMORY, is_memory_error

        if not is_memory_error(error):
            raise
        print(f"srs-eval: {NOT_ENOUGH_MEMORY}", file=sys.stderr)
        return 2
    try:
        return cli.main()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
