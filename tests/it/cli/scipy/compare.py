"""Makes 40 data sets, has `choirmaster analyse` judge each, and holds what it says against scipy.

    compare.py PROGRAM FOLDER

Prints what differs, and how many data sets were compared at the end. All that is random is seeded.
"""

import json
import math
import pathlib
import subprocess
import sys

import numpy as np
from scipy import stats

PROGRAM, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])
TOLERANCE, ALPHA = 0.05, 0.05
# What is worked out exactly on both sides differs by rounding alone.
EXACT = 1e-9
# scipy takes Pearson's type III of a skewness below 0.000016 for normal.
ROUGH = 1e-6
MOST_EXACT = 1_000
# Ends of intervals lie between two values of a test that moves in steps: it is asked so far on either side of them.
BESIDE = 1e-6

faults = []


def check(name, what, found, wanted, relative=EXACT):
    if not math.isclose(found, wanted, rel_tol=relative, abs_tol=1e-14):
        faults.append(f"{name}: {what} is {found!r}, by scipy {wanted!r}")


def analyse(name, baseline, canary, *more):
    for side, sample in (("old", baseline), ("new", canary)):
        text = json.dumps(sample) if isinstance(sample, dict) else "\n".join(repr(float(v)) for v in sample)
        (FOLDER / side).write_text(text + "\n")
    command = [PROGRAM, "analyse", "--baseline", "old", "--canary", "new", "--json", *more]
    ran = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)
    if not ran.stdout:
        sys.exit(f"{name}: {ran.stderr}")
    return json.loads(ran.stdout)


def moments(x, y):
    """Rank sum of y, centred, with its null variance and third moment, and the variance of Brunner and Munzel's test."""
    m, n = len(x), len(y)
    total = m + n
    ranks = stats.rankdata(np.concatenate([x, y]))
    centred = ranks - ranks.mean()
    s = centred[m:].sum()
    v = m * n / (total * (total - 1)) * (centred**2).sum()
    k = m * n * (m - n) / (total * (total - 1) * (total - 2)) * (centred**3).sum() if total > 2 else 0.0
    placement = 0.0
    if min(m, n) >= 2:
        with np.errstate(all="ignore"):
            z = stats.brunnermunzel(x, y, distribution="normal").statistic
        placement = (s / z) ** 2 if np.isfinite(z) and z != 0 and s != 0 else 0.0
    if placement and total > 2:
        # What that variance is too large by in the mean over all ways to draw: it is known of both sides together.
        tied = sum((x == value).sum() * (y == value).sum() for value in np.unique(x))
        placement = max(placement - ((m * n - tied) / 4 * total - 2 * v) / (total - 2), 0.0)
    return s, v, k, placement


def enumerated(x, y):
    """Both exact tails of the rank sum where values are tied, from scipy's enumeration of all ways to draw."""
    ranks = stats.rankdata(np.concatenate([x, y]))
    tails = [
        stats.permutation_test(
            (ranks[len(x):], ranks[: len(x)]), lambda a, b, axis: a.sum(axis=axis), vectorized=True,
            n_resamples=np.inf, alternative=alternative).pvalue
        for alternative in ("greater", "less")]
    return tails


def tails(x, y):
    """P(as high or higher) and P(as low or lower) of the canary's rank sum: exact if few, else Pearson's type III."""
    values = np.concatenate([x, y])
    if len(values) <= MOST_EXACT and len(np.unique(values)) == len(values):
        return [stats.mannwhitneyu(y, x, alternative=way, method="exact").pvalue for way in ("greater", "less")]
    if len(values) <= 20:
        return enumerated(x, y)
    s, v, k, placement = moments(x, y)
    variance = max(v, placement)
    skewness, z = k / variance**1.5, s / math.sqrt(variance)
    return [float(stats.pearson3.sf(z, skewness)), float(stats.pearson3.sf(-z, -skewness))]


