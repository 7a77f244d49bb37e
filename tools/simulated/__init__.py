"""Simulated learners: review histories from a seed, for the demo, tests and pretraining."""

from __future__ import annotations

from tools.simulated.character import Character, Habits
from tools.simulated.files import write_collection, write_dataset
from tools.simulated.learner import CardStates, SimulatedLearner, simulate_learner

__all__ = [
    "CardStates",
    "Character",
    "Habits",
    "SimulatedLearner",
    "simulate_learner",
    "write_collection",
    "write_dataset",
]
