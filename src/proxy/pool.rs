//! Connections to versions.
//!
//! A thread keeps one set of them for each target of a content, whatever services and versions lead there: so a table of many services
//! has no more of them idle than one of a single service.

use std::{
    cell::RefCell,
    collections::{HashMap, VecDeque},
    io,
    rc::{Rc, Weak},
    task::Poll,
    time::Duration,
};

use bytes::BytesMut;
use tokio::{
    io::AsyncWriteExt as _,
    net::UnixStream,
    time::{Instant, timeout},
};

use crate::{
    Limits,
    http2::Links,
    live::Target,
    mark,
    stream::{Stream, ToVersion, poll_fill},
};

/// A connection to a version is taken for a call that can't be repeated only while it has been idle for less than this: an
/// older one may just be about to be closed at the other end, and nobody could tell whether the call was carried out.
pub(crate) const FRESH: Duration = Duration::from_millis(500);

/// All that a thread has, by the target and by what names the content that is there: what is replaced at the same address gets no call
/// over a connection to what was there before. Each ends when no version leads to it any more.
#[derive(Debug, Default)]
pub(crate) struct Pools(RefCell<HashMap<Reached, Weak<Connections>>>);

/// A target, and what names the content that is there.
type Reached = (Target, Box<str>);

/// A thread's connections to a target.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    pub plain: RefCell<Pool>,
    /// Of HTTP/2.
    pub links: Links,
}

/// Idle connections of a thread to a target; the one that was used last is taken first.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    idle: VecDeque<Idle>,
}

impl Pools {
    /// Those to a target, at which there is a content of this name.
    pub(crate) fn of(&self, target: &Target, content: &str) -> Rc<Connections> {
        let mut all = self.0.borrow_mut();
        let known = all.entry((target.clone(), content.into())).or_default();
        known.upgrade().unwrap_or_else(|| {
            let new = Rc::default();
            *known = Rc::downgrade(&new);
            new
        })
    }

    /// Closes what was idle for too long, and forgets targets that no version leads to.
    pub(crate) fn sweep(&self) {
        self.0.borrow_mut().retain(|_, connections| {
            let Some(connections) = connections.upgrade() else { return false };
            connections.plain.borrow_mut().sweep();
            connections.links.sweep();
            true
        });
    }
}

#[derive(Debug)]
struct Idle {
    stream: ToVersion,
    since: Instant,
    until: Instant,
}

impl Pool {
    /// A connection that was idle for less than `idle_less_than` and that the version has not closed, as far as can be seen.
    pub(crate) fn take(&mut self, idle_less_than: Duration) -> Option<ToVersion> {
        let now = Instant::now();
        while let Some(mut idle) = self.idle.pop_back() {
            let is_young = now < idle.until && now.duration_since(idle.since) < idle_less_than;
            if !is_young {
                if now >= idle.until {
                    continue;
                }
                self.idle.push_back(idle);
                return None;
            }
            if is_quiet(&mut idle.stream) {
                return Some(idle.stream);
            }
        }
        None
    }

    /// Keeps a connection for a later call. `keeps_idle`: for how many seconds the version says that it does.
    pub(crate) fn put(&mut self, stream: ToVersion, keeps_idle: Option<u32>, limits: &Limits) {
        let since = Instant::now();
        // A second less than the version says: the call has to get there first.
        let said = keeps_idle.map(|seconds| Duration::from_secs(u64::from(seconds.saturating_sub(1))));
        let keep = said.map_or(limits.pooled, |said| said.min(limits.pooled));
        if keep.is_zero() {
            return;
        }
        while self.idle.front().is_some_and(|oldest| oldest.until <= since) || self.idle.len() >= limits.pool
        {
            self.idle.pop_front();
        }
        self.idle.push_back(Idle { stream, since, until: since + keep });
    }

    /// Closes what was idle for too long, or was closed at the other end.
    fn sweep(&mut self) {
        let now = Instant::now();
        self.idle.retain_mut(|idle| idle.until > now && is_quiet(&mut idle.stream));
    }
}

/// Whether nothing came: an idle connection from which something comes, its end included, is of no use.
fn is_quiet(stream: &mut ToVersion) -> bool {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let mut nothing = BytesMut::new();
    match stream.poll_input(&mut cx) {
        Poll::Pending => true,
        Poll::Ready(_) => poll_fill(stream, &mut nothing, 1, &mut cx).is_pending(),
    }
}

/// A new connection to a target, which begins with a header where one is given.
pub(crate) async fn connect_as(
    target: &Target,
    header: Option<&[u8]>,
    limits: &Limits,
) -> io::Result<ToVersion> {
    let mut stream = connect(target, limits).await?;
    if let Some(header) = header {
        let written = timeout(limits.connect, stream.write_all(header)).await;
        written.map_err(io::Error::from).flatten()?;
    }
    Ok(stream)
}

/// A new connection to a target.
pub(crate) async fn connect(target: &Target, limits: &Limits) -> io::Result<ToVersion> {
    let connecting = async {
        match target {
            Target::Tcp(address) | Target::Below { address, .. } => {
                let stream = mark::connect(*address, limits.mark).await?;
                stream.set_nodelay(true)?;
                Ok(ToVersion::Tcp(stream))
            }
            Target::Unix(path) => UnixStream::connect(path).await.map(ToVersion::Unix),
        }
    };
    timeout(limits.connect, connecting).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
