"""Reports as documents: written once, laid out as HTML, Markdown, CSV, pictures or terminal text.

`document` holds what a report consists of, `files` and `console` lay it out, `pictures` draws.
`learner` makes the report on one learner, `dataset` those on many users.
"""
