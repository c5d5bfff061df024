//! The line that nginx and `HAProxy` log of a call to a service of ours: written by their configurations as [`crate::nginx::config`] and
//! [`crate::haproxy::config`] make them, read here.
//!
//! Fields are separated by `|`, which is in none of them. The first names the form, the second who wrote it:
//!
//! ```text
//! cm1|n|SERVICE|VARIATION|BUCKET|RULE|CHOSEN|STATUS|UPSTREAM STATUS|CONNECT|HEADER|TIME|RECEIVED|SENT|DONE|ADDRESSES|METHOD|LENGTH
//! cm1|s|SERVICE|VARIATION|BUCKET|ENDED|STATUS|TIME|UP|DOWN|ADDRESSES|PROCESS                a session of nginx's stream module
//! cm1|n?                                                                              a question of ours that nginx answered
//! cm1|h|SERVICE|BACKEND|BUCKET|RULE|CHOSEN|STATUS|QUEUE|CONNECT|HEADER|DATA|STATE|RETRIES|UP|DOWN|PROCESS
//! ```
//!
//! Nothing in a line is believed that isn't a number in its range or a word of a known list: a name is looked up by whoever reads it.
//! A line that isn't one of these is [`NotALine`], which says nothing of what it held.

use traffic::{Failure, GROUPS};

use crate::{
    haproxy::config::read_line as of_haproxy,
    nginx::config::{read_line as of_nginx, read_stream_line as of_stream},
};

/// The most bytes of a line: longer ones are none.
pub const LONGEST: usize = 1_024;

/// What lines of this form begin with.
pub const FORM: &str = "cm1";

/// A call that ended, as a router's line has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line<'l> {
    pub service: &'l str,
    /// None where it was given to none: what was sent wasn't a call.
    pub variation: Option<&'l str>,
    /// The group of the call's key, where calls have keys: by its bucket, so that it is the same for all calls of a user while the salt
    /// of the service stays, and each variation has keys of every group from a share of [`GROUPS`] buckets on.
    pub group: Option<u8>,
    /// A header asked for the variation.
    pub by_header: bool,
    /// When the variation was chosen, in milliseconds since 1970; none where it wasn't noted.
    pub chosen_ms: Option<u64>,
    pub outcome: Outcome,
    /// How many times it was sent to another target of the same variation, or to the same once more.
    pub sent_again: u32,
    /// Bytes of a connection without HTTP: to the variation, and to the caller.
    pub bytes: Option<(u64, u64)>,
    /// The process that wrote it, where the router counts by process. Of nginx's sessions, too, which it doesn't count: they are among no
    /// process's calls.
    pub process: Option<u32>,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Its answer was passed on whole.
    Answered {
        status: u16,
        took_ms: u32,
    },
    /// It was no call of HTTP, and ended in order.
    Passed {
        took_ms: u32,
    },
    /// It went on in another protocol.
    Upgraded,
    Failed(Failure),
    /// The router took none of the variation's targets to be there, and answered itself.
    NoTarget,
    BrokenOff,
    CallerGone,
}

/// What came in a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Logged<'l> {
    Call(Line<'l>),
    /// A question of ours that was answered, which is among what the router counts as calls.
    Question,
}

/// Where lines are sent: a unix datagram socket, by an absolute path of letters, digits and `. _ / -`, so that it can stand in
/// configurations as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPath(Box<str>);

/// The most bytes of such a path: the system allows 107, and the socket is made in a folder beside.
pub const LONGEST_PATH: usize = 90;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} can't be a router's socket of log lines: write an absolute path of at most {LONGEST_PATH} letters, digits and . _ / -"
)]
pub struct LogPathError(String);

impl std::str::FromStr for LogPath {
    type Err = LogPathError;

    fn from_str(path: &str) -> Result<Self, LogPathError> {
        let may_stand = |byte: u8| byte.is_ascii_alphanumeric() || b"._/-".contains(&byte);
        let is_file = path.starts_with('/') && !path.ends_with('/') && path.bytes().all(may_stand);
        if path.len() > LONGEST_PATH || !is_file {
            return Err(LogPathError(path.chars().take(LONGEST_PATH).collect()));
        }
        Ok(Self(path.into()))
    }
}

