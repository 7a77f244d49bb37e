"""Evaluates configurations on one learner: a stream of events."""
