//! A part takes an event.

use std::sync::Arc;

use protocol::placements::PlacedPart;
use reqwest::StatusCode;
use tokio::time::Instant;

use super::{
    basics::lock,
    event::{Event, Outcome, PATIENCE},
    headers::{AGE, FROM, LOGICAL, NUMBER, OUTPUT},
    inner::Inner,
    resource::Kept,
    routes::LocalPart,
    store::Write,
};

/// A field of the proxy's own answers.
const OF_PROXY: &str = "x-choirmaster-error";

impl Inner {
    /// Has a part on this machine take an event, once.
    pub async fn take(&self, event: &Event<'_>) -> Outcome {
        let Some(_place) = self.turns.place(event.part) else {
            return Outcome::Later("it has enough to do".to_owned());
        };
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
        let of = (event.part.to_owned(), event.from.to_owned());
        let is_done = lock(&self.unwritten).get(&of) == Some(&event.number);
        let kept = match &part.what {
            _ if is_done => Ok(Kept::default()),
            PlacedPart::Function { .. } => {
                let Some(proxy) = &routes.proxy else {
                    return Outcome::Later("the proxy isn't there".to_owned());
                };
                self.call(proxy, part, event).await.map(|()| Kept::default())
            }
            PlacedPart::Resource { class, configuration } => {
                self.resources.take(&part.instance, class, configuration, event, &self.store).await
            }
        };
        let (Kept { file, undo, _held }, refused) = match kept {
            Ok(kept) => (kept, None),
            Err(Outcome::Refused(why)) => (Kept::default(), Some(why)),
            Err(outcome) => return outcome,
        };
        let (part, from) = (event.part.to_owned(), event.from.to_owned());
        let taken = Write::Taken { part, from, number: event.number, file };
        match (self.store.write(taken).await, refused) {
            (Ok(_), refused) => {
                lock(&self.unwritten).remove(&of);
                refused.map_or(Outcome::Taken, Outcome::Refused)
            }
            (Err(error), _) => {
                match undo {
                    // It is written again with the event.
                    Some(undo) => undo.carry_out().await,
                    // A function isn't called twice, nor somebody outside.
                    None => drop(lock(&self.unwritten).insert(of, event.number)),
                }
                Outcome::Later(error.to_string())
            }
        }
    }

    /// Calls a function with an event.
    async fn call(&self, proxy: &str, part: &LocalPart, event: &Event<'_>) -> Result<(), Outcome> {
        let (function, began) = (&part.name, Instant::now());
        let call = self
            .client
            .post(format!("http://{proxy}/{function}/"))
            .timeout(PATIENCE)
            .header(FROM, event.from)
            .header(LOGICAL, event.logical)
            .header(NUMBER, event.number)
            .header(AGE, event.age_ms)
            .header(OUTPUT, event.output)
            .body(event.body.to_vec());
        let answer = call.send().await.map_err(|error| Outcome::Later(error.to_string()))?;
        let status = answer.status();
        let is_of_proxy = answer.headers().contains_key(OF_PROXY);
        match status {
            _ if status.is_success() => {
                self.samples.executed(&part.instance, began.elapsed(), event.age_ms);
                Ok(())
            }
            _ if is_of_proxy => Err(Outcome::Later(format!("the proxy answers {status}"))),
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
                Err(Outcome::Later(format!("the function answers {status}")))
            }
            _ if status.is_client_error() || status.is_redirection() => {
                Err(Outcome::Refused(format!("the function answers {status}")))
            }
            _ => Err(Outcome::Later(format!("the function answers {status}"))),
        }
    }
}
