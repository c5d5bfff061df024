//! How far a release is, as a bar and in words.

use maud::{Markup, html};

use super::standing::is_open;
use crate::text;
use protocol::api::{AgentCounts, Release, ReleaseCounts};

/// A part of all who take part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    pub class: &'static str,
    pub words: &'static str,
    pub number: u32,
}

/// Who takes part by what became of them, in the order of a bar. The numbers sum up to the participants, as far as what was counted
/// at different moments does. Agents below managers count as such.
pub fn pieces(release: &Release) -> Vec<Segment> {
    let counted = release.agents.map_or_else(|| of_children(&release.counts), |agents| of_agents(&agents));
    let counted_sum = counted.iter().fold(0u32, |sum, piece| sum.saturating_add(piece.number));
    let rest = participants(release).saturating_sub(counted_sum);
    let unproven = release.agents.map_or(0, |agents| agents.unconfirmed);
    counted
        .into_iter()
        .chain(of_rest(&release.state, rest, unproven))
        .filter(|piece| piece.number > 0)
        .collect()
}

fn of_children(counts: &ReleaseCounts) -> Vec<Segment> {
    vec![
        Segment { class: "good", words: text::SUCCEEDED, number: counts.succeeded },
        Segment { class: "mixed", words: text::UNTESTED, number: counts.untested },
        Segment { class: "back", words: text::TAKEN_BACK, number: counts.undone },
        Segment { class: "bad", words: text::FAILED, number: counts.failed },
        Segment { class: "bad", words: text::TIMED_OUT, number: counts.timed_out },
        Segment { class: "lost", words: text::UNREACHABLE, number: counts.unreachable },
        Segment { class: "lost", words: text::LOST, number: counts.lost },
        Segment { class: "waiting", words: text::LEFT_OUT, number: counts.excluded },
        Segment { class: "going", words: text::AT_WORK, number: counts.doing },
        Segment { class: "waiting", words: text::TO_COME, number: counts.todo },
    ]
}

fn of_agents(agents: &AgentCounts) -> Vec<Segment> {
    vec![
        Segment { class: "good", words: text::SUCCEEDED, number: agents.succeeded },
        Segment { class: "mixed", words: text::UNTESTED, number: agents.untested },
        Segment { class: "bad", words: text::FAILED, number: agents.failed },
        Segment { class: "bad", words: text::TIMED_OUT, number: agents.timed_out },
        Segment { class: "lost", words: text::UNREACHABLE, number: agents.unreachable },
    ]
}

/// Of whom nothing is counted: what their release does says what they do. `unproven`: agents below managers that may run what was taken back.
fn of_rest(state: &str, rest: u32, unproven: u32) -> Vec<Segment> {
    let unproven = unproven.min(rest);
    let one = |class, words| vec![Segment { class, words, number: rest }];
    match state {
        "RollingBack" => one("back", text::GOING_BACK),
        "RolledBack" | "RolledBackUnproven" => vec![
            Segment { class: "back", words: text::TAKEN_BACK, number: rest - unproven },
            Segment { class: "lost", words: text::NOT_PROVEN_BACK, number: unproven },
        ],
        "Aborted" => one("waiting", text::ENDED_EARLY),
        state if is_open(state) => one("going", text::NOT_OVER),
        _ => one("waiting", text::LEFT_OUT),
    }
}

/// Those who take part: agents where managers are among the children.
pub fn participants(release: &Release) -> u32 {
    release.agents.map_or(release.counts.participants, |agents| agents.participants)
}

/// The words of the bar: `2 succeeded, 1 failed, of 5`.
pub fn words(release: &Release) -> String {
    let pieces = pieces(release);
    let all = text::grouped(participants(release).into());
    if pieces.is_empty() {
        return if release.counts.participants == 0 {
            text::NOBODY_YET.to_owned()
        } else {
            text::none_of(&all)
        };
    }
    let parts = pieces.iter().map(|piece| format!("{} {}", text::grouped(piece.number.into()), piece.words));
    text::parts_of(&parts.collect::<Vec<_>>(), &all)
}

/// A bar in a width of 100, with its words for those who don't see it.
pub fn bar(release: &Release) -> Markup {
    let pieces = pieces(release);
    let sum: u32 = pieces.iter().map(|piece| piece.number).sum();
    let mut from = 0.0;
    let parts: Vec<(f64, f64, &str)> = pieces
        .iter()
        .map(|piece| {
            let wide = f64::from(piece.number) * 100.0 / f64::from(sum.max(1));
            let at = from;
            from += wide;
            (at, wide, piece.class)
        })
        .collect();
    html! {
        svg.bar viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label=(words(release)) {
            rect.rest x="0" y="0" width="100" height="8" {}
            @for (at, wide, class) in parts {
                rect class=(class) x=(format!("{at:.2}")) y="0" width=(format!("{wide:.2}")) height="8" {}
            }
        }
    }
}
