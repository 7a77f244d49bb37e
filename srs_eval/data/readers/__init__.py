"""Readers behind `srs_eval.anki_import`: private copies, packages, SQLite, protobuf, CSV."""
