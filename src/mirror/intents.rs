//! Intents that programs put into the database: `SET intent:… VALUE`, then the key at an end of the list `intents`. They are taken from its
//! head, and each is answered once in the list `intent:answer:…`, newest first.
//!
//! A key moves at once from `intents` to a list of ours, and leaves that together with its answer: so an intent that was in hand when
//! either side was killed is carried out again, which changes nothing where it had been, and answered then.

use std::{
    collections::{HashSet, VecDeque},
    convert::Infallible,
    time::Duration,
};

use futures_util::future::join_all;
use redis::{Value, aio::MultiplexedConnection, cmd};
use serde::Serialize;

use super::{
    Settings,
    database::{ANSWER as PATIENCE, SESSION, Trouble, connect},
};
use engine::{
    By, Engine,
    audit::Actor,
    intents::{self, Intent, PREFIX, Places, shown},
};

const LIST: &str = "intents";
/// Keys in hand.
const TAKEN: &str = "choirmaster:intents";
/// What the key of an answer begins with; the rest is that of the intent.
const ANSWER: &str = "intent:answer:";

/// Intents that are carried out together, at most.
const TOGETHER: usize = 100;

/// How long the database holds a call for the next intent, in seconds, and how long it may take with that.
const WAIT_S: u64 = 20;
const WAIT: Duration = Duration::from_secs(WAIT_S + 10);

/// How long an answer stands there, in seconds, and how many of a key.
const KEPT_S: u64 = 24 * 3_600;
const MAX_ANSWERS: usize = 100;

/// Most bytes of a value that are read: one more than an intent may have.
const MAX_READ: usize = 64 * 1024 + 1;

/// Puts an answer where its key is: what was taken first leaves the list with it, and its value unless there is another by now. Whoever was
/// replaced by another connection answers nothing.
/// KEYS: the list, the answers, the value, the session. ARGV: the key of the intent, the value, the answer, seconds, how many, bytes that
/// were read of the value, the session, whether there is a value of an intent.
const PUT_ANSWER: &str = "
if redis.call('GET', KEYS[4]) ~= ARGV[7] or redis.call('LINDEX', KEYS[1], 0) ~= ARGV[1] then return 0 end
if redis.call('TYPE', KEYS[2]).ok ~= 'list' then redis.call('DEL', KEYS[2]) end
redis.call('LPUSH', KEYS[2], ARGV[3])
redis.call('LTRIM', KEYS[2], 0, ARGV[5] - 1)
redis.call('EXPIRE', KEYS[2], ARGV[4])
if ARGV[8] == 'yes' then
    local is_text = redis.call('TYPE', KEYS[3]).ok == 'string'
    if not is_text or redis.call('GETRANGE', KEYS[3], 0, ARGV[6] - 1) == ARGV[2] then redis.call('DEL', KEYS[3]) end
end
redis.call('LPOP', KEYS[1])
return 1";

#[derive(Serialize)]
struct Answer<'a> {
    intent: &'a str,
    value: &'a str,
    accepted: bool,
    /// Why it was not.
    reason: Option<&'a str>,
    /// Seconds since 1970.
    at: f64,
}

/// An intent in hand.
struct Taken {
    /// As it stands in the list, where it may be no text.
    raw: Vec<u8>,
    key: String,
    /// Empty: none stands there that is text.
    value: Vec<u8>,
    /// It is the key of an intent, and the first of it in hand: what stands there goes with the answer.
    is_own: bool,
    intent: Result<Intent, String>,
}

/// An answer that is to be put there.
pub struct Prepared {
    raw: Vec<u8>,
    key: String,
    value: Vec<u8>,
    is_own: bool,
    text: String,
}

/// Takes what comes until the connection breaks. `answers`: those that are not put there yet, whatever became of it.
pub async fn take(
    engine: &Engine,
    settings: &Settings,
    session: &str,
    answers: &mut VecDeque<Prepared>,
) -> Result<Infallible, Trouble> {
    // A call that waits has a connection of its own: others would wait behind it.
    let mut waiting = connect(settings, WAIT).await?;
    let mut connection = connect(settings, PATIENCE).await?;
    // Who may not put an answer there takes nothing.
    cmd("EVAL").arg("return 1").arg(0).query_async::<()>(&mut connection).await?;
    let mut intents = Intents { engine, settings, session, connection, answers };
    loop {
        intents.answer().await?;
        while intents.carry_out().await? {}
        let mut next = cmd("BLMOVE");
        next.arg(intents.key(LIST)).arg(intents.key(TAKEN)).arg("LEFT").arg("RIGHT").arg(WAIT_S);
        next.query_async::<Value>(&mut waiting).await?;
    }
}

struct Intents<'e> {
    engine: &'e Engine,
    settings: &'e Settings,
    session: &'e str,
    connection: MultiplexedConnection,
    answers: &'e mut VecDeque<Prepared>,
}

