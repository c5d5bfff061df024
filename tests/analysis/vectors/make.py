#!/usr/bin/env python3
"""Makes the JSON files beside it. Needs scipy (made with 1.10) and mpmath; all that is random is seeded.

    python3 tests/analysis/vectors/make.py
"""

import json
import math
import pathlib
import random
from fractions import Fraction
from itertools import combinations

import mpmath as mp
from scipy import stats

mp.mp.dps = 40

HERE = pathlib.Path(__file__).parent


def write(name, value):
    with open(HERE / name, "w") as out:
        json.dump(value, out, separators=(",", ":"))
        out.write("\n")


def u_p(x, y, method, alternative, continuity):
    # scipy's first sample is our canary: U counts pairs in which it is larger.
    r = stats.mannwhitneyu(y, x, alternative=alternative, method=method, use_continuity=continuity)
    return float(r.statistic), float(r.pvalue)


def samples(m, n, shape, shift, seed):
    """The same recipe in Rust: a linear congruential generator, integers only, then a shape."""
    state = seed
    values = []
    for at in range(m + n):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        u = state >> 40  # 24 bits
        v = {"fine": u, "coarse": u % 17, "zeros": 0 if u % 10 < 7 else u % 1000}[shape]
        values.append(v + (shift if at >= m else 0))
    return values[:m], values[m:]


def mann_whitney():
    cases = []
    sizes = [(1, 1), (1, 5), (5, 1), (3, 4), (8, 8), (50, 60), (1000, 1), (1, 1000), (2000, 2), (100, 100),
             (1000, 1000), (9990, 10), (10, 9990), (10000, 10000)]
    seed = 1
    for m, n in sizes:
        for shape, shifts in [("fine", [0, 10**6, 10**7]), ("coarse", [0, 1, -5]), ("zeros", [0, 3])]:
            for shift in shifts:
                seed += 1
                x, y = samples(m, n, shape, shift, seed)
                if len(set(x + y)) == 1:
                    continue
                case = {"m": m, "n": n, "shape": shape, "shift": shift, "seed": seed, "p": {}}
                for alternative in ("two-sided", "greater", "less"):
                    for continuity in (True, False):
                        u, p = u_p(x, y, "asymptotic", alternative, continuity)
                        case["u"] = u
                        case["p"][f"{alternative},{str(continuity).lower()}"] = p
                if shape == "fine" and m <= 100 and n <= 100 and len(set(x + y)) == m + n:
                    case["exact"] = {a: u_p(x, y, "exact", a, True)[1] for a in ("greater", "less")}
                cases.append(case)
    # Far tails: complete separation of more and more values.
    for n in (10, 50, 100, 300, 690):
        x, y = list(range(n)), list(range(n, 2 * n))
        u, p = u_p(x, y, "asymptotic", "greater", False)
        case = {"m": n, "n": n, "shape": "separated", "shift": 0, "seed": 0, "u": u, "p": {"greater,false": p}}
        if n <= 100:
            case["exact"] = {"greater": u_p(x, y, "exact", "greater", True)[1]}
        cases.append(case)
    write("mann_whitney.json", cases)


def enumerations():
    """Exact p with ties, by full enumeration in whole numbers."""
    cases = []
    rng = random.Random(7)
    for m, n in [(1, 1), (2, 3), (5, 6), (6, 5), (4, 9), (7, 7), (10, 4), (10, 10), (3, 17), (19, 1)]:
        for levels in (2, 3, 6, 50):
            pooled = [rng.randrange(levels) for _ in range(m + n)]
            order = sorted(pooled)
            doubled = {v: 2 * order.index(v) + order.count(v) + 1 for v in order}
            ranks = [doubled[v] for v in pooled]
            observed = sum(ranks[m:])
            sums = [sum(c) for c in combinations(ranks, n)]
            cases.append({"baseline": pooled[:m], "canary": pooled[m:],
                          "greater": sum(s >= observed for s in sums) / len(sums),
                          "less": sum(s <= observed for s in sums) / len(sums)})
    write("enumerations.json", cases)


