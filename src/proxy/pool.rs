use std::{collections::VecDeque, io, task::Poll, time::Duration};

use bytes::BytesMut;
use tokio::{
    net::{TcpStream, UnixStream},
    time::{Instant, timeout},
};

use crate::{
    Limits,
    live::Target,
    stream::{Stream, ToVersion, poll_fill},
};

/// A connection to a version is taken for a call that can't be repeated only while it has been idle for less than this: an
/// older one may just be about to be closed at the other end, and nobody could tell whether the call was carried out.
pub(crate) const FRESH: Duration = Duration::from_millis(500);

/// Idle connections of a thread to a target; the one that was used last is taken first.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    idle: VecDeque<Idle>,
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
    pub(crate) fn sweep(&mut self) {
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

/// A new connection to a target.
pub(crate) async fn connect(target: &Target, limits: &Limits) -> io::Result<ToVersion> {
    let connecting = async {
        match target {
            Target::Tcp(address) | Target::Below { address, .. } => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Ok(ToVersion::Tcp(stream))
            }
            Target::Unix(path) => UnixStream::connect(path).await.map(ToVersion::Unix),
        }
    };
    timeout(limits.connect, connecting).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
