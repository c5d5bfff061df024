use std::{io, time::Duration};

use reqwest::{Client, Response, StatusCode, Url, header::CONTENT_TYPE};
use rustix::time::{ClockId, clock_gettime};
use serde::de::DeserializeOwned;
use traffic::desired::Number;
use xxhash_rust::xxh64::xxh64;

use super::{
    NAME, Secret,
    form::{Ask, NumberForm, Signed, TakenForm},
};
use crate::{
    RouterError,
    remote::{self, BodyError},
};

/// Bytes of what a router does, and of what else is answered.
const STATE: usize = 16 * 1024 * 1024;
const TEXT: usize = 4_096;
/// Characters of an answer that are shown.
const SHOWN: usize = 300;

/// Answers that a repeat can't help.
const REFUSALS: [StatusCode; 4] = [
    StatusCode::BAD_REQUEST,
    StatusCode::CONFLICT,
    StatusCode::PAYLOAD_TOO_LARGE,
    StatusCode::UNPROCESSABLE_ENTITY,
];

/// Calls the operator's address.
#[derive(Debug)]
pub(super) struct Caller {
    url: Url,
    secret: Secret,
    router: String,
    time_limit: Duration,
    http: Client,
}

impl Caller {
    pub(super) fn new(
        url: Url,
        secret: Secret,
        router: String,
        time_limit: Duration,
    ) -> Result<Self, RouterError> {
        let http = remote::client().map_err(|why| away("setting up TLS", why))?;
        Ok(Self { url, secret, router, time_limit, http })
    }

    /// Has a state taken, and says whether a configuration was loaded anew for it.
    pub(super) async fn apply(&self, ask: &Ask, asked: Number) -> Result<bool, RouterError> {
        let answer = self.call(ask).await?;
        let status = answer.status();
        let text = remote::body(answer, TEXT).await;
        let taken = text.as_ref().map(|text| serde_json::from_slice::<TakenForm>(text));
        if let Ok(Ok(taken)) = &taken
            && let newest = Number::from(taken.number)
            && newest > asked
        {
            return Err(RouterError::Older { asked, newest });
        }
        if !status.is_success() {
            return Err(refused(status, text, "being told"));
        }
        let nonsense = |said| RouterError::Nonsense { router: NAME, said };
        match taken {
            Ok(Ok(taken)) if Number::from(taken.number) == asked => Ok(taken.reloaded),
            Ok(Ok(taken)) => {
                Err(nonsense(format!("it was told {asked}, and answers with {}", Number::from(taken.number))))
            }
            Ok(Err(error)) => Err(nonsense(format!("{}: {error}", shown(&text.unwrap_or_default())))),
            Err(error) => Err(self.no_body(error)),
        }
    }

    /// Has something done.
    pub(super) async fn tell(&self, ask: &Ask) -> Result<(), RouterError> {
        let answer = self.call(ask).await?;
        match answer.status() {
            status if status.is_success() => Ok(()),
            status => Err(refused(status, remote::body(answer, TEXT).await, "being told")),
        }
    }

    /// Has something said.
    pub(super) async fn ask<T: DeserializeOwned>(&self, ask: &Ask) -> Result<T, RouterError> {
        let answer = self.call(ask).await?;
        let status = answer.status();
        if !status.is_success() {
            return Err(refused(status, remote::body(answer, TEXT).await, "being asked"));
        }
        let body = remote::body(answer, STATE).await.map_err(|error| self.no_body(&error))?;
        serde_json::from_slice(&body).map_err(|error| RouterError::Nonsense {
            router: NAME,
            said: format!("{}: {error}", shown(&body)),
        })
    }

    fn no_body(&self, error: &BodyError) -> RouterError {
        let doing = "answering".to_owned();
        match error {
            BodyError::Late => RouterError::Silent { router: NAME, within: self.time_limit, doing },
            BodyError::TooLong(_) | BodyError::BrokenOff(_) => away(&doing, error.to_string()),
        }
    }

    async fn call(&self, ask: &Ask) -> Result<Response, RouterError> {
        let doing = || format!("{} at {}", word(ask), self.url.host_str().unwrap_or("its address"));
        let body = serde_json::to_vec(&Signed { ask, router: &self.router });
        let body = body.map_err(|error| away(&doing(), error.to_string()))?;
        let id = id_of(ask, &body);
        let now = clock_gettime(ClockId::Realtime).tv_sec;
        let timestamp = u64::try_from(now).unwrap_or_default();
        let call = self
            .http
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-id", &id)
            .header("webhook-timestamp", timestamp)
            .header("webhook-signature", self.secret.sign(&id, timestamp, &body))
            .header("Idempotency-Key", &id)
            .timeout(self.time_limit)
            .body(body);
        call.send().await.map_err(|error| {
            if error.is_timeout() {
                return RouterError::Silent { router: NAME, within: self.time_limit, doing: doing() };
            }
            away(&doing(), remote::why(&error))
        })
    }
}

/// What names a call: of a state what is in it, so that a repeat has the same also after a restart.
fn id_of(ask: &Ask, body: &[u8]) -> String {
    match ask {
        Ask::Apply { number: NumberForm { epoch, generation }, .. } => {
            format!("apply-{epoch}-{generation}-{:016x}", xxh64(body, 0))
        }
        Ask::Read | Ask::Validate { .. } | Ask::Reload => {
            format!("{}-{:032x}", word(ask), fastrand::u128(..))
        }
    }
}

fn word(ask: &Ask) -> &'static str {
    match ask {
        Ask::Apply { .. } => "apply",
        Ask::Read => "read",
        Ask::Validate { .. } => "validate",
        Ask::Reload => "reload",
    }
}

fn away(doing: &str, why: String) -> RouterError {
    RouterError::Away { router: NAME, doing: doing.to_owned(), source: io::Error::other(why) }
}

/// An answer that isn't 2xx.
fn refused(status: StatusCode, text: Result<Vec<u8>, BodyError>, doing: &str) -> RouterError {
    let why = format!("it answers with {status} {}", shown(&text.unwrap_or_default())).trim_end().to_owned();
    if REFUSALS.contains(&status) {
        return RouterError::Refused { router: NAME, said: why };
    }
    away(doing, why)
}

fn shown(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    text.chars().filter(|one| !one.is_control()).take(SHOWN).collect()
}
