"""Intervals, verdicts and calibration of one learner; tests and averages over users."""
