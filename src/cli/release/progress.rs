//! A release in one line.

use crate::cli::show::{counted, lasted, one_line, short_ids};
use protocol::api::{AgentCounts, Progress, Release, ReleaseCounts};

/// Agents that have ended, of all: `12/20`.
pub fn part(progress: Progress) -> String {
    format!("{}/{}", progress.ended, progress.of)
}

/// Its state, with the reason where it has one.
pub fn state(release: &Release) -> String {
    match &release.reason {
        Some(reason) => format!("{} ({})", release.state, short_ids(&one_line(reason))),
        None => release.state.clone(),
    }
}

/// Its state, with the reason unless that stands in what it waits for anyway.
pub fn state_beside_waiting(release: &Release) -> String {
    let says = |waits: &String| release.reason.as_ref().is_some_and(|reason| waits.contains(reason));
    if release.waits_for.as_ref().is_some_and(says) { release.state.clone() } else { state(release) }
}

/// Who failed first, and why, unless its state says so anyway; `None` while nobody did.
pub fn first_failure(release: &Release) -> Option<String> {
    let why = release.why.as_ref()?;
    let says = |said: &Option<String>| said.as_ref().is_some_and(|said| said.contains(&why.text));
    (!says(&release.reason) && !says(&release.waits_for)).then(|| short_ids(&one_line(&why.text)))
}

/// How long a release takes at least, where that is a minute or more: `at least 31m 0s`.
pub fn at_least(ms: u64) -> Option<String> {
    let seconds = i64::try_from(ms / 1_000).unwrap_or(i64::MAX);
    (seconds >= 60).then(|| format!("at least {}", lasted(seconds)))
}

/// The outcomes there are, largest interest first: `12 succeeded, 3 failed`.
pub fn outcomes(counts: &ReleaseCounts) -> String {
    let ReleaseCounts {
        participants: _,
        todo: _,
        doing: _,
        done: _,
        failed_status: _,
        succeeded,
        failed,
        timed_out,
        unreachable,
        lost,
        undone,
        untested,
        excluded,
        undoing,
    } = *counts;
    let named = [
        (succeeded, "succeeded"),
        (failed, "failed"),
        (timed_out, "timed out"),
        (unreachable, "unreachable"),
        (lost, "lost"),
        (undone, "undone"),
        (untested, "untested"),
        (undoing, "to confirm the undo"),
        (excluded, "excluded"),
    ];
    listed(&named)
}

/// Those that there are: `2990 succeeded, 10 failed`.
fn listed(named: &[(u32, &str)]) -> String {
    let some = named.iter().filter(|(count, _)| *count > 0);
    let some: Vec<String> = some.map(|(count, name)| format!("{count} {name}")).collect();
    some.join(", ")
}

/// `3000: 2990 succeeded, 10 failed`.
pub fn agents(agents: &AgentCounts) -> String {
    let AgentCounts { participants, succeeded, failed, timed_out, unreachable, untested, unconfirmed } =
        *agents;
    let named = [
        (succeeded, "succeeded"),
        (failed, "failed"),
        (timed_out, "timed out"),
        (unreachable, "unreachable"),
        (untested, "untested"),
        (unconfirmed, "did not confirm the undo"),
    ];
    let some = listed(&named);
    if some.is_empty() { participants.to_string() } else { format!("{participants}: {some}") }
}

/// `Running: 12 of 20 children over; 12 succeeded; …` and what it waits for; without times.
pub fn line(release: &Release) -> String {
    let counts = &release.counts;
    let over = counts.done + counts.failed_status;
    let all = counted(counts.participants.into(), "child", "children");
    let state = state_beside_waiting(release);
    // While it runs, what it waits for begins with that.
    let mut parts = match (&release.waits_for, release.state.as_str()) {
        (Some(waits), "Running") => vec![format!("{state}: {}", short_ids(&one_line(waits)))],
        _ => vec![format!("{state}: {over} of {all} over")],
    };
    let outcomes = outcomes(counts);
    if !outcomes.is_empty() {
        parts.push(outcomes);
    }
    if release.unconfirmed > 0 {
        let agents = counted(release.unconfirmed.into(), "agent has", "agents have");
        parts.push(format!("{agents} not proven that the base version runs again"));
    }
    parts.extend(first_failure(release).map(|failure| format!("first failure: {failure}")));
    if release.state != "Running" {
        parts.extend(release.waits_for.as_deref().map(one_line).as_deref().map(short_ids));
    }
    parts.join("; ")
}
