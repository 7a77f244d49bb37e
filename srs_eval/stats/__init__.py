"""Intervals, verdicts, tests over users and averages."""
