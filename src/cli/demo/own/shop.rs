//! A service that runs in this process, in three variations, and the releases of it: one that is good, and one whose variation can't take a
//! quarter of the calls.

use std::{
    collections::VecDeque,
    fmt::Write as _,
    io::{self, Write},
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::sleep,
};

use super::{AGENTS, OwnStage, callers::Callers, functions::Function, statuses};
use crate::cli::{
    demo::screen::{FinishedRelease, LOOK_EVERY, Screen},
    failure::Failure,
};
use agent::control::form::Status;
use protocol::api::Release;

/// What all calls together are, in the units in which an agent tells shares.
const ALL: u16 = 10_000;

/// As those who call it see it.
pub const SHOP: Function = Function {
    name: "shop",
    env: "",
    needs: "",
    base: "",
    new: "",
    body: "",
    answers: ["welcome\n", "welcome\n"],
};

/// How many releases there are.
pub const RELEASES: usize = 2;

/// The share of the newest calls that the last variation can take.
const MOST: f64 = 0.18;

/// So many of the newest calls tell the shares: with a tenth of the calls, chance brings it above [`MOST`] once in millions.
const NEWEST: usize = 500;

/// The names of the variations, in the order of the releases.
const NAMES: [&str; 3] = ["first", "second", "third"];

/// Variations that run until this is dropped.
#[derive(Debug)]
pub struct Shop {
    at: Vec<SocketAddr>,
    _serving: JoinSet<()>,
}

impl Shop {
    pub async fn open() -> io::Result<Self> {
        let newest = Arc::new(Mutex::new(VecDeque::with_capacity(NEWEST)));
        let (mut at, mut serving) = (Vec::new(), JoinSet::new());
        for variation in 0..NAMES.len() {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
            at.push(listener.local_addr()?);
            serving.spawn(serve(listener, variation, Arc::clone(&newest)));
        }
        Ok(Self { at, _serving: serving })
    }

    /// Both releases of it, behind routers that take its calls at this port.
    pub fn releases(&self, port: u16) -> [ShopRelease; RELEASES] {
        let release = |id, story, is_good, number: usize| ShopRelease {
            id,
            story,
            is_good,
            base: NAMES[number],
            text: self.strategy(id, port, number),
        };
        [
            release("shop-good", "10 %, 25 %, 50 % of a service's calls, then all", true, 0),
            release("shop-bad", "errors from 25 % on, for it is overrun (it must fail)", false, 1),
        ]
    }

    /// From the variation with this number to the next.
    fn strategy(&self, id: &str, port: u16, number: usize) -> String {
        let mut text = format!(
            "id: {id}\nname: {id}\nservices:\n  - name: {}\n    ports: [{{port: {port}}}]\n    retry: failed\n    variations:\n",
            SHOP.name
        );
        let variations = NAMES.iter().zip(&self.at).skip(number).take(2);
        for (name, at) in variations.clone() {
            let _ = writeln!(text, "      - {{name: {name}, targets: [\"{at}\"]}}");
        }
        let [base, new] = [NAMES[number], NAMES[number + 1]];
        text.push_str("stages:\n");
        for (share, next) in [(10, "to 25"), (25, "to 50"), (50, "rollout")] {
            let _ = writeln!(
                text,
                "  - name: to {share}\n    type: Traffic\n    shares: {{{base}: {}, {new}: {share}}}\n    \
                 metrics_conditions: [{{name: errorRate, threshold: \"<0.05\"}}]\n    end_conditions: [{{name: minDuration, \
                 threshold: 2s}}, {{name: minCalls, threshold: \"100\"}}]\n    end_action: {{onSuccess: {next}, onFailure: \
                 rollback}}",
                100 - share
            );
        }
        text
    }
}

/// A release of the service.
#[derive(Debug)]
pub struct ShopRelease {
    pub id: &'static str,
    pub story: &'static str,
    pub is_good: bool,
    /// The variation that serves before.
    pub base: &'static str,
    pub text: String,
}

