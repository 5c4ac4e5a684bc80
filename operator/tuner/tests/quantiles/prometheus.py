#!/usr/bin/env python3
"""Quantiles as Prometheus computes them: writes expected.jsonl beside this file.

A port, independent of the code under test, of BucketQuantile and HistogramQuantile from promql/quantile.go of Prometheus
3.16.0 (https://github.com/prometheus/prometheus/blob/v3.16.0/promql/quantile.go), applied to generated histograms.

    python3 prometheus.py

Of a native histogram the line holds what the HTTP API tells: buckets that hold calls as [lower, upper, calls], null for an
infinite bound; a sum of null is NaN.
"""

import json
import math
import pathlib
import random

QUANTILES = [0.1, 0.5, 0.9, 0.95, 0.99]
CASES = 220  # of each kind

LAYOUTS = {
    "prometheus": [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    "opentelemetry": [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10],
    "grpc": [0, 1e-5, 5e-5, 1e-4, 3e-4, 6e-4, 8e-4, 0.001, 0.002, 0.003, 0.004, 0.005, 0.006, 0.008, 0.01, 0.013, 0.016, 0.02,
             0.025, 0.03, 0.04, 0.05, 0.065, 0.08, 0.1, 0.13, 0.16, 0.2, 0.25, 0.3, 0.4, 0.5, 0.65, 0.8, 1, 2, 5, 10, 20, 50, 100],
    "negative": [-1, -0.25, 0.5, 1, 3],
}


def bucket_quantile(q, buckets):
    """BucketQuantile: of [(upper bound, cumulative count)], sorted, distinct, monotonic, the last bound +Inf."""
    rank = q * buckets[-1][1]
    b = next((i for i in range(len(buckets) - 1) if buckets[i][1] >= rank), len(buckets) - 1)
    if b == len(buckets) - 1:
        return buckets[-2][0]
    if b == 0 and buckets[0][0] <= 0:
        return buckets[0][0]
    start, (end, count) = 0.0, buckets[b]
    if b > 0:
        start = buckets[b - 1][0]
        count -= buckets[b - 1][1]
        rank -= buckets[b - 1][1]
    return start + (end - start) * (rank / count)


def histogram_quantile(q, buckets, total, sum_, custom):
    """HistogramQuantile: of [(lower, upper, calls)], ascending."""
    forward = math.isnan(sum_) or q < 0.5
    rank = q * total if forward else (1 - q) * total
    count = 0.0
    for bucket in buckets if forward else reversed(buckets):
        if bucket[2] == 0:
            continue
        count += bucket[2]
        if count >= rank:
            break
    lower, upper, calls = bucket
    negative = any(b[1] < 0 for b in buckets)
    positive = any(b[0] > 0 for b in buckets)
    if not custom and lower < 0 < upper:
        if not negative and positive:
            lower = 0.0
        elif not positive and negative:
            upper = 0.0
    elif custom:
        if lower == -math.inf:
            if upper <= 0:
                return upper
            lower = 0.0
        elif upper == math.inf:
            return lower
    count = min(count, total)
    if count < rank:
        return math.nan if math.isnan(sum_) else upper
    rank = rank - (count - calls) if forward else count - rank
    fraction = rank / calls
    if custom or (lower <= 0 <= upper):
        return lower + (upper - lower) * fraction
    log_lower, log_upper = math.log2(abs(lower)), math.log2(abs(upper))
    if lower > 0:
        return 2 ** (log_lower + (log_upper - log_lower) * fraction)
    return -(2 ** (log_upper + (log_lower - log_upper) * (1 - fraction)))


def latencies(rng):
    """A lognormal service with a slow mode now and then."""
    median = 10 ** rng.uniform(-3, 0.5)
    sigma = rng.uniform(0.05, 1.5)
    slow = rng.choice([0, 0, 0.05, 0.2])
    calls = rng.choice([3, 30, 300])
    return [median * math.exp(rng.gauss(0, sigma)) * (20 if rng.random() < slow else 1) for _ in range(calls)]


def counted(times, bounds, rng):
    """Calls per bucket, the last one above every bound; not whole numbers, as increases are not."""
    counts = [0] * (len(bounds) + 1)
    for time in times:
        counts[next((i for i, bound in enumerate(bounds) if time <= bound), len(bounds))] += 1
    factor = rng.choice([1, 1.0345, 0.25])
    return [count * factor for count in counts], sum(times) * factor


def bounds_of_its_own(rng):
    if rng.random() < 0.75:
        return rng.choice(list(LAYOUTS.values()))
    return sorted({round(10 ** rng.uniform(-3, 1), 4) for _ in range(rng.randint(2, 20))})


def classic(rng):
    bounds = bounds_of_its_own(rng)
    counts, sum_ = counted(latencies(rng), bounds, rng)
    below, buckets = 0.0, []
    for bound, count in zip(bounds + [math.inf], counts):
        below += count
        buckets.append((bound, below))
    expected = [[q, bucket_quantile(q, buckets)] for q in QUANTILES]
    told = [[None if math.isinf(bound) else bound, count] for bound, count in buckets]
    return {"kind": "classic", "buckets": told, "sum": sum_, "count": below, "expected": expected}


def native(kind, rng):
    times = latencies(rng)
    if kind == "custom":
        bounds = bounds_of_its_own(rng)
        counts, sum_ = counted(times, bounds, rng)
        edges = [-math.inf] + bounds + [math.inf]
        buckets = [(edges[i], edges[i + 1], count) for i, count in enumerate(counts)]
    else:
        schema, threshold = rng.choice([-1, 0, 1, 2, 3, 3, 3, 8]), rng.choice([2.0**-128, 2.0**-128, 0.0078125])
        per_bucket = {}
        for time in times:
            index = None if time <= threshold else math.ceil(math.log2(time) * 2**schema)
            per_bucket[index] = per_bucket.get(index, 0) + 1
        in_zero = per_bucket.pop(None, 0)
        if not per_bucket:
            return None
        buckets = [(-threshold, threshold, in_zero)] if in_zero else []
        for index, count in sorted(per_bucket.items()):
            buckets.append((max(2 ** ((index - 1) / 2**schema), threshold), 2 ** (index / 2**schema), count))
        sum_ = sum(times)
    buckets = [bucket for bucket in buckets if bucket[2] > 0]
    total = sum(bucket[2] for bucket in buckets)
    if kind == "exponential" and rng.random() < 0.1:
        total, sum_ = total * 1.009, math.nan
    expected = [[q, histogram_quantile(q, buckets, total, sum_, kind == "custom")] for q in QUANTILES]
    expected = [[q, value] for q, value in expected if math.isfinite(value)]
    told = [[None if math.isinf(edge) else edge for edge in bucket[:2]] + [bucket[2]] for bucket in buckets]
    return {"kind": kind, "buckets": told, "sum": None if math.isnan(sum_) else sum_, "count": total, "expected": expected}


def main():
    rng = random.Random(20)
    cases = []
    while len(cases) < CASES:
        cases.append(classic(rng))
    while len(cases) < 2 * CASES:
        case = native(rng.choice(["custom", "exponential"]), rng)
        # An exponential histogram of which one or two wide buckets are seen cannot be told from one with custom bounds.
        seen = [b for b in case["buckets"] if b[0] is not None and b[0] > 0] if case else []
        if case and not (case["kind"] == "exponential" and len(seen) <= 2 and seen[-1][1] / seen[-1][0] > 1.9):
            cases.append(case)
    path = pathlib.Path(__file__).with_name("expected.jsonl")
    path.write_text("".join(json.dumps(case, separators=(",", ":")) + "\n" for case in cases))


main()
