//! The manager itself, its store and the manager above.

use tokio::time::Instant;

use super::items::{About, Item, Items, Severity};
use crate::{Context, v1::time::of_served};
use domain::release::waits::Span;
use engine::parent::lineage::LinkSnapshot;
use model::Now;
use protocol::api::{ParentStatus, StoreStatus};
use store::DiskSpace;

/// Below so many hundredths of its disk a store is soon full.
const LITTLE: u64 = 10;
const VERY_LITTLE: u64 = 5;

/// What the manager does, as [`protocol::api::ManagerStatus::state`] has it.
pub fn state(ctx: &Context) -> &'static str {
    match (ctx.view().is_draining(), ctx.is_serving()) {
        (true, _) => "stopping",
        (false, true) => "serving",
        (false, false) => "not_serving",
    }
}

/// What there is to say of that.
pub fn look_at_itself(state: &str, items: &mut Items) {
    match state {
        "stopping" => {
            let text = "it is stopping, and answers until what it has in hand is done";
            items.push(Item::new((Severity::Critical, About::Manager), text, "choirmaster serve"));
        }
        "not_serving" => {
            let text =
                "its lease on the store could not be renewed in time: nothing is decided or handed out";
            let help = "choirmaster store info --store URL";
            items.push(Item::new((Severity::Critical, About::Manager), text, help));
        }
        _ => {}
    }
}

pub fn store(ctx: &Context, items: &mut Items) -> StoreStatus {
    let (outage, disk) = (ctx.view().store_outage(), ctx.view().fleet_checks.disk());
    if let Some(outage) = outage {
        let lasts = Span(Instant::now().saturating_duration_since(outage.since).as_millis() as u64);
        let (why, help) = if outage.is_full {
            ("it has no space left", "make room on its disk: what waits is stored by itself then")
        } else {
            ("it does not answer", "choirmaster store info --store URL")
        };
        let text = format!("{why}, for {lasts}: nothing can be stored, and what was acknowledged is safe");
        items.push(Item::new((Severity::Critical, About::Store), text, help));
    }
    if let Some(item) = disk.filter(|_| outage.is_none()).and_then(little_room) {
        items.push(item);
    }
    let unreadable: u64 = ctx.view().stats.unreadable.counts().map(|(_, count)| count).sum();
    if unreadable > 0 {
        let rows = if unreadable == 1 { "a row".to_owned() } else { format!("{unreadable} rows") };
        let text = format!("{rows} of it could not be read since the manager started");
        let help = "the manager's log names table, key and column";
        items.push(Item::new((Severity::Warning, About::Store), text, help));
    }
    StoreStatus {
        kind: ctx.engine.reader().kind().name().to_owned(),
        writable: outage.is_none(),
        disk_free: disk.map(|disk| disk.free),
        disk_total: disk.map(|disk| disk.total),
    }
}

fn little_room(disk: DiskSpace) -> Option<Item> {
    let is_below = |percent: u64| u128::from(disk.free) * 100 < u128::from(disk.total) * u128::from(percent);
    let severity = match (is_below(VERY_LITTLE), is_below(LITTLE)) {
        (true, _) => Severity::Critical,
        (false, true) => Severity::Warning,
        (false, false) => return None,
    };
    let percent = u128::from(disk.free) * 100 / u128::from(disk.total.max(1));
    let text = format!("{percent} % of its disk is free");
    Some(Item::new((severity, About::Store), text, "make room on the disk of the store"))
}

/// `None`: there is no manager above.
pub fn parent(ctx: &Context, now: Now, items: &mut Items) -> Option<ParentStatus> {
    let LinkSnapshot { is_up, silent_ms, unsent } = ctx.view().lineage.link.look(now.served_ms)?;
    if !is_up {
        let silent = match silent_ms {
            Some(silent_ms) => format!("for {}", Span(silent_ms)),
            None => "and never did since this manager started".to_owned(),
        };
        let results =
            if unsent == 1 { "1 result waits".to_owned() } else { format!("{unsent} results wait") };
        let text = format!("the manager above does not answer, {silent}; {results} for it");
        let help = "choirmaster status --url PARENT";
        items.push(Item::new((Severity::Critical, About::Parent), text, help));
    }
    Some(ParentStatus {
        answers: is_up,
        last_answer: silent_ms.map(|ms| of_served(now.served_ms.saturating_sub(ms), now)),
        waiting_results: unsent as u64,
    })
}

/// Callers that nobody knows.
pub fn callers(ctx: &Context, items: &mut Items) {
    let count = ctx.view().unknown_callers.all().len();
    if count > 0 {
        let text = if count == 1 {
            "an id calls that is not known here".to_owned()
        } else {
            format!("{count} ids call that are not known here")
        };
        let help = "choirmaster children unknown";
        items.push(Item::new((Severity::Warning, About::Callers), text, help));
    }
}
