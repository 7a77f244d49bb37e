"""Make the man page of the command line in build/man (`make man`).

Like the site's page on commands, it is made from typer's options.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence

from tools.website import ROOT, write_command_reference

PURPOSE = "measure how well memory models predict your own forgetting"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Make the man page in build/man.")
    parser.parse_args(arguments)
    from sphinx.application import Sphinx

    out = ROOT / "build" / "man"
    source = out / "source"
    shutil.rmtree(out, ignore_errors=True)
    source.mkdir(parents=True)
    write_command_reference(source)
    site = Sphinx(
        srcdir=str(source),
        confdir=None,
        outdir=str(out),
        doctreedir=str(source / "doctrees"),
        buildername="man",
        confoverrides={
            "project": "srs-eval",
            "extensions": ["myst_parser"],
            "root_doc": "cli",
            "man_pages": [("cli", "srs-eval", PURPOSE, [], 1)],  # no authors, section 1
            "smartquotes": False,
        },
        status=None,
        warningiserror=True,
        freshenv=True,
    )
    site.build()
    return site.statuscode


if __name__ == "__main__":
    sys.exit(main())