def gamma_tail(a, x, upper, z):
    """By quadrature in 40 digits."""
    a, x = mp.mpf(a), mp.mpf(x)
    if x <= 0:
        return 1.0 if upper else 0.0
    # The density falls by e within this width.
    sd = mp.sqrt(a) / (1 + abs(z) / 2)
    steps = [0, 0.01, 0.03, 0.1, 0.3, 1, 2, 3, 5, 8, 12, 20, 30, 45]
    places = [x + s * sd for s in steps] if upper else [max(x - s * sd, mp.mpf(0)) for s in steps]
    if a < 30:
        return float(mp.gammainc(a, x, mp.inf, regularized=True) if upper else mp.gammainc(a, 0, x, regularized=True))
    return abs(float(mp.quad(lambda t: mp.exp(-t + (a - 1) * mp.log(t) - mp.loggamma(a)) if t > 0 else mp.mpf(0),
                             sorted(set(places)))))


def tails():
    normal = [[z, float(stats.norm.sf(z))] for z in [-8, -3, -1, -0.1, 0, 0.5, 1.6448536269514722, 3, 6, 10, 20, 30, 37]]
    quantiles = [[p, float(stats.norm.isf(p))] for p in
                 [0.999, 0.9, 0.5, 0.3, 0.05, 0.025, 1e-3, 1e-6, 1e-12, 1e-50, 1e-200, 1e-300]]
    pearson = []
    for skew in [1e-4, 1e-3, 6e-3, 7e-3, 0.02, 0.05, 0.09, 0.1, 0.11, 0.5, 1.0, 1.9, -1e-3, -6e-3, -0.02, -0.3, -1.0]:
        a = 4 / skew**2
        for z in [-3, -1, -0.01, 0, 0.01, 1, 2, 3.5, 6, 12, 25]:
            x = a + z * math.sqrt(a) if skew > 0 else a - z * math.sqrt(a)
            # By quadrature: scipy's gamma.cdf is wrong from the third digit on for shapes of millions.
            p = gamma_tail(a, x, skew > 0, z)
            if p > 1e-300:
                pearson.append([z, skew, float(p)])
    binomial, hyper, student = [], [], []
    for n, p in [(1, 0.5), (10, 0.05), (40, 0.5), (300, 0.01), (1000, 0.5121951219512195), (5000, 0.0128), (100000, 0.3),
                 (10**6, 1e-4)]:
        mean, sd = n * p, math.sqrt(n * p * (1 - p))
        for z in [-6, -2, -0.5, 0, 0.5, 1, 2, 4, 8, 16, 34]:
            k = round(mean + z * sd)
            if 0 <= k <= n:
                sf, cdf = float(stats.binom.sf(k - 1, n, p)), float(stats.binom.cdf(k, n, p))
                binomial.append([k, n, p, sf, cdf])
    for total, marked, n in [(10, 4, 5), (100, 5, 50), (200, 100, 10), (2000, 100, 1900), (5000, 1000, 700)]:
        mean = marked * n / total
        for k in sorted({max(0, marked + n - total), int(mean), int(mean) + 1, int(mean * 1.3) + 1, min(marked, n)}):
            # By whole numbers: scipy's tails lose digits here.
            ways = math.comb(total, n)
            upper = sum(math.comb(marked, i) * math.comb(total - marked, n - i)
                        for i in range(k, min(marked, n) + 1) if 0 <= n - i <= total - marked)
            p = float(Fraction(upper, ways))
            if p > 1e-300:
                hyper.append([k, total, marked, n, p])
    for t in [-2, 0, 0.5, 1, 2.5, 10, 100]:
        for nu in [4, 7, 30]:
            student.append([t, nu, float(stats.t.sf(t, nu))])
    write("tails.json", {"normal": normal, "quantiles": quantiles, "pearson": pearson, "binomial": binomial,
                         "hypergeometric": hyper, "student": student})


mann_whitney()
enumerations()
tails()
