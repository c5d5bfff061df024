//! A connection of TCP, from its first byte to the end.

use std::{cell::Cell, io, pin::pin, rc::Rc, time::Duration};

use bytes::BytesMut;
use tokio::{
    net::TcpStream,
    time::{Instant, sleep},
};
use traffic::Failure;

use super::{
    begin::{Begun, begin},
    retired::retired,
};
use crate::{
    caller::Caller,
    count::{Outcome, Unserved},
    decide::{RoutingDecision, SILENT_TARGETS},
    live::{Place, Served, Transport},
    pool,
    stream::{Stream as _, ToVersion},
    tunnel::{self, End, Idle},
    worker::Worker,
};

/// Serves a connection that goes to the service of its port.
pub(crate) async fn serve(mut stream: TcpStream, caller: Caller, worker: Rc<Worker>) {
    let service = worker.local().table().of_port(Transport::Tcp, caller.port);
    let Some(service) = service else {
        worker.counts().note_unserved(Unserved::NoService);
        return stream.break_off();
    };
    carry((stream, BytesMut::new()), caller, service, &worker).await;
}

/// How a connection ended at a version.
enum Ended {
    /// It can't have seen anything of it.
    Refused(String),
    Passed(End),
    /// It may not stay with a version that gets none any more.
    Retired,
}

/// A connection of a caller that was given to a version.
struct Carried<'c> {
    stream: &'c mut TcpStream,
    /// What came and wasn't passed on.
    came: &'c mut BytesMut,
    service: &'c str,
    /// With what a connection to a version begins.
    header: Option<Box<[u8]>>,
    worker: &'c Worker,
    /// Bytes up and down.
    so_far: &'c Cell<(u64, u64)>,
}

/// Carries a connection to a variation of a service, by the table in force. What came of it already goes first.
pub(super) async fn carry(
    (mut stream, mut came): (TcpStream, BytesMut),
    caller: Caller,
    service: usize,
    worker: &Worker,
) {
    let Begun { service, mut decided, mut count } = begin(&worker.local(), service, &caller, worker);
    let so_far = Cell::new((0, 0));
    let header = decided.header.take();
    let mut served = Rc::clone(decided.begin(&mut count));
    let mut decided = Some(decided);
    let ended = {
        let (stream, came) = (&mut stream, &mut came);
        let mut carried = Carried { stream, came, service: &service, header, worker, so_far: &so_far };
        loop {
            let ended = carried.attempt(&served, &mut decided).await;
            let Ended::Refused(why) = &ended else { break ended };
            let stable = decided.as_ref().and_then(|decided| {
                decided.note_attempt(&served, true);
                decided.repeat_on(&mut count, &served, Failure::Refused, true)
            });
            let Some(stable) = stable.cloned() else {
                let shared = served.version.shared();
                Worker::report_failure(shared, served.variation.is_stable(), Failure::Refused, why);
                break ended;
            };
            served = stable;
        }
    };
    if !matches!(ended, Ended::Passed(End::Closed)) {
        // What came is not whole, and whoever reads it is to know.
        stream.break_off();
    }
    worker.buffers().give_back(came);
    let (up, down) = so_far.get();
    count.pass(up, down);
    let outcome = match ended {
        Ended::Refused(_) => Outcome::Failed(Failure::Refused),
        Ended::Passed(End::Closed) => Outcome::Passed { took: count.took(Instant::now(), Duration::ZERO) },
        Ended::Passed(End::CallerGone | End::Idle) => Outcome::CallerGone,
        Ended::Passed(End::VersionGone) => Outcome::BrokenOff,
        Ended::Retired => Outcome::Cut,
    };
    count.end(outcome, None);
}

impl Carried<'_> {
    /// Tries a version. Until it is clear that it has the connection, it may be another one's.
    async fn attempt(&mut self, served: &Rc<Served>, decided: &mut Option<RoutingDecision>) -> Ended {
        let worker = self.worker;
        let (version, place) = match self.reach(served).await {
            Ok(reached) => reached,
            Err(why) => return Ended::Refused(why),
        };
        let ended = {
            let how = (Idle::of_flow(worker.limits()), worker.buffers());
            let callers = (&mut *self.stream, &mut *self.came);
            let mut passing =
                pin!(tunnel::run_counting(callers, (version, BytesMut::new()), how, self.so_far));
            let mut retired = pin!(retired(worker, self.service, served.version.shared()));
            let mut settled = pin!(sleep(worker.limits().connect));
            loop {
                tokio::select! {
                    passed = &mut passing => break Ended::Passed(passed.end),
                    () = &mut retired => break Ended::Retired,
                    () = &mut settled, if decided.is_some() => {
                        // From here on it holds the version that has it, and no other.
                        decided.take().inspect(|decided| decided.note_attempt(served, false));
                    }
                }
            }
        };
        drop(place);
        match (&ended, &decided) {
            // A process that ends breaks the connections that it hadn't taken yet; to their callers these are like any other.
            (Ended::Passed(End::VersionGone), Some(_)) if self.so_far.get() == (0, 0) => {
                Ended::Refused("it broke the connection before anything passed".to_owned())
            }
            (_, Some(decided)) => {
                decided.note_attempt(served, false);
                ended
            }
            (_, None) => ended,
        }
    }

    /// Tries a version's targets until one takes the connection.
    async fn reach(&self, served: &Rc<Served>) -> Result<(ToVersion, Place), String> {
        let limits = self.worker.limits();
        let version = &served.version;
        let place = Place::take_flow(version, limits).await.ok_or("all its places are taken")?;
        let (mut silent, mut last_error) = (0, None);
        for at in version.targets_in_turn() {
            let target = &version.shared().targets()[at];
            match pool::connect_as(target, self.header.as_deref(), limits).await {
                Ok(stream) => return Ok((stream, place)),
                Err(error) => {
                    self.worker.note_unreachable();
                    silent += usize::from(error.kind() == io::ErrorKind::TimedOut);
                    last_error = Some(format!("{target}: {error}"));
                }
            }
            if silent == SILENT_TARGETS {
                break;
            }
        }
        Err(last_error.unwrap_or_else(|| "it has no target".to_owned()))
    }
}
