"""Define what the checks of models report: one `Mistake` for each error in a model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Mistake:
    """One mistake in a configuration.

    `kind` names the mistake and decides which of the other fields are set:

    - "fails", "no probability": `what` is the reason; "certain": `found` is 0 or 1; "not trained":
      `what` is the note.
    - "own outcome", "own answer time", "later outcome", "later input" (`what` is the input),
      "fit sees test", "fit sees later", "learns", "order", "repeats", "workers": `review` shows it,
      `found` and `expected` are its probabilities. "needs later": `what` is the error that is
      raised if the log ends at `review`.
    - "pretraining fails": `what` is the reason, `found` the number of learners.
    - "few reviews": `what` is the reason, `found` the number of reviews; "one outcome": `what` is
      the reason, `found` the grade of all reviews.
    - "hyperparameter", "default": `what` is the hyperparameter. "idle seed": it is the seed.
    - "gradient": `what` is the trainer, `parameter` the position, `found` and `expected` the
      derivatives; "idle parameter": `parameter`, and `found` is the possible gain in log loss;
      "not converged": `found` and `expected` are log losses before and after more training;
      "worse than average": `found` is the model's log loss, `expected` the average's.
    - "writes" (to arrays that all models share), "unfinished" (checks): no other field is set.
    """

    configuration: str
    kind: str
    what: str = ""
    review: int = 0  # number of the review that shows it, from 1
    parameter: int = 0  # position of the parameter, from 0
    found: float = np.nan
    expected: float = np.nan


Mistakes = Iterator[Mistake]