impl OwnStage<'_> {
    /// Plays a release of the service, which is called from when it is led for the first time.
    pub(super) async fn play_shop(
        &self,
        release: &ShopRelease,
        callers: &mut Callers,
        screen: &mut Screen,
        out: &mut impl Write,
    ) -> Result<FinishedRelease, Failure> {
        let running = AtomicUsize::new(0);
        let (followed, took) = {
            let shown = || running.load(Ordering::Relaxed);
            let follow = screen.follow(&self.client, &release.text, shown, out);
            tokio::select! {
                followed = follow => followed?,
                failed = self.watch_shop(release, callers, &running) => return Err(failed),
            }
        };
        let serves = |status: &Status, is_base| serves_alone(status, release) == Some(is_base);
        let (new_at, base_at) = self.settled(release.is_good, serves).await;
        screen.ended(&followed, new_at, base_at, out)?;
        let wrong = wrong(release.is_good, &followed, new_at, base_at);
        Ok(FinishedRelease::of(followed, (new_at, base_at), took, wrong))
    }

    /// Notes how many agents give calls to the new variation, and has the service called once it is led. Ends with what went wrong.
    async fn watch_shop(
        &self,
        release: &ShopRelease,
        callers: &mut Callers,
        running: &AtomicUsize,
    ) -> Failure {
        loop {
            let statuses = statuses(self.agents).await;
            let is_new = |status: &&Status| {
                seen(status)
                    .is_some_and(|seen| seen.iter().any(|(name, share)| *name != release.base && *share > 0))
            };
            let new = statuses.iter().filter(is_new).count();
            running.store(new, Ordering::Relaxed);
            let is_led = |status: &Status| seen(status).is_some();
            if !callers.is_calling(SHOP.name) && statuses.len() == AGENTS && statuses.iter().all(is_led) {
                let at = self.agents.all().iter().map(|agent| format!("http://{}/", agent.service_at()));
                if let Err(failed) = callers.call_also(&[(SHOP, at.collect())]) {
                    return failed;
                }
            }
            sleep(LOOK_EVERY).await;
        }
    }
}

/// What the variations were read back to get, by their names; none where the service isn't led.
fn seen(status: &Status) -> Option<Vec<(&str, u16)>> {
    let service = status.services.iter().find(|service| service.name == SHOP.name)?;
    let seen: Vec<(&str, u16)> =
        service.variations.iter().filter_map(|one| Some((one.name.as_str(), one.seen?))).collect();
    (seen.iter().map(|(_, share)| u32::from(*share)).sum::<u32>() == u32::from(ALL)).then_some(seen)
}

/// Whether the variation of before gets all calls; `Some(false)`: another one does.
fn serves_alone(status: &Status, release: &ShopRelease) -> Option<bool> {
    let alone = seen(status)?.into_iter().find(|(_, share)| *share == ALL)?;
    Some(alone.0 == release.base)
}

/// What a release should have come to, if it came to something else.
fn wrong(is_good: bool, release: &Release, new_at: usize, base_at: usize) -> Option<String> {
    let (state, wanted, at) =
        if is_good { ("Done", "rolled out", new_at) } else { ("RolledBack", "taken back", base_at) };
    let is_right = release.state == state && at == AGENTS;
    (!is_right).then(|| format!("NOT AS IT SHOULD: {wanted} at both agents"))
}

/// The newest calls, by the variation that got each.
type Newest = Arc<Mutex<VecDeque<usize>>>;

async fn serve(listener: TcpListener, variation: usize, newest: Newest) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    connections.spawn(answer(stream, variation, Arc::clone(&newest)));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Answers calls without bodies, one after the other, until the connection ends.
async fn answer(mut stream: TcpStream, variation: usize, newest: Newest) {
    let (mut came, mut room) = (Vec::new(), [0; 4096]);
    loop {
        while let Some(end) = came.windows(4).position(|four| four == b"\r\n\r\n") {
            came.drain(..end + 4);
            let (status, text) = if is_overrun(variation, &newest) {
                ("503 Service Unavailable", "overrun\n")
            } else {
                ("200 OK", SHOP.answers[0])
            };
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{text}", text.len());
            if stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
        match stream.read(&mut room).await {
            Ok(0) | Err(_) => return,
            Ok(read) => came.extend_from_slice(&room[..read]),
        }
    }
}

/// Counts a call, and says whether it is one too many.
fn is_overrun(variation: usize, newest: &Newest) -> bool {
    let mut newest = newest.lock().unwrap_or_else(PoisonError::into_inner);
    if newest.len() == NEWEST {
        newest.pop_front();
    }
    newest.push_back(variation);
    let of_this = newest.iter().filter(|other| **other == variation).count();
    variation + 1 == NAMES.len() && newest.len() == NEWEST && of_this as f64 > MOST * NEWEST as f64
}
