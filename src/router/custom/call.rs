use std::time::Duration;

use reqwest::{Response, StatusCode, Url, header::CONTENT_TYPE};
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
    remote::{self, BodyError, shown},
};

/// Bytes of what a router does, and of what else is answered.
const STATE: usize = 16 * 1024 * 1024;
const TEXT: usize = 4_096;

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
    remote: remote::Caller,
}

impl Caller {
    pub(super) fn new(
        url: Url,
        secret: Secret,
        router: String,
        time_limit: Duration,
    ) -> Result<Self, RouterError> {
        Ok(Self { url, secret, router, remote: remote::Caller::new(NAME, time_limit)? })
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
            return Err(self.refused(status, text, "being told"));
        }
        match taken {
            Ok(Ok(taken)) if Number::from(taken.number) == asked => Ok(taken.reloaded),
            Ok(Ok(taken)) => {
                let said = format!("it was told {asked}, and answers with {}", Number::from(taken.number));
                Err(self.remote.nonsense(said))
            }
            Ok(Err(error)) => {
                Err(self.remote.nonsense(format!("{}: {error}", shown(&text.unwrap_or_default()))))
            }
            Err(error) => Err(self.remote.no_body(error, "answering")),
        }
    }

    /// Has something done.
    pub(super) async fn tell(&self, ask: &Ask) -> Result<(), RouterError> {
        let answer = self.call(ask).await?;
        match answer.status() {
            status if status.is_success() => Ok(()),
            status => Err(self.refused(status, remote::body(answer, TEXT).await, "being told")),
        }
    }

    /// Has something said.
    pub(super) async fn ask<T: DeserializeOwned>(&self, ask: &Ask) -> Result<T, RouterError> {
        let answer = self.call(ask).await?;
        let status = answer.status();
        if !status.is_success() {
            return Err(self.refused(status, remote::body(answer, TEXT).await, "being asked"));
        }
        self.remote.read(answer, STATE, "answering").await
    }

    /// An answer that isn't 2xx.
    fn refused(&self, status: StatusCode, text: Result<Vec<u8>, BodyError>, doing: &str) -> RouterError {
        let why = format!("it answers with {status} {}", shown(&text.unwrap_or_default()));
        let why = why.trim_end().to_owned();
        if REFUSALS.contains(&status) {
            return RouterError::Refused { router: NAME, said: why };
        }
        self.remote.away(doing, why)
    }

    async fn call(&self, ask: &Ask) -> Result<Response, RouterError> {
        let doing = format!("{} at {}", word(ask), self.url.host_str().unwrap_or("its address"));
        let body = serde_json::to_vec(&Signed { ask, router: &self.router });
        let body = body.map_err(|error| self.remote.away(&doing, error.to_string()))?;
        let id = id_of(ask, &body);
        let now = clock_gettime(ClockId::Realtime).tv_sec;
        let timestamp = u64::try_from(now).unwrap_or_default();
        let call = self
            .remote
            .http
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-id", &id)
            .header("webhook-timestamp", timestamp)
            .header("webhook-signature", self.secret.sign(&id, timestamp, &body))
            .header("Idempotency-Key", &id)
            .body(body);
        self.remote.send(call, &doing).await
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
