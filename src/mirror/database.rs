//! The database: Redis or Valkey.

use std::{collections::HashSet, time::Duration};

use redis::{
    AsyncConnectionConfig, Client, IntoConnectionInfo as _, Pipeline, RedisError, aio::MultiplexedConnection,
    cmd,
};

use super::{Settings, contents::Write};
use engine::EngineError;
use model::Now;

/// How long connecting, and an answer, may take.
const CONNECT: Duration = Duration::from_secs(2);
pub const ANSWER: Duration = Duration::from_secs(5);

/// Commands that are sent together, at most, and bytes.
const TOGETHER: usize = 1_000;
const BYTES_TOGETHER: usize = 256 * 1024;

/// Longest part of somebody's key that is told, in characters.
const MAX_SHOWN: usize = 16;

/// Whose mirror it is, and which of its connections writes it.
const OWNER: &str = "choirmaster:owner";
pub const SESSION: &str = "choirmaster:session";
const DOMAIN: &str = "domain_info:domain_id";

/// What others put there for whoever owns the mirror, and what nobody else calls so.
const OF_CLIENTS: [&str; 3] = ["intents", "intent:", "choirmaster:"];

/// What the keys of the mirror begin with. When something of it was written last stands below it.
const CATEGORIES: [&str; 4] = ["node:capabilities", "provider", "instance", "dependency"];

#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    #[error("the database can't be used: {0}")]
    Redis(#[from] RedisError),
    #[error(
        "the database has keys of others that begin with {0:?}: give the mirror a database or a prefix of its own, or set mirror.take_over"
    )]
    Foreign(String),
    #[error(
        "the database is the mirror of another manager, {0}: give this one its own, or set mirror.take_over"
    )]
    OfAnother(String),
    #[error("another process mirrors there now: one of them has to be given another database or prefix")]
    Replaced,
    #[error("the database was emptied")]
    Emptied,
    #[error("the state can't be looked at: {0}")]
    Engine(#[from] EngineError),
}

/// Whether a text is the address of a database.
///
/// # Errors
///
/// What is wrong with it, without repeating it.
pub fn check_url(text: &str) -> Result<(), String> {
    let is_known = text.starts_with("redis://") || text.starts_with("rediss://");
    match text.into_connection_info() {
        Ok(address) if is_known && address.redis_settings().password().is_some() => {
            Err("a password is in a file of its own: mirror.password_file".to_owned())
        }
        Ok(_) if is_known => Ok(()),
        Ok(_) | Err(_) => Err("an address looks like redis://127.0.0.1:6379/0".to_owned()),
    }
}

/// A connection. `answer`: how long an answer may take.
pub async fn connect(settings: &Settings, answer: Duration) -> Result<MultiplexedConnection, Trouble> {
    let mut address = settings.url.as_str().into_connection_info()?;
    if let Some(password) = &settings.password {
        let redis = address.redis_settings().clone().set_password(password.reveal());
        address = address.set_redis_settings(redis);
    }
    let client = Client::open(address)?;
    let config =
        AsyncConnectionConfig::new().set_connection_timeout(Some(CONNECT)).set_response_timeout(Some(answer));
    Ok(client.get_multiplexed_async_connection_with_config(&config).await?)
}

pub struct Database {
    connection: MultiplexedConnection,
    prefix: String,
    identity: String,
    /// What this connection calls itself there: who was replaced meanwhile writes nothing more.
    session: String,
    /// When something was written last, in microseconds since 1970: no two writes have the same.
    last_us: i64,
}

impl Database {
    /// Connects, and makes sure that the database is this manager's.
    pub async fn open(settings: &Settings, identity: &str, was_ours: bool) -> Result<Self, Trouble> {
        let connection = connect(settings, ANSWER).await?;
        let (prefix, identity) = (settings.prefix.clone(), identity.to_owned());
        let session = rand::random::<u64>().to_string();
        let mut database = Self { connection, prefix, identity, session, last_us: 0 };
        database.claim(settings.take_over || was_ours).await?;
        Ok(database)
    }

    /// What this connection calls itself there.
    pub fn session(&self) -> &str {
        &self.session
    }

