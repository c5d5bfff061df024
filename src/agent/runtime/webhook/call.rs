use std::time::Duration;

use reqwest::{Client, StatusCode, Url, header::CONTENT_TYPE};
use router::remote;
use tokio::time::{Instant, sleep};

use super::{
    super::Fault,
    FIRST_PAUSE, Secret,
    form::{Ask, Listed, Signed},
    take,
};

/// Bytes of a list, and of what else is answered.
const LIST: usize = 4 * 1024 * 1024;
const TEXT: usize = 4096;
/// Characters of an answer that are shown.
const SHOWN: usize = 300;

/// Calls the operator's address.
#[derive(Debug)]
pub(super) struct Caller {
    pub url: Url,
    pub secret: Secret,
    pub agent: String,
    pub time_limit: Duration,
    pub http: Client,
}

/// How a call ended that wasn't answered with 2xx.
enum Missed {
    /// It may go better.
    Again(String),
    Never(String),
}

impl Caller {
    /// Where is called, without what may be secret of it.
    pub(super) fn name(&self) -> String {
        self.url.host_str().map_or_else(|| "the webhook".to_owned(), |host| format!("the webhook of {host}"))
    }

    pub(super) fn refused(&self, why: String) -> Fault {
        Fault::Refused { by: self.name(), why }
    }

    pub(super) fn lied(&self, why: String) -> Fault {
        Fault::Lied { by: self.name(), why }
    }

    /// Has something done. That it was answered says that it was understood.
    pub(super) async fn tell(&self, ask: &Ask<'_>, generation: u64, until: Instant) -> Result<(), Fault> {
        self.call(ask, generation, TEXT, until).await.map(drop)
    }

    pub(super) async fn list(&self, generation: u64, until: Instant) -> Result<Listed, Fault> {
        let text = self.call(&Ask::List, generation, LIST, until).await?;
        Listed::read(&text).map_err(|why| self.refused(format!("its list can't be used: {why}")))
    }

    /// Calls until it is answered, and at least once.
    async fn call(
        &self,
        ask: &Ask<'_>,
        generation: u64,
        most: usize,
        until: Instant,
    ) -> Result<Vec<u8>, Fault> {
        let signed = Signed { ask, generation, agent: &self.agent };
        let body = serde_json::to_vec(&signed).map_err(|error| self.refused(error.to_string()))?;
        let key = format!("{:032x}", fastrand::u128(..));
        let mut pause = FIRST_PAUSE;
        loop {
            match self.try_once(&key, &body, most).await {
                Ok(answer) => return Ok(answer),
                Err(Missed::Never(why)) => return Err(self.refused(why)),
                Err(Missed::Again(why)) if Instant::now() >= until => return Err(self.refused(why)),
                Err(Missed::Again(why)) => tracing::debug!(why, key, "a webhook is called again"),
            }
            sleep(take(&mut pause)).await;
        }
    }

    async fn try_once(&self, key: &str, body: &[u8], most: usize) -> Result<Vec<u8>, Missed> {
        // A repeat may come long after the first.
        let now = u64::try_from(rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec);
        let timestamp = now.unwrap_or_default();
        let ask = self
            .http
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header("Idempotency-Key", key)
            .header("X-Choirmaster-Timestamp", timestamp)
            .header("X-Choirmaster-Signature", self.secret.sign(timestamp, body))
            .timeout(self.time_limit)
            .body(body.to_vec());
        let answer = ask.send().await.map_err(|error| Missed::Again(remote::why(&error)))?;
        let status = answer.status();
        let body = remote::body(answer, if status.is_success() { most } else { TEXT }).await;
        if status.is_success() {
            // What is too large now is so the next time.
            return body.map_err(|error| Missed::Never(error.to_string()));
        }
        let text = String::from_utf8_lossy(&body.unwrap_or_default()).into_owned();
        let shown: String = text.chars().filter(|one| !one.is_control()).take(SHOWN).collect();
        let why = format!("it answers with {status} {shown}").trim_end().to_owned();
        let may_go_better = status.is_server_error()
            || [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS].contains(&status);
        Err(if may_go_better { Missed::Again(why) } else { Missed::Never(why) })
    }
}
