//! The database: Redis or Valkey.

use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

use redis::{
    AsyncConnectionConfig, Client, ConnectionInfo, IntoConnectionInfo as _, Pipeline, RedisError,
    TlsCertificates, aio::MultiplexedConnection, cmd,
};

use super::{Settings, contents::Write, entries::HEALTH};
use engine::{
    EngineError,
    measurements::{News, Subject},
};
use model::Now;

/// How long connecting, and an answer, may take.
const CONNECT: Duration = Duration::from_secs(2);
pub const ANSWER: Duration = Duration::from_secs(5);

/// How a certificate in PEM begins.
const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";

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

/// What was measured that stands there: the run of the manager that wrote it last, and the number that comes next.
const MEASURED: &str = "choirmaster:measured";

/// Most of what was measured that stands at a key.
const MAX_KEPT: usize = 10_000;

/// Puts something into a sorted set, of which the oldest makes room. What is no such set makes room first.
/// KEYS: the set. ARGV: seconds that it stays, the time before which nothing stays, how many stay; then times and values.
const PUT_AT: &str = "
if redis.call('TYPE', KEYS[1]).ok ~= 'zset' then redis.call('DEL', KEYS[1]) end
redis.call('ZADD', KEYS[1], unpack(ARGV, 4))
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. ARGV[2])
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -1 - ARGV[3])
redis.call('EXPIRE', KEYS[1], ARGV[1])
return 1";

/// Puts what took so long in front of a list, and the average beside it.
/// KEYS: the list, the average. ARGV: seconds that they stay, the average, how many stay; then what is put there, the oldest first.
const PUT_FIRST: &str = "
if redis.call('TYPE', KEYS[1]).ok ~= 'list' then redis.call('DEL', KEYS[1]) end
redis.call('LPUSH', KEYS[1], unpack(ARGV, 4))
redis.call('LTRIM', KEYS[1], 0, ARGV[3] - 1)
redis.call('EXPIRE', KEYS[1], ARGV[1])
redis.call('SET', KEYS[2], ARGV[2], 'EX', ARGV[1])
return 1";

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
    let client = client(address, settings)?;
    let config =
        AsyncConnectionConfig::new().set_connection_timeout(Some(CONNECT)).set_response_timeout(Some(answer));
    Ok(client.get_multiplexed_async_connection_with_config(&config).await?)
}

fn client(address: ConnectionInfo, settings: &Settings) -> Result<Client, RedisError> {
    match &settings.authorities {
        None => Client::open(address),
        Some(pem) => {
            let certificates = TlsCertificates { client_tls: None, root_cert: Some(pem.clone()) };
            Client::build_with_tls(address, certificates)
        }
    }
}

impl Settings {
    /// Whether its authorities can be used.
    ///
    /// # Errors
    ///
    /// What is wrong with them.
    pub fn check_authorities(&self) -> Result<(), String> {
        let Some(pem) = &self.authorities else { return Ok(()) };
        if !pem.windows(BEGIN.len()).any(|at| at == BEGIN) {
            return Err("there is no certificate in PEM in it".to_owned());
        }
        let address = self.url.as_str().into_connection_info();
        let made = address.and_then(|address| client(address, self));
        made.map(drop).map_err(|error| error.to_string())
    }
}