def times(name, x, y, *more, shift=None, intervals=True):
    """Values: U, both one-sided p, the estimate of Hodges and Lehmann, and its interval by inverting scipy's test."""
    found = analyse(name, x, y, "--tolerance", f"{shift!r}ms" if shift else "5%", *more)
    effect, test = found["evidence"]["effect"], found["evidence"]["tests"][0]
    u = stats.mannwhitneyu(y, x, method="asymptotic").statistic
    check(name, "U / mn", effect["superiority"], u / (len(x) * len(y)))
    mapped = (lambda by: x + by) if shift else (lambda by: x * by)

    def tails_at(by):
        # What lies as close together as rounding lets it is one value, to both.
        return tails(np.round(mapped(by), 9), np.round(y, 9))

    upper, lower = tails_at(shift or 1 + TOLERANCE)
    relative = EXACT if len(x) + len(y) <= MOST_EXACT else ROUGH
    check(name, "p", test["p"], upper, relative)
    check(name, "p of no pass", test["pPass"], lower, relative)
    if not intervals:
        return
    if shift:
        middle = np.median(np.subtract.outer(y, x))
    else:
        middle = math.exp(np.median(np.subtract.outer(np.log(y), np.log(x))))
    check(name, "estimate", effect["estimate"], middle, BESIDE)
    for end, side in (("low", 0), ("high", 1)):
        at = effect.get(end)
        if at is None:
            if min(len(x), len(y)) > 4:
                faults.append(f"{name}: there is no {end} end")
            continue
        off = BESIDE if shift else BESIDE * at
        ps = [tails_at(at - off)[side], tails_at(at + off)[side]]
        inside, outside = (ps[1], ps[0]) if end == "low" else (ps[0], ps[1])
        if not outside <= ALPHA * (1 + BESIDE) or not inside >= ALPHA * (1 - BESIDE):
            faults.append(f"{name}: {end} is {at}, and beside it p is {outside} and {inside}")


def zeros(name, x, y):
    """Mostly zeros: how often there is something else is a binomial question, and that is ranked for itself."""
    found = {test["name"].split(" higher")[0]: test for test in analyse(name, x, y)["evidence"]["tests"]}
    share, rest = found["share of values other than 0"], found["values other than 0"]
    rate(name, share, (len(x), np.count_nonzero(x)), (len(y), np.count_nonzero(y)))
    upper, lower = tails(x[x != 0] * (1 + TOLERANCE), y[y != 0])
    check(name, "p of the rest", rest["p"], upper)
    check(name, "p of no pass of the rest", rest["pPass"], lower)


def rate(name, test, baseline, canary):
    (m, e1), (n, e2) = baseline, canary
    pi = n * (1 + TOLERANCE) / (n * (1 + TOLERANCE) + m)
    for what, way in (("p", "greater"), ("pPass", "less")):
        check(name, f"{what} of the rate", test[what], stats.binomtest(int(e2), int(e1 + e2), pi, way).pvalue)


def rates(name, baseline, canary):
    (m, e1), (n, e2) = baseline, canary
    sides = [{"calls": calls, "events": events} for calls, events in (baseline, canary)]
    found = analyse(name, *sides, "--rate", "--floor", "0%")["evidence"]
    rate(name, found["tests"][0], baseline, canary)
    if e1 == 0 or e2 == 0:
        return
    effect = found["effect"]
    check(name, "ratio", effect["estimate"], (e2 / n) / (e1 / m), BESIDE)
    # Clopper and Pearson's interval of the canary's share of all errors, as a ratio.
    interval = stats.binomtest(e2, e1 + e2).proportion_ci(1 - 2 * ALPHA, "exact")
    for end, share in zip(("low", "high"), interval):
        check(name, end, effect[end], share * m / ((1 - share) * n), BESIDE)


def beyond(name, x, y, q):
    """Values beyond a quantile of both sides together: the canary's part of them is hypergeometric."""
    test = analyse(name, x, y, "--quantile", str(q))["evidence"]["tests"][0]
    pooled = np.sort(np.concatenate([x * (1 + TOLERANCE), y]))
    count = int(math.floor((1 - q) * len(pooled) + 1e-6))
    mine = int((y >= pooled[-count]).sum())
    drawn = stats.hypergeom(len(pooled), count, len(y))
    check(name, "p", test["p"], float(drawn.sf(mine - 1)))
    check(name, "p of no pass", test["pPass"], float(drawn.cdf(mine)))


