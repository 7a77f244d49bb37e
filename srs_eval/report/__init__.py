"""Build reports once and lay them out as HTML, Markdown, CSV, pictures or terminal text.

`document` defines the parts of a report, `files` and `console` lay them out, `pictures` draws.
`learner` builds the report on one learner, `dataset` the reports on many users.
"""
