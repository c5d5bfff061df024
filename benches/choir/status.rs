//! How a manager stands, as `choirmaster status` asks for it, where many children are known and a release is open. Meanwhile all of them are
//! looked at again and again, as always.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::{
    bodies, fill,
    load::Connection,
    rows::{Bench, ready, say},
    server::Server,
    shared::figures::median,
    table::thousands,
};

const PATH: &str = "/api/v1/status";

/// Questions, and the time between two: some looks at all children fall in between.
const QUESTIONS: usize = 100;
const PAUSE: Duration = Duration::from_millis(100);

/// The longest that one may take, in milliseconds.
const LIMIT_MS: f64 = 100.0;

impl Bench {
    pub async fn status(&mut self) -> anyhow::Result<()> {
        say(&format!("GET {PATH}"));
        let (url, count) = (self.sqlite("status.db"), self.sizes.children);
        fill::children(&url, count).await?;
        let mut server = ready(Server::ours(&url, None)?)?;
        server.submit()?;
        let request = bodies::get(PATH);
        let mut connection = Connection::open(server.address).await?;
        let mut times = Vec::with_capacity(QUESTIONS);
        for _ in 0..QUESTIONS {
            let began = Instant::now();
            connection.call(request.as_bytes()).await?;
            times.push(began.elapsed().as_secs_f64() * 1_000.0);
            sleep(PAUSE).await;
        }
        let longest = times.iter().copied().fold(0.0, f64::max);
        let text = format!("{:.1} ms, the longest {longest:.1} ms", median(&times));
        let what = format!("`GET {PATH}` with {} children", thousands(count as f64));
        self.table.limit(&what, &text, longest / LIMIT_MS, "≤ 100 ms");
        server.stop()
    }
}