def strata(name, sides):
    """Strata are ranked for themselves, and weighted by 1 / (N + 1) (van Elteren 1960)."""
    sums = np.zeros(4)
    lines = ["stratum,ms\n", "stratum,ms\n"]
    for at, (x, y) in enumerate(sides):
        w = 1 / (len(x) + len(y) + 1)
        sums += np.array(moments(x * (1 + TOLERANCE), y)) * [w, w**2, w**3, w**2]
        for side, values in enumerate((x, y)):
            lines[side] += "".join(f"{at},{float(v)!r}\n" for v in values)
    for file, text in zip(("old.csv", "new.csv"), lines):
        (FOLDER / file).write_text(text)
    command = [PROGRAM, "analyse", "--baseline", "old.csv", "--canary", "new.csv", "--json", "--column", "ms",
               "--stratum", "stratum"]
    ran = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)
    test = json.loads(ran.stdout)["evidence"]["tests"][0]
    s, v, k, placement = sums
    variance = max(v, placement)
    z = s / math.sqrt(variance)
    check(name, "z", test["z"], z)
    check(name, "p", test["p"], float(stats.pearson3.sf(z, k / variance**1.5)))


def log_normal(random, count, factor=1.0, sd=0.5):
    return 20 * factor * random.lognormal(0, sd, count)


def from_few(random, count, values, factor=1.0):
    """Ties: few values, which lie on no step that a clock could have; × 1.05 some of one side are some of the other."""
    return random.choice(values, count) * factor


def all_sets():
    """Pairs of a name and what compares it."""
    sets = []

    def add(name, compare, *made, **more):
        sets.append((name, lambda: compare(name, *made, **more)))

    random = np.random.default_rng(1)
    for m, n in [(5, 5), (6, 9), (9, 6), (5, 40), (40, 5), (50, 60), (700, 800), (1990, 60)]:
        for factor in (1.0, 1.2):
            add(f"times {m}:{n} × {factor}", times, log_normal(random, m), log_normal(random, n, factor))
    few = np.array([10.0, 10.0 * 1.05, 13.7312, 17.2961, 21.911317, 21.911317 * 1.05, 30.1177])
    for m, n in [(5, 6), (8, 7), (10, 10), (900, 800), (3000, 300)]:
        add(f"ties {m}:{n}", times, from_few(random, m, few), from_few(random, n, few, 1.05), intervals=m * n < 50)
    for m, n in [(6, 7), (80, 90)]:
        x, y = log_normal(random, m), log_normal(random, n) + 3
        add(f"shift {m}:{n}", times, x, y, shift=2.0)
    for m, n in [(2, 3), (1, 1), (3, 1)]:
        add(f"tiny {m}:{n}", times, log_normal(random, m), log_normal(random, n, 3.0), intervals=False)
    for m, n, share in [(60, 70, 0.6), (400, 300, 0.9), (2000, 2000, 0.97)]:
        x, y = log_normal(random, m), log_normal(random, n, 1.3)
        x[random.random(m) < share] = 0
        y[random.random(n) < share - 0.05] = 0
        add(f"zeros {m}:{n}", zeros, x, y)
    for baseline, canary in [((10_000, 10), (10_000, 60)), ((10_000, 0), (10_000, 4)), ((100_000, 100), (5_000, 9)),
                             ((50, 3), (60, 20)), ((12, 1), (9, 0)), ((1_000_000, 5_000), (1_000_000, 5_300))]:
        add(f"rates {baseline} {canary}", rates, baseline, canary)
    for m, n, q in [(400, 500, 0.9), (2_000, 300, 0.95), (3_000, 3_000, 0.99)]:
        add(f"beyond {q} of {m}:{n}", beyond, log_normal(random, m), log_normal(random, n, 1.1), q)
    for sizes in [[(30, 40), (200, 20)], [(100, 100), (50, 400), (7, 9)]]:
        sides = [(log_normal(random, m), log_normal(random, n, 1.1)) for m, n in sizes]
        add(f"strata {sizes}", strata, sides)
    return sets


sets = all_sets()
for _, compare in sets:
    compare()
print("\n".join(faults))
print(f"{len(sets)} data sets, {len(faults)} differences")
sys.exit(1 if faults else 0)