impl Intents<'_> {
    fn key(&self, key: &str) -> String {
        format!("{}{key}", self.settings.prefix)
    }

    /// Carries out what is in hand, and what waits beside it; whether there was anything.
    async fn carry_out(&mut self) -> Result<bool, Trouble> {
        let keys = self.fill().await?;
        let mut all = Vec::with_capacity(keys.len());
        let mut seen = HashSet::new();
        for key in keys {
            let is_first = seen.insert(key.clone());
            all.push(self.read(key, is_first).await?);
        }
        if all.is_empty() {
            return Ok(false);
        }
        let intents = all.iter().filter_map(|taken| taken.intent.as_ref().ok());
        let places = Places::of(self.engine, intents, None).await?;
        let done = join_all(all.iter().map(|taken| self.one(taken, &places))).await;
        let mut trouble = None;
        for (taken, refused) in all.into_iter().zip(done) {
            match refused {
                Ok(refused) => {
                    let answer = self.prepare(taken, refused.as_deref());
                    self.answers.push_back(answer);
                }
                // It and what is behind it is in hand still.
                Err(error) => {
                    trouble = Some(error);
                    break;
                }
            }
        }
        self.answer().await?;
        trouble.map_or(Ok(true), Err)
    }

    /// Keys in hand, with what waits behind them.
    async fn fill(&mut self) -> Result<Vec<Vec<u8>>, Trouble> {
        let (list, taken) = (self.key(LIST), self.key(TAKEN));
        let mut in_hand = cmd("LRANGE");
        let in_hand = in_hand.arg(&taken).arg(0).arg(TOGETHER - 1);
        let mut keys: Vec<Vec<u8>> = in_hand.query_async(&mut self.connection).await?;
        while keys.len() < TOGETHER {
            let mut next = cmd("LMOVE");
            next.arg(&list).arg(&taken).arg("LEFT").arg("RIGHT");
            let key: Option<Vec<u8>> = next.query_async(&mut self.connection).await?;
            let Some(key) = key else { break };
            keys.push(key);
        }
        Ok(keys)
    }

    async fn read(&mut self, raw: Vec<u8>, is_first: bool) -> Result<Taken, Trouble> {
        let key = String::from_utf8_lossy(&raw);
        let key = key.strip_prefix(&self.settings.prefix).unwrap_or(&key).to_owned();
        let none = |raw, key, why: &str| Taken {
            raw,
            key,
            value: Vec::new(),
            is_own: false,
            intent: Err(why.to_owned()),
        };
        if !key.starts_with(PREFIX) || key.starts_with(ANSWER) {
            return Ok(none(raw, key, "an intent is intent:migrate:LOGICAL or intent:cordon:NODE"));
        }
        if !is_first {
            return Ok(none(raw, key, "it is there twice; what stands at its key was taken with the first"));
        }
        let mut get = cmd("GETRANGE");
        get.arg(self.key(&key)).arg(0).arg(MAX_READ - 1);
        let value: Vec<u8> = match get.query_async(&mut self.connection).await {
            Ok(value) => value,
            Err(error) if matches!(error.code(), Some("WRONGTYPE" | "NOPERM")) => {
                let is_own = error.code() == Some("WRONGTYPE");
                return Ok(Taken { is_own, ..none(raw, key, "what stands at its key is no text") });
            }
            Err(error) => return Err(error.into()),
        };
        let intent = match std::str::from_utf8(&value) {
            Ok("") => Err("nothing stands at its key".to_owned()),
            Ok(text) => Intent::read(&key, text),
            Err(_) => Err("what stands at its key is no text".to_owned()),
        };
        Ok(Taken { raw, key, value, is_own: true, intent })
    }

    /// Why it is refused; none: it is done.
    async fn one(&self, taken: &Taken, places: &Places) -> Result<Option<String>, Trouble> {
        let by = By { actor: Actor::Redis, note: None };
        let value = String::from_utf8_lossy(&taken.value);
        Ok(intents::answer(self.engine, &taken.key, &value, &taken.intent, places, by).await?)
    }

    fn prepare(&self, taken: Taken, refused: Option<&str>) -> Prepared {
        let Taken { raw, key, value, is_own, .. } = taken;
        let text = String::from_utf8_lossy(&value);
        let at = self.engine.clock().now().wall_ms as f64 / 1_000.0;
        let (intent, shown) = (shown(&key), shown(&text));
        let answer = Answer { intent, value: shown, accepted: refused.is_none(), reason: refused, at };
        let text = serde_json::to_string(&answer).unwrap_or_default();
        Prepared { raw, key, value, is_own, text }
    }

    /// Puts answers there. What is no longer in hand there, since the database was emptied, isn't answered.
    async fn answer(&mut self) -> Result<(), Trouble> {
        while let Some(Prepared { raw, key, value, is_own, text }) = self.answers.front() {
            let of = shown(key.strip_prefix(PREFIX).unwrap_or(key));
            let mut put = cmd("EVAL");
            put.arg(PUT_ANSWER).arg(4).arg(self.key(TAKEN)).arg(self.key(&format!("{ANSWER}{of}")));
            put.arg(self.key(key))
                .arg(self.key(SESSION))
                .arg(raw)
                .arg(value)
                .arg(text)
                .arg(KEPT_S)
                .arg(MAX_ANSWERS);
            put.arg(MAX_READ).arg(self.session).arg(if *is_own { "yes" } else { "no" });
            let _: u8 = put.query_async(&mut self.connection).await?;
            self.answers.pop_front();
        }
        Ok(())
    }
}
