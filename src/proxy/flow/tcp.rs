//! A connection of TCP, from its first byte to the end.

use std::{cell::Cell, io, rc::Rc};

use bytes::BytesMut;
use tokio::{net::TcpStream, time::Instant};
use traffic::Failure;

use super::{
    begin::{Begun, begin},
    retired::retired,
};
use crate::{
    caller::Caller,
    count::{CallCount, Outcome, Unserved},
    decide::{Decided, SILENT_TARGETS},
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

/// A connection to a version, and what it holds there.
struct Reached {
    stream: ToVersion,
    served: Rc<Served>,
    _place: Place,
}

/// Carries a connection to a variation of a service, by the table in force. What came of it already goes first.
pub(super) async fn carry(
    (mut stream, mut came): (TcpStream, BytesMut),
    caller: Caller,
    service: usize,
    worker: &Worker,
) {
    let Begun { service, decided, mut count, drain } = begin(&worker.local(), service, &caller, worker);
    let Ok(reached) = reach(&decided, &mut count, worker).await else {
        count.end(Outcome::Failed(Failure::Refused), None);
        return stream.break_off();
    };
    // From here on it holds the version that has it, and no other.
    drop(decided);
    let Reached { stream: version, served, _place } = reached;
    let so_far = Cell::new((0, 0));
    let idle = Idle::of_flow(worker.limits());
    let how = (idle, worker.buffers());
    let passing = tunnel::run_counting((&mut stream, &mut came), (version, BytesMut::new()), how, &so_far);
    let passed = tokio::select! {
        passed = passing => Some(passed.end),
        () = retired(worker, (&service, served.version.shared()), drain) => None,
    };
    let (up, down) = so_far.get();
    count.pass(up, down);
    let outcome = match passed {
        Some(End::Closed) => Outcome::Passed { took: count.took(Instant::now(), std::time::Duration::ZERO) },
        Some(End::CallerGone | End::Idle) => Outcome::CallerGone,
        Some(End::VersionGone) => Outcome::BrokenOff,
        None => Outcome::Cut,
    };
    if passed != Some(End::Closed) {
        // What came is not whole, and whoever reads it is to know.
        stream.break_off();
    }
    count.end(outcome, None);
    worker.buffers().give_back(came);
}

/// Reaches the chosen version, or else the stable one: nothing was sent yet.
async fn reach(decided: &Decided, count: &mut CallCount<'_>, worker: &Worker) -> Result<Reached, ()> {
    let mut served = decided.begin(count);
    loop {
        let tried = try_version(decided, served, worker).await;
        decided.note_attempt(served, tried.is_err());
        let why = match tried {
            Ok((stream, place)) => {
                return Ok(Reached { stream, served: Rc::clone(served), _place: place });
            }
            Err(why) => why,
        };
        let Some(stable) = decided.repeat_on(count, served, Failure::Refused, true) else {
            let shared = served.version.shared();
            Worker::report_failure(shared, served.variation.is_stable(), Failure::Refused, &why);
            return Err(());
        };
        served = stable;
    }
}

/// Tries a version's targets until one takes the connection.
async fn try_version(
    decided: &Decided,
    served: &Rc<Served>,
    worker: &Worker,
) -> Result<(ToVersion, Place), String> {
    let limits = worker.limits();
    let version = &served.version;
    let place = Place::take_flow(version, limits).await.ok_or("all its places are taken")?;
    let (mut silent, mut last_error) = (0, None);
    for at in version.targets_in_turn() {
        let target = &version.shared().targets()[at];
        match pool::connect_as(target, decided.header.as_deref(), limits).await {
            Ok(stream) => return Ok((stream, place)),
            Err(error) => {
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
