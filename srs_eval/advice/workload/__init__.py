"""Estimate the workload of a desired retention by simulating scheduler, memory and habits by day.

`estimate.workload` yields figures that become better and better; `advice.shown` puts them into
words. It simulates a preset's cards: `simulator` runs one simulation, `kernel` is its compiled
loop, and `loops` has the operations that it needs from a model. The inputs are a `SimulatedDeck`
(today's cards) and `Costs` (answer times and button frequencies), both from `today`,
`SimulationSettings` (the question) and one or two `Memory` objects: one decides on intervals, and,
for today's schedule, another one determines the answers. `simulator` defines the possible models,
and draws other parameters that the learner's reviews allow.
"""