impl LogPath {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path of one of the sockets among which lines are spread. The first is this path itself.
    #[must_use]
    pub fn lane(&self, lane: usize) -> String {
        if lane == 0 { self.0.to_string() } else { format!("{}.{lane}", self.0) }
    }
}

/// Sockets among which lines are spread. In each only `net.unix.max_dgram_qlen` lines wait at once, which is 10 unless it is set.
pub const LANES: usize = 16;

/// It isn't a line of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a line of choirmaster's own form")]
pub struct NotALine;

/// Reads what a router sent: a line, behind whatever head its way of sending puts before it.
///
/// # Errors
///
/// Anything else.
pub fn read(datagram: &[u8]) -> Result<Logged<'_>, NotALine> {
    if datagram.len() > LONGEST {
        return Err(NotALine);
    }
    let text = str::from_utf8(datagram).map_err(|_| NotALine)?;
    let text = text.trim_end_matches(['\n', '\0']);
    // The head that nginx puts before it ends with its tag.
    let line =
        text.strip_prefix('<').map_or(Some(text), |head| head.split_once(TAG_END).map(|(_, line)| line));
    let line = line.ok_or(NotALine)?.strip_prefix(FORM).and_then(|line| line.strip_prefix('|'));
    let line = line.ok_or(NotALine)?;
    if line == QUESTION {
        return Ok(Logged::Question);
    }
    let (writer, fields) = line.split_once('|').ok_or(NotALine)?;
    let call = match writer {
        NGINX => of_nginx(&all(fields)?),
        NGINX_STREAM => of_stream(&all(fields)?),
        HAPROXY => of_haproxy(&all(fields)?),
        _ => None,
    };
    call.map(Logged::Call).ok_or(NotALine)
}

/// By which nginx names who sends.
pub const TAG: &str = "cm";
const TAG_END: &str = " cm: ";
/// Of nginx, of its stream module, of `HAProxy`, of a question.
pub const NGINX: &str = "n";
pub const NGINX_STREAM: &str = "s";
pub const HAPROXY: &str = "h";
pub const QUESTION: &str = "n?";

/// Exactly so many fields.
fn all<const N: usize>(fields: &str) -> Result<[&str; N], NotALine> {
    let mut all = [""; N];
    let mut there = fields.split('|');
    for field in &mut all {
        *field = there.next().ok_or(NotALine)?;
    }
    if there.next().is_some() { Err(NotALine) } else { Ok(all) }
}

/// Where a router wrote nothing, or had nothing to write.
pub(crate) const NOTHING: [&str; 2] = ["", "-"];

/// When, in milliseconds since 1970, with or without a point in front of the last three digits.
pub(crate) fn moment(text: &str) -> Result<Option<u64>, NotALine> {
    if NOTHING.contains(&text) {
        return Ok(None);
    }
    let (seconds, ms) = text.split_once('.').unwrap_or((text, ""));
    let all = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_moment = all(seconds) && all(ms) && [0, 3].contains(&ms.len()) && seconds.len() + ms.len() <= 15;
    let number: u64 = seconds.parse().ok().filter(|_| is_moment).ok_or(NotALine)?;
    if ms.is_empty() {
        return Ok(Some(number));
    }
    let ms: u64 = ms.parse().map_err(|_| NotALine)?;
    Ok(Some(number * 1_000 + ms))
}

/// The group of a bucket; none where calls have no keys.
pub(crate) fn group(bucket: &str) -> Result<Option<u8>, NotALine> {
    if NOTHING.contains(&bucket) {
        return Ok(None);
    }
    let is_number = bucket.len() <= 4 && bucket.bytes().all(|byte| byte.is_ascii_digit());
    let bucket: u16 = bucket.parse().ok().filter(|_| is_number).ok_or(NotALine)?;
    Ok(Some((bucket % u16::from(GROUPS)) as u8))
}
