"""Logistic regression that learns after every answer: an extended Kalman filter, and mixtures.

The weights of a logistic regression drift as a random walk around a prior; their posterior is
kept as a normal distribution (West, Harrison & Migon, 1985, JASA 80; the prediction's integral
as MacKay, 1992, Neural Computation 4). A mixture weighs several predictors by how likely they
have made what was seen so far, which costs at most the logarithm of its prior weight against
the best of them (Vovk, 1990, COLT), and lets a share of the weight start anew each time
(Herbster & Warmuth, 1998, Machine Learning 32).
"""

from __future__ import annotations

import math

import numpy as np

from srs_eval.data.reviews import FloatArray

SMALLEST = 1e-6  # probability


def kalman_filter(
    features: FloatArray,
    y: FloatArray,
    mean: FloatArray,
    variance: FloatArray,
    drift: float,
    part: tuple[int, int],
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Predict each of n outcomes from k features, then learn from it.

        s2 = x'Px,  p = sigma(w.x / sqrt(1 + pi s2 / 8)),  h = p (1 - p)
        w += P x (y - p) / (1 + h s2),  P -= h / (1 + h s2) P x (P x)'
        P += drift diag(variance),  w -= drift / 2 (w - mean)

    `mean` and `variance` (k,) are the prior's. Returns the probabilities (n,), what the features
    from `part[0]` up to `part[1]` add to the logit (n,) with its variance (n,), and the weights
    after the last outcome with their variances (k,).
    """
    n, k = features.shape
    w = mean.copy()
    covariance = np.diag(variance)
    predicted, offset, offset_variance = np.empty(n), np.empty(n), np.empty(n)
    gain = np.empty(k)
    begin, end = part
    for at in range(n):
        x = features[at]
        gain[:] = 0.0
        for row in range(k):  # the covariance is symmetric: its rows are its columns
            value, line = x[row], covariance[row]
            if value != 0.0:
                for column in range(k):
                    gain[column] += line[column] * value
        logit, spread, some = 0.0, 0.0, 0.0
        for row in range(k):
            logit += w[row] * x[row]
            spread += gain[row] * x[row]
        some_spread = 0.0
        for row in range(begin, end):
            some += w[row] * x[row]
            inner, line = 0.0, covariance[row]
            for column in range(begin, end):
                inner += line[column] * x[column]
            some_spread += x[row] * inner
        offset[at], offset_variance[at] = some, some_spread
        p = 1 / (1 + math.exp(-logit / math.sqrt(1 + math.pi * spread / 8)))
        p = min(max(p, SMALLEST), 1 - SMALLEST)
        predicted[at] = p
        h = p * (1 - p)
        damped = 1 / (1 + h * spread)
        error = (y[at] - p) * damped
        for row in range(k):
            w[row] += gain[row] * error
            w[row] -= drift / 2 * (w[row] - mean[row])
            value, line = h * damped * gain[row], covariance[row]
            for column in range(k):
                line[column] -= value * gain[column]
            line[row] += drift * variance[row]
    return predicted, offset, offset_variance, w, np.diag(covariance).copy()


def mixture(
    predictions: FloatArray, y: FloatArray, prior: FloatArray, share: float, floor: float
) -> FloatArray:
    """The predictions (members, n) weighed by how they have done so far, (n,).

    `prior` (members,) sums to 1. After each outcome `share` of the weight goes back to the
    prior. The last member is the base: its weight at review k is at least
    1 / (1 + (k / floor)^2).
    """
    members, n = predictions.shape
    weights = prior.copy()
    mixed = np.empty(n)
    for at in range(n):
        least = 1 / (1 + (at / floor) ** 2)
        base = max(weights[members - 1], least)
        rest = (1 - base) / max(1 - weights[members - 1], 1e-300)
        total = base * predictions[members - 1, at]
        for member in range(members - 1):
            total += rest * weights[member] * predictions[member, at]
        mixed[at] = total
        likely = 0.0
        for member in range(members):
            p = predictions[member, at]
            weights[member] *= p if y[at] > 0 else 1 - p
            likely += weights[member]
        for member in range(members):
            weights[member] = (1 - share) * weights[member] / likely + share * prior[member]
    return mixed


def running_offset(z: FloatArray, y: FloatArray, rate: float) -> FloatArray:
    """sigma(z + x) for each of n outcomes, x <- (1 - 0.1 rate) x + rate (y - p), x_0 = 0."""
    predicted = np.empty(len(z))
    x = 0.0
    for at in range(len(z)):
        p = 1 / (1 + math.exp(-z[at] - x))
        predicted[at] = p
        x += rate * (y[at] - p) - 0.1 * rate * x
    return predicted
