"""What operations do, in NumPy: on arrays with any number of leading lane dimensions.

`iosim.core.program.ops` says the same of each in words, and for GPUs.
"""

from __future__ import annotations

import numpy as np

from iosim.base.arrays import Floats, Ints

Array = Floats


def dot(a: Array, b: Array) -> Array:
    """Stacked matrix product; NumPy's is slow for the outer products that tiny tiles make."""
    return a * b if a.shape[-1] == 1 else np.matmul(a, b)


def t(a: Array) -> Array:
    """The transpose of each matrix of a stack."""
    return a.swapaxes(-1, -2)


def online(m: Array, l: Array, s: Array) -> tuple[Array, Array, Array, Array]:
    """New row maximum and sum, the weights exp(s − m), and the factor for what came before.

    Milakov and Gimelshein 2018, arXiv 1805.02867, Algorithm 3.
    """
    top = np.maximum(m, s.max(axis=-1))
    # A row that has seen no column yet has −inf at the top, and weights of 0.
    safe = np.where(np.isneginf(top), 0.0, top)
    p = np.exp(s - safe[..., None])
    shrink = np.exp(m - safe)
    return top, l * shrink + p.sum(axis=-1), p, shrink


def row_stats(m: Array, l: Array, s: Array) -> tuple[Array, ...]:
    """New row maximum and sum."""
    top, total, _, _ = online(m, l, s)
    return top, total


def online_softmax(o: Array, m: Array, l: Array, s: Array, v: Array) -> tuple[Array, ...]:
    """O before it is divided by l, with new row maxima and sums, and the weights."""
    top, total, p, shrink = online(m, l, s)
    return o * shrink[..., None] + dot(p, v), top, total, p


def online_mean(o: Array, m: Array, l: Array, s: Array, v: Array) -> tuple[Array, ...]:
    """O divided by l, with new row maxima and sums, and the weights."""
    top, total, p, shrink = online(m, l, s)
    return (o * (l * shrink)[..., None] + dot(p, v)) / total[..., None], top, total, p


def online_weights(o: Array, m: Array, l: Array, s: Array) -> tuple[Array, ...]:
    """What `online_softmax` does before it adds rows of V."""
    top, total, p, shrink = online(m, l, s)
    return o * shrink[..., None], top, total, p


def log_online(L: Array, s: Array) -> tuple[Array, Array, Array]:
    """New L = log Σ exp of the scores so far, the weights exp(s − L), and what shrinks the rest.

    L is one word a row, and says what a row maximum and a row sum say together.
    """
    m, l, _, _ = online(L, np.ones_like(L), s)
    # −inf where neither L nor s has a finite number: nothing has been seen.
    new = np.where(np.isneginf(m), -np.inf, m + np.log(np.where(l == 0.0, 1.0, l)))
    safe = np.where(np.isneginf(new), 0.0, new)
    return new, np.exp(s - safe[..., None]), np.exp(L - safe)


def log_mean(o: Array, L: Array, s: Array, v: Array) -> tuple[Array, ...]:
    """O, a mean of rows of V at any time, with new L, and the weights."""
    new, p, shrink = log_online(L, s)
    return o * shrink[..., None] + dot(p, v), new, p


def log_weights(o: Array, L: Array, s: Array) -> tuple[Array, ...]:
    """What `log_mean` does before it adds rows of V."""
    new, p, shrink = log_online(L, s)
    return o * shrink[..., None], new, p


def merge(o: Array, m: Array, l: Array, o2: Array, m2: Array, l2: Array) -> tuple[Array, ...]:
    """O, row maxima and sums of two parts of the keys together."""
    top = np.maximum(m, m2)
    # Where neither has seen a column, the sums are 0 and stay so.
    safe = np.where(np.isneginf(top), 0.0, top)
    mine, other = np.exp(m - safe), np.exp(m2 - safe)
    return o * mine[..., None] + o2 * other[..., None], top, l * mine + l2 * other


def beyond(s: Array, a: int | Ints) -> Ints:
    """c − r − a of every column c and row r; `a` may differ from lane to lane."""
    rows, columns = s.shape[-2:]
    apart: Ints = np.arange(columns) - np.arange(rows)[:, None] - np.asarray(a)[..., None, None]
    return apart


def safe_divisors(l: Array) -> Array:
    """Row sums to divide by; 1 for rows that saw nothing, whose weights are all 0."""
    return np.where(l == 0.0, 1.0, l)


def online_mean_seen(o: Array, m: Array, l: Array, s: Array, v: Array) -> tuple[Array, ...]:
    """`online_mean`, with 0 in rows that have seen nothing."""
    top, total, p, shrink = online(m, l, s)
    mean = (o * (l * shrink)[..., None] + dot(p, v)) / safe_divisors(total)[..., None]
    return mean, top, total, p


def whole_after(rows: int, columns: int) -> tuple[int | None, int | None]:
    """From and up to which scalar `mask_after` hides nothing."""
    return columns - 1, None


def whole_before(rows: int, columns: int) -> tuple[int | None, int | None]:
    """From and up to which scalar `mask_before` hides nothing."""
    return None, 1 - rows
