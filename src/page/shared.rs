//! What pages that are brought up to date ask of the API, asked once for all of them.
//!
//! Each event makes a page old, many may look at the same one, and what an answer takes grows with the fleet. So the same question of
//! callers with the same rights is put again only after a pause: so many times as long as the last answer took ([`PAUSES`]), and no longer
//! than [`LONGEST_PAUSE`]. Whoever asks in between waits with all who ask the same, and the question is put after all of them have asked:
//! nobody is told what held before he asked.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{body::Bytes, http::StatusCode};
use tokio::{
    sync::OnceCell,
    time::{Instant, sleep_until},
};

use crate::fault::Fault;
use http_api::auth::CallingOperator;

/// A pause is so many times as long as the answer before it took.
const PAUSES: u32 = 20;

/// Nobody waits longer before his question is put.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Questions that are remembered before those are forgotten that nobody waits for and that may be put again.
const MANY: usize = 256;

/// An answer of the API as it came.
pub type Answer = (StatusCode, Bytes);

/// Questions that were put lately.
#[derive(Debug, Default)]
pub struct Shared(Mutex<HashMap<Question, Turn>>);

/// Who asks for what. Whose token is good for everything is told the same as any other such.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Question {
    caller: CallingOperator,
    path: String,
}

#[derive(Debug)]
struct Turn {
    /// Earlier it isn't put again.
    not_before: Instant,
    /// Those who wait for that.
    next: Option<Arc<Round>>,
}

/// Those who get the same answer.
#[derive(Debug)]
struct Round {
    begins: Instant,
    answer: OnceCell<Answer>,
}

impl Shared {
    /// The answer to a question that is put by `put` after this was called: by this call or by another one that waits for the same.
    pub async fn ask(
        &self,
        caller: &CallingOperator,
        path: &str,
        put: impl AsyncFnOnce() -> Result<Answer, Fault>,
    ) -> Result<Answer, Fault> {
        let name = caller.name.clone().filter(|_| !caller.grant.is_whole());
        let caller = CallingOperator { name, grant: caller.grant.clone() };
        let question = Question { caller, path: path.to_owned() };
        let round = self.join(&question);
        sleep_until(round.begins).await;
        // Where the one who puts it goes away, the next one does.
        let answer = round.answer.get_or_try_init(async || {
            self.close(&question, &round);
            let begun = Instant::now();
            let answer = put().await;
            self.pause(&question, begun.elapsed());
            answer
        });
        answer.await.cloned()
    }

    fn join(&self, question: &Question) -> Arc<Round> {
        let now = Instant::now();
        let mut turns = self.turns();
        if turns.len() >= MANY {
            turns.retain(|_, turn| turn.next.is_some() || turn.not_before > now);
        }
        let turn = turns.entry(question.clone()).or_insert(Turn { not_before: now, next: None });
        let begins = turn.not_before.max(now);
        Arc::clone(turn.next.get_or_insert_with(|| Arc::new(Round { begins, answer: OnceCell::new() })))
    }

    /// Whoever asks from now on comes too late for a round.
    fn close(&self, question: &Question, round: &Arc<Round>) {
        if let Some(turn) = self.turns().get_mut(question) {
            turn.next.take_if(|next| Arc::ptr_eq(next, round));
        }
    }

    fn pause(&self, question: &Question, took: Duration) {
        let pause = took.saturating_mul(PAUSES).min(LONGEST_PAUSE);
        if let Some(turn) = self.turns().get_mut(question) {
            turn.not_before = Instant::now() + pause;
        }
    }

    fn turns(&self) -> MutexGuard<'_, HashMap<Question, Turn>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
