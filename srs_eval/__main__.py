"""`python -m srs_eval` and the program `srs-eval`.

An interrupt while the command line is still being imported ends it as silently as one later.
"""

import atexit
import os
import sys


def main() -> int:
    """Run the command line; returns the exit code."""
    try:
        from srs_eval.cli import main as cli

        code = cli.main()
    except KeyboardInterrupt:
        code = 130
    models = sys.modules.get("srs_eval.models")
    if models is not None and any(each.is_alive() for each in models.left_behind):
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)
    return code


if __name__ == "__main__":
    sys.exit(main())
