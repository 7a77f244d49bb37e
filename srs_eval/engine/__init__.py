"""Evaluate configurations on one learner and yield a stream of events."""