pub struct Database {
    connection: MultiplexedConnection,
    prefix: String,
    identity: String,
    /// How long what was measured stays, in seconds.
    history_s: i64,
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
        let history_s = i64::try_from(settings.history.as_secs().max(1)).unwrap_or(i64::MAX);
        let mut database = Self { connection, prefix, identity, history_s, session, last_us: 0 };
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
        self.watch().await?;
        let done: Option<()> = transaction.query_async(&mut self.connection).await?;
        if done.is_none() {
            // Between the two somebody has claimed it, or emptied it.
            self.watch().await?;
        }
        done.ok_or(Trouble::Replaced)
    }

    /// Has the next transaction fail if somebody else claims the database before.
    async fn watch(&mut self) -> Result<(), Trouble> {
        let session = self.key(SESSION);
        let mut look = Pipeline::new();
        look.cmd("WATCH").arg(&session).ignore().cmd("GET").arg(&session);
        let (found,): (Option<String>,) = look.query_async(&mut self.connection).await?;
        match found {
            Some(session) if session == self.session => Ok(()),
            Some(_) => Err(Trouble::Replaced),
            None => Err(Trouble::Emptied),
        }
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
                (CATEGORIES.iter().chain(&["domain_info"]).any(is_of) || key.starts_with(HEALTH))
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
                    Write::Add(key, value, at_ms) => {
                        bytes += value.len();
                        self.put_at(&mut transaction, &key, now.wall_ms, &[(at_ms * 1_000, value)]);
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

    /// Puts something into a sorted set, by microseconds since 1970.
    fn put_at(&self, transaction: &mut Pipeline, key: &str, now_ms: i64, all: &[(i64, String)]) {
        let oldest = seconds(now_ms.saturating_mul(1_000) - self.history_s.saturating_mul(1_000_000));
        let put = transaction.cmd("EVAL").arg(PUT_AT).arg(1).arg(self.key(key));
        put.arg(self.history_s).arg(oldest).arg(MAX_KEPT);
        for (at_us, value) in all {
            put.arg(seconds(*at_us)).arg(value);
        }
        put.ignore();
    }

    /// Writes what was measured, each once. `run`: of the manager; `first`: the number of the first.
    pub async fn write_measured(
        &mut self,
        run: u64,
        first: u64,
        news: Vec<News>,
        now: Now,
    ) -> Result<(), Trouble> {
        let key = self.key(MEASURED);
        // MGET has none for what is of another type.
        let (known,): (Option<String>,) = cmd("MGET").arg(&key).query_async(&mut self.connection).await?;
        let known = known.and_then(|text| {
            let (of, next) = text.split_once(' ')?;
            Some((of.parse::<u64>().ok()?, next.parse::<u64>().ok()?))
        });
        let next = first + news.len() as u64;
        // What was written, but not answered, comes again.
        let known = known.map_or(0, |(of, next)| if of == run { next } else { 0 });
        let news = news.into_iter().skip(usize::try_from(known.saturating_sub(first)).unwrap_or(usize::MAX));
        let mut transaction = Pipeline::new();
        transaction.atomic().cmd("SET").arg(key).arg(format!("{run} {next}")).ignore();
        let mut took: BTreeMap<Subject, (f64, Vec<String>)> = BTreeMap::new();
        let mut performance: BTreeMap<String, Vec<(i64, String)>> = BTreeMap::new();
        for one in news {
            match one {
                News::Took { subject, ms, at_ms, average_ms } => {
                    let (average, all) = took.entry(subject).or_default();
                    *average = average_ms;
                    all.push(format!("{ms},{}.{:03}", at_ms.div_euclid(1_000), at_ms.rem_euclid(1_000)));
                }
                News::Reset(subjects) => {
                    for subject in subjects {
                        took.remove(&subject);
                        let [samples, average] = self.keys_of(&subject);
                        transaction.cmd("DEL").arg(samples).arg(average).ignore();
                    }
                }
                News::Performance { instance, series, at_ms, order, micros } => {
                    // Two of the same millisecond are two.
                    let at_us = at_ms.saturating_mul(1_000) + (order % 1_000) as i64;
                    let (of_second, value) = (at_us.rem_euclid(1_000_000), micros as f64 / 1_000_000.0);
                    let value = format!("{}.{:09}:{value}", at_us.div_euclid(1_000_000), of_second * 1_000);
                    performance
                        .entry(format!("performance:{instance}:{series}"))
                        .or_default()
                        .push((at_us, value));
                }
            }
        }
        for (subject, (average, all)) in took {
            let [samples, of_all] = self.keys_of(&subject);
            let put = transaction.cmd("EVAL").arg(PUT_FIRST).arg(2).arg(samples).arg(of_all);
            put.arg(self.history_s).arg(average.to_string()).arg(MAX_KEPT).arg(all).ignore();
        }
        for (key, all) in performance {
            self.put_at(&mut transaction, &key, now.wall_ms, &all);
        }
        self.send(&transaction).await
    }

    /// Where samples of something and their average stand.
    fn keys_of(&self, subject: &Subject) -> [String; 2] {
        ["samples", "average"].map(|what| self.key(&format!("{subject}:{what}")))
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
        seconds(self.last_us)
    }
}

/// Microseconds as seconds with a fraction.
fn seconds(us: i64) -> String {
    format!("{}.{:06}", us.div_euclid(1_000_000), us.rem_euclid(1_000_000))
}

/// The first word of a key, which may be a secret as a whole.
fn beginning(key: &str) -> String {
    key.split([':', '/', '.']).next().unwrap_or_default().chars().take(MAX_SHOWN).collect()
}
