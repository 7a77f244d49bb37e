"""What a desired retention costs: scheduler x memory x habits, day by day.

`estimate.workload` answers in numbers, better and better; `advice.shown` words them. It plays
a preset's cards forward: `simulator` for one course of events, `kernel` is its compiled loop,
`loops` what it asks of a model. What goes in are a `Deck` (today's cards) and `Costs` (what answers
cost and which buttons are pressed), both of `today`, `Settings` (the question) and one or two
`Memory`: the one that decides on intervals and, for the schedule of today, the one that answers are
drawn from. `simulator` tells which these can be, and which other parameters the learner's reviews
allow.
"""
