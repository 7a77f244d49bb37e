"""Read files for `srs_eval.anki_import`: private copies, packages, SQLite, protobuf, CSV."""
