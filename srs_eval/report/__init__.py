"""Reports as documents: written once, laid out as HTML, Markdown, CSV, pictures or terminal text.

`document` holds what a report consists of, `page`, `files` and `terminal` lay it out, `pictures`
draws. `dataset` makes the report on many users.
"""
