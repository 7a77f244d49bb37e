"""What a desired retention costs: scheduler x memory x habits, day by day.

`simulator` plays a preset's cards forward, `kernel` is its compiled loop. What goes in are a
`Deck` (today's cards), `Costs` (what answers cost and which buttons are pressed), `Settings`
(the question) and one or two `Memory`: the one that decides on intervals and, where the model
may be wrong, the one that answers are drawn from.
"""