    fn key(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    async fn claim(&mut self, take_over: bool) -> Result<(), Trouble> {
        let (key, domain) = (self.key(OWNER), self.key(DOMAIN));
        let mut read = cmd("MGET");
        let (owner, domain): (Option<String>, Option<String>) =
            read.arg(&key).arg(&domain).query_async(&mut self.connection).await?;
        // Whoever makes room there may have removed either.
        match owner.or(domain) {
            Some(owner) if owner == self.identity => {}
            Some(owner) if !take_over => return Err(Trouble::OfAnother(owner)),
            None if !take_over => {
                let is_foreign =
                    |key: &String| !OF_CLIENTS.iter().any(|of_client| key.starts_with(of_client));
                let mut cursor = Some(0);
                while let Some(at) = cursor {
                    let (next, keys) = self.page("*", at).await?;
                    if let Some(key) = keys.into_iter().find(is_foreign) {
                        return Err(Trouble::Foreign(beginning(&key)));
                    }
                    cursor = next;
                }
            }
            _ => {}
        }
        let session = self.key(SESSION);
        let mut claim = Pipeline::new();
        claim.atomic().cmd("SET").arg(&key).arg(&self.identity).ignore();
        claim.cmd("SET").arg(&session).arg(&self.session).ignore();
        Ok(claim.query_async(&mut self.connection).await?)
    }

    /// Sends a transaction, unless somebody else has claimed the database since.
    async fn send(&mut self, transaction: &Pipeline) -> Result<(), Trouble> {
        let session = self.key(SESSION);
        let mut look = Pipeline::new();
        look.cmd("WATCH").arg(&session).ignore().cmd("GET").arg(&session);
        let (found,): (Option<String>,) = look.query_async(&mut self.connection).await?;
        match found {
            Some(session) if session == self.session => {}
            Some(_) => return Err(Trouble::Replaced),
            None => return Err(Trouble::Emptied),
        }
        let done: Option<()> = transaction.query_async(&mut self.connection).await?;
        done.ok_or(Trouble::Replaced)
    }

    /// Some of them, and where there are more.
    async fn page(&mut self, form: &str, cursor: u64) -> Result<(Option<u64>, Vec<String>), Trouble> {
        let mut scan = cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(self.key(form)).arg("COUNT").arg(TOGETHER);
        let (next, keys): (u64, Vec<Vec<u8>>) = scan.query_async(&mut self.connection).await?;
        // Of others a key may be no text.
        let keys = keys.iter().map(|key| String::from_utf8_lossy(key));
        let own = keys.filter_map(|key| Some(key.strip_prefix(&self.prefix)?.to_owned()));
        Ok(((next != 0).then_some(next), own.collect()))
    }

    /// Writes all that is to stand there, and removes what else stands there of the mirror's.
    pub async fn write_whole(&mut self, writes: Vec<Write>, now: Now) -> Result<(), Trouble> {
        let mut stale = Vec::new();
        let alive = format!("domain_info:{}:last_update", self.identity);
        {
            let wanted: HashSet<&str> = writes.iter().map(Write::key).collect();
            let is_ours = |key: &str| {
                let is_of =
                    |category: &&str| key.strip_prefix(*category).is_some_and(|rest| rest.starts_with(':'));
                let is_time = key.ends_with(":last_update") && !key.starts_with("domain_info:");
                CATEGORIES.iter().chain(&["domain_info"]).any(is_of)
                    && !is_time
                    && key != DOMAIN
                    && key != alive
            };
            let mut cursor = Some(0);
            while let Some(at) = cursor {
                let (next, keys) = self.page("*", at).await?;
                let keys = keys.into_iter().filter(|key| is_ours(key) && !wanted.contains(key.as_str()));
                stale.extend(keys.map(Write::Delete));
                cursor = next;
            }
        }
        self.write(stale, now).await?;
        self.write(writes, now).await?;
        let at = self.tick(now);
        let mut last = Pipeline::new();
        last.atomic().cmd("SET").arg(self.key(DOMAIN)).arg(&self.identity).ignore();
        last.cmd("SET").arg(self.key(OWNER)).arg(&self.identity).ignore();
        for category in CATEGORIES {
            last.cmd("SET").arg(self.key(&format!("{category}:last_update"))).arg(&at).ignore();
        }
        self.send(&last).await?;
        self.note_alive(now).await
    }

    /// Writes what has changed: what is written together is seen together.
    pub async fn write(&mut self, writes: Vec<Write>, now: Now) -> Result<(), Trouble> {
        let mut writes = writes.into_iter().peekable();
        while writes.peek().is_some() {
            let at = self.tick(now);
            let (mut transaction, mut touched, mut bytes) = (Pipeline::new(), [false; CATEGORIES.len()], 0);
            transaction.atomic();
            while transaction.len() < TOGETHER && bytes < BYTES_TOGETHER {
                let Some(write) = writes.next() else { break };
                for (category, is_touched) in CATEGORIES.iter().zip(&mut touched) {
                    let rest = write.key().strip_prefix(category);
                    *is_touched |= rest.is_some_and(|rest| rest.starts_with(':'));
                }
                match write {
                    Write::Set(key, value) => {
                        bytes += value.len();
                        transaction.cmd("SET").arg(self.key(&key)).arg(value).ignore();
                    }
                    Write::Delete(key) => drop(transaction.cmd("DEL").arg(self.key(&key)).ignore()),
                }
            }
            for (category, _) in CATEGORIES.iter().zip(touched).filter(|(_, is_touched)| *is_touched) {
                transaction.cmd("SET").arg(self.key(&format!("{category}:last_update"))).arg(&at).ignore();
            }
            self.send(&transaction).await?;
            if writes.peek().is_some() {
                self.note_alive(now).await?;
            }
        }
        Ok(())
    }

    /// By that readers know that the mirror isn't one of before.
    pub async fn note_alive(&mut self, now: Now) -> Result<(), Trouble> {
        let key = self.key(&format!("domain_info:{}:last_update", self.identity));
        let at = self.tick(now);
        let mut pipeline = Pipeline::new();
        pipeline.atomic().cmd("SET").arg(key).arg(at).ignore();
        self.send(&pipeline).await
    }

    /// Seconds since 1970, later than each time before.
    fn tick(&mut self, now: Now) -> String {
        self.last_us = (now.wall_ms * 1_000).max(self.last_us + 1);
        format!("{}.{:06}", self.last_us / 1_000_000, self.last_us % 1_000_000)
    }
}

/// The first word of a key, which may be a secret as a whole.
fn beginning(key: &str) -> String {
    key.split([':', '/', '.']).next().unwrap_or_default().chars().take(MAX_SHOWN).collect()
}
