"""Simulated learners: review histories from a seed, for the demo, for tests and for pretraining."""

from __future__ import annotations

from srs_eval.data.simulated.character import Character, Habits
from srs_eval.data.simulated.files import write_collection, write_dataset
from srs_eval.data.simulated.learner import CardStates, SimulatedLearner, simulate_learner

__all__ = [
    "CardStates",
    "Character",
    "Habits",
    "SimulatedLearner",
    "simulate_learner",
    "write_collection",
    "write_dataset",
]
