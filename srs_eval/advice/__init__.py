"""Suggest what a learner should change, and estimate how likely it is to help."""
