"""Compute intervals, verdicts and calibration of one learner, and tests and means over users."""
