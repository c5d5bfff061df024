//! How far the stages of a release have come, and what was measured there.

use jiff::Timestamp;

use crate::cli::show::{between, lasted, one_line};
use protocol::api::StageOverview;

/// Statuses of children that are in a stage.
const AT_WORK: [&str; 3] = ["InProgress", "SuccessWaiting", "ShouldEnd"];

/// Of a stage in which children are at work: `Canary: calls 312 of 400, time 8s of 10s; next: rollout in about 3s`.
pub fn under_way(stage: &StageOverview, now: Timestamp) -> Option<String> {
    let at_work: u32 = AT_WORK.iter().filter_map(|status| stage.children.get(*status)).sum();
    if at_work == 0 {
        return None;
    }
    let since = stage.began.as_deref().and_then(|began| began.parse::<Timestamp>().ok());
    let elapsed = since.map_or(0, |since| (now.as_second() - since.as_second()).max(0));
    let least = i64::try_from(stage.min_ms.div_ceil(1_000)).unwrap_or(i64::MAX);
    let Calls { text, left, each } = calls(stage, elapsed);
    let time = match least {
        0 => format!("time {}", lasted(elapsed)),
        least => format!("time {} of {}", lasted(elapsed), lasted(least)),
    };
    let next = match (left, each) {
        // Nobody can tell when it has its calls.
        (Some(left), None) if left > 0 => format!(" after {left} more calls"),
        _ => {
            let calls = left.zip(each).map_or(0, |(left, each)| (left as f64 * each).ceil() as i64);
            match (least - elapsed).max(calls) {
                ..=0 => String::new(),
                seconds => format!(" in about {}", lasted(seconds)),
            }
        }
    };
    Some(format!("{}: {text}, {time}; next: {}{next}", one_line(&stage.name), one_line(&stage.on_success)))
}

/// Of a stage that is over, or isn't and has numbers: `Canary: 400 calls of 3 children in 12s`.
fn over(stage: &StageOverview, now: Timestamp) -> Option<String> {
    let measured = stage.measured.as_ref()?;
    let calls = measured.calls.map_or("calls not counted".to_owned(), |calls| format!("{calls} calls"));
    let of =
        if measured.children > 1 { format!(" of {} children", measured.children) } else { String::new() };
    let took = between(stage.began.as_deref(), stage.ended.as_deref(), now);
    let took = if took.is_empty() || stage.ended.is_none() { String::new() } else { format!(" in {took}") };
    Some(format!("{}: {calls}{of}{took}", one_line(&stage.name)))
}

/// How far a stage is and what was measured there, a line each; none where nothing is known of it.
pub fn lines(stage: &StageOverview, now: Timestamp) -> Vec<String> {
    let head = under_way(stage, now).or_else(|| over(stage, now));
    head.into_iter().chain(numbers(stage).map(|numbers| format!("  {numbers}"))).collect()
}

/// What was measured of each condition.
pub fn numbers(stage: &StageOverview) -> impl Iterator<Item = String> {
    stage.measured.iter().flat_map(|measured| &measured.numbers).map(|numbers| one_line(numbers))
}

/// Calls of a stage, as far as they are known while it goes on.
struct Calls {
    text: String,
    /// How many it lacks.
    left: Option<u64>,
    /// Seconds from one call to the next.
    each: Option<f64>,
}

fn calls(stage: &StageOverview, elapsed: i64) -> Calls {
    let measured = stage.measured.as_ref().and_then(|measured| Some((measured.calls?, measured.children)));
    let Some((calls, children)) = measured else {
        let least =
            if stage.min_calls > 1 { format!(", {} at least", stage.min_calls) } else { String::new() };
        return Calls { text: format!("calls told at its end{least}"), left: None, each: None };
    };
    // Those that have not reported yet need theirs, too.
    let children = stage.children.values().sum::<u32>().max(children);
    let needed = stage.min_calls.saturating_mul(children.into());
    let text =
        if stage.min_calls > 1 { format!("calls {calls} of {needed}") } else { format!("calls {calls}") };
    let each = (calls > 0).then(|| elapsed as f64 / calls as f64);
    Calls { text, left: Some(needed.saturating_sub(calls)), each }
}
