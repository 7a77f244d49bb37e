"""What a desired retention costs: scheduler x memory x habits, day by day.

`estimate.workload` answers, better and better; `answers` puts it into words. It plays a preset's
cards forward: `simulator` for one course of events, `kernel` is its compiled loop. What goes in are
a `Deck` (today's cards: `today`), `Costs` (what answers cost and which buttons are pressed:
`habits`), `Settings` (the question) and one or two `Memory`: the one that decides on intervals and,
where the model may be wrong, the one that answers are drawn from. `draws` tells which other
parameters the learner's reviews allow, `preview` what the buttons would give.
"""
