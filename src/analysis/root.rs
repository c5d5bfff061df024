//! Where a falling function of one number crosses zero: how estimates and the ends of intervals are found.

/// Relative width at which a place is known.
const WIDTH: f64 = 1e-10;

/// Steps outwards until a sign changes: each doubles, so that 60 leave the range of sensible numbers.
const MAX_DOUBLINGS: u32 = 60;

/// Steps of the search; bisection alone takes no more.
const MAX_STEPS: u32 = 100;

/// Where `f`, which falls, goes from above 0 to 0 or below. The search begins at `start` with steps of `step` and gives
/// up beyond `limit`; the place is known to `width`, or to the last digits.
pub fn falling(f: impl Fn(f64) -> f64, start: f64, step: f64, limit: f64, width: f64) -> Option<f64> {
    let ((a, fa), (b, fb)) = bracket(&f, start, step, limit)?;
    Some(chandrupatla(&f, (a, fa), (b, fb), step, width))
}

type XY = (f64, f64);

/// Two places, `f` above 0 at the first and not at the second.
fn bracket(f: &impl Fn(f64) -> f64, start: f64, step: f64, limit: f64) -> Option<(XY, XY)> {
    let value = f(start);
    let up = value > 0.0;
    let mut known = (start, value);
    let mut step = if up { step } else { -step };
    for _ in 0..MAX_DOUBLINGS {
        let x = known.0 + step;
        if (x - start).abs() > limit {
            return None;
        }
        let next = (x, f(x));
        if (next.1 > 0.0) != up {
            return Some(if up { (known, next) } else { (next, known) });
        }
        known = next;
        step *= 2.0;
    }
    None
}

/// Chandrupatla 1997: inverse quadratic interpolation where it is trustworthy, else bisection. Ends beside the crossing
/// also of functions that jump.
fn chandrupatla(f: &impl Fn(f64) -> f64, above: XY, below: XY, scale: f64, least: f64) -> f64 {
    let (mut a, mut b) = (above, below);
    let mut c;
    let mut t = 0.5;
    for _ in 0..MAX_STEPS {
        let x = a.0 + t * (b.0 - a.0);
        let new = (x, f(x));
        if (new.1 > 0.0) == (a.1 > 0.0) {
            c = a;
        } else {
            (c, b) = (b, a);
        }
        a = new;
        let width = (b.0 - a.0).abs();
        let wanted = (WIDTH * scale.abs().max(a.0.abs()).max(f64::MIN_POSITIVE)).max(least);
        if width <= wanted {
            break;
        }
        let least = 0.5 * wanted / width;
        let xi = (a.0 - b.0) / (c.0 - b.0);
        let phi = (a.1 - b.1) / (c.1 - b.1);
        t = if phi * phi < xi && (1.0 - phi) * (1.0 - phi) < 1.0 - xi {
            let first = a.1 / (b.1 - a.1) * (c.1 / (b.1 - c.1));
            first + (c.0 - a.0) / (b.0 - a.0) * (a.1 / (c.1 - a.1)) * (b.1 / (c.1 - b.1))
        } else {
            0.5
        };
        t = if t.is_finite() { t.clamp(least, 1.0 - least) } else { 0.5 };
    }
    0.5 * (a.0 + b.0)
}
