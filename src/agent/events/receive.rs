//! A part takes an event.

use std::{sync::Arc, time::Duration};

use protocol::placements::PlacedPart;
use reqwest::StatusCode;

use super::{
    headers::{FROM, NUMBER, OUTPUT},
    inner::Inner,
    resource::Kept,
    store::Write,
};

/// How long a function may take with an event.
pub(super) const PATIENCE: Duration = Duration::from_mins(1);

/// An event for a part on this machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event<'e> {
    pub part: &'e str,
    /// The node that it comes from.
    pub node: &'e str,
    pub from: &'e str,
    pub number: u64,
    pub output: &'e str,
    pub body: &'e [u8],
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The part has it, now or before.
    Taken,
    /// The part will never take it.
    Refused(String),
    /// It is to be tried again.
    Later(String),
}

impl Inner {
    /// Has a part on this machine take an event, once.
    pub async fn take(&self, event: &Event<'_>) -> Outcome {
        let turn = self.turns.of(event.part, event.from);
        let _turn = turn.lock().await;
        match self.store.taken(event.part, event.from) {
            Ok(last) if event.number <= last => return Outcome::Taken,
            Ok(_) => {}
            Err(error) => return Outcome::Later(error.to_string()),
        }
        let routes = Arc::clone(&self.routes.borrow());
        let Some(part) = routes.part(event.part).filter(|part| part.is_running) else {
            return Outcome::Later("it doesn't run there yet".to_owned());
        };
        let kept = match &part.what {
            PlacedPart::Function { .. } => {
                let Some(proxy) = &routes.proxy else {
                    return Outcome::Later("the proxy isn't there".to_owned());
                };
                self.call(proxy, &part.name, event).await.map(|()| Kept::default())
            }
            PlacedPart::Resource { class, configuration } => {
                self.resources.take(class, configuration, event, &self.store).await
            }
        };
        let (Kept { file, _held }, refused) = match kept {
            Ok(kept) => (kept, None),
            Err(Outcome::Refused(why)) => (Kept::default(), Some(why)),
            Err(outcome) => return outcome,
        };
        let (part, from) = (event.part.to_owned(), event.from.to_owned());
        let taken = Write::Taken { part, from, number: event.number, file };
        match (self.store.write(taken).await, refused) {
            (Ok(_), None) => Outcome::Taken,
            (Ok(_), Some(why)) => Outcome::Refused(why),
            (Err(error), _) => Outcome::Later(error.to_string()),
        }
    }

    /// Calls a function with an event.
    async fn call(&self, proxy: &str, function: &str, event: &Event<'_>) -> Result<(), Outcome> {
        let call = self
            .client
            .post(format!("http://{proxy}/{function}/"))
            .timeout(PATIENCE)
            .header(FROM, event.from)
            .header(NUMBER, event.number)
            .header(OUTPUT, event.output)
            .body(event.body.to_vec());
        let answer = call.send().await.map_err(|error| Outcome::Later(error.to_string()))?;
        let status = answer.status();
        match status {
            _ if status.is_success() => Ok(()),
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
                Err(Outcome::Later(format!("the function answers {status}")))
            }
            _ if status.is_client_error() => Err(Outcome::Refused(format!("the function answers {status}"))),
            _ => Err(Outcome::Later(format!("the function answers {status}"))),
        }
    }
}
