//! First downloads: of children with areas of their own, and of as many that all have the same (one sample
//! configuration, many agents), with others polling meanwhile; and a stop in the middle of them.

use std::{sync::Arc, thread, time::Duration};

use tokio::time::Instant;

use crate::{
    bodies, fill,
    load::{self, Cursor, Work},
    rows::{Bench, PREPARATION, ready, say},
    server::Server,
    table::{Side, Target},
};

/// Longest p99 of a first download, in milliseconds.
const LONGEST_P99_MS: f64 = 20.0;

/// Longest stop, in seconds.
const LONGEST_STOP: f64 = 2.0;

/// Downloads that are under way for so long when the stop comes.
const BEFORE_STOP: Duration = Duration::from_millis(500);

impl Bench {
    /// A quarter of the children downloads, then the same again; the next quarter downloads while the rest polls; the
    /// server is stopped while the others download.
    pub async fn first_downloads(&mut self) -> anyhow::Result<()> {
        for equal in [false, true] {
            let whose = if equal { "equal areas" } else { "areas of their own" };
            say(&format!("first downloads, {whose}"));
            let url = self.sqlite(if equal { "equal.db" } else { "own.db" });
            let area = |index: usize| bodies::area(if equal { 0 } else { index });
            let mut callers = fill::children_at(&url, self.sizes.children, area).await?;
            if equal {
                // They report the area that they have.
                for caller in &mut callers {
                    caller.index = 0;
                }
            }
            let mut server = ready(Server::ours(&url, None)?)?;
            server.submit()?;
            let quarter = callers.len() / 4;
            let fetches = |from: usize, to: usize| Arc::new(bodies::fetches(&callers[from..to]));
            let first = fetches(0, quarter);
            let once = |requests: &Arc<_>, count| Work::Each {
                requests: Arc::clone(requests),
                cursor: Cursor::once(count),
            };
            let downloads = load::run(&self.load(&server, once(&first, quarter), PREPARATION))?;
            let again = Work::Each { requests: Arc::clone(&first), cursor: Cursor::wrapping(quarter) };
            let repeats = load::run(&self.load(&server, again, self.sizes.round))?;
            let [mut ours, mut theirs] = [Side::default(), Side::default()];
            ours.add(downloads.per_second(), &downloads.latency);
            theirs.add(repeats.per_second(), &repeats.latency);
            let what = format!("`GET /release`, first downloads, {whose}");
            let target = Target::Rate { at_least: 0.5, p99_at_most: None };
            self.table.compare(&what, &ours, "repeats", &theirs, target);
            let p99 = downloads.latency.value_at_quantile(0.99) as f64 / 1_000.0;
            let text = format!("p99 {p99:.1} ms");
            self.table.limit(&what, &text, p99 / LONGEST_P99_MS, "p99 ≤ 20 ms");

            let polls = Arc::new(bodies::polls(&callers[3 * quarter..]));
            let polling =
                Work::Each { requests: polls, cursor: Cursor::wrapping(callers.len() - 3 * quarter) };
            let idle = load::run(&self.load(&server, polling.clone(), self.sizes.round))?;
            let second = self.load(&server, once(&fetches(quarter, 2 * quarter), quarter), self.sizes.round);
            let loading = thread::spawn(move || load::run(&second));
            let busy = load::run(&self.load(&server, polling, self.sizes.round))?;
            let _ = loading.join();
            let [mut ours, mut theirs] = [Side::default(), Side::default()];
            ours.add(busy.per_second(), &busy.latency);
            theirs.add(idle.per_second(), &idle.latency);
            let what = format!("`POST /poll` during first downloads, {whose}");
            self.table.compare(&what, &ours, "idle", &theirs, Target::P99(5.0));

            // Their connections are closed in the middle of it.
            let third = self.load(&server, once(&fetches(2 * quarter, 3 * quarter), quarter), PREPARATION);
            let loading = thread::spawn(move || load::run(&third));
            tokio::time::sleep(BEFORE_STOP).await;
            let began = Instant::now();
            server.stop()?;
            let took = began.elapsed().as_secs_f64();
            let _ = loading.join();
            let what = format!("a stop during first downloads, {whose}");
            self.table.limit(&what, &format!("{took:.2} s"), took / LONGEST_STOP, "≤ 2 s");
        }
        Ok(())
    }
}
