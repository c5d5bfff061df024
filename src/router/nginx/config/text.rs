//! What a file of ours has of a service, whatever it takes.

use std::{fmt::Write as _, net::IpAddr};

use super::Log;
use crate::log_line::{self, LANES};
use traffic::desired::{Host, Target, Variation};

/// What each of them begins with.
pub(super) const FIRST_LINE: &str =
    "# Made by choirmaster; changes by hand are seen and undone. What is yours goes into another file.\n";

/// Tries of one call, the first among them.
pub(super) const TRIES: u32 = 3;
/// A target that failed so often within so many seconds gets no call for as many.
const MAX_FAILS: u32 = 2;
const FAIL_SECONDS: u32 = 2;
/// A variation with calls takes 128 bytes. It stays what it is: with another size nginx would begin to count anew.
pub(super) const FLIGHTS_ROOM: &str = "16m";
/// The most that nginx takes.
pub(super) const MOST_FLIGHTS: u16 = 65_535;

/// So many sockets a worker may open for lines.
const SENDERS: usize = 256;

/// What a file of ours has of a service.
pub(super) struct Text(pub(super) String);

impl Text {
    pub(super) fn line(&mut self, line: &str) {
        self.0.push_str(line);
        self.0.push('\n');
    }

    /// The two digits in front of the bucket of whoever is known by this key, and the two behind, each in a variable.
    pub(super) fn split(&mut self, key: &str, [high, low]: [&str; 2]) {
        for (variable, ending) in [(high, ""), (low, "#")] {
            let mut parts = String::new();
            for part in 0..99 {
                let _ = write!(parts, "1% {part:02}; ");
            }
            self.line(&format!("split_clients \"{key}{ending}\" {variable} {{ {parts}* 99; }}"));
        }
    }

    /// What the variation that a call went to is called, whose upstream this variable names.
    pub(super) fn names(&mut self, variations: &[Variation], id: &str, upstream: &str) {
        let mut names = String::new();
        for (at, variation) in variations.iter().enumerate() {
            let _ = write!(names, "cm_{id}_{at} \"{}\"; ", variation.name);
        }
        self.line(&format!("map {upstream} $cm_{id}_name {{ default \"\"; {names}}}"));
    }

    /// Without its end.
    pub(super) fn upstream(&mut self, variation: &Variation, id: &str, at: usize) {
        self.line(&format!("upstream cm_{id}_{at} {{"));
        for target in &variation.targets {
            let target = address(target);
            self.line(&format!("    server {target} max_fails={MAX_FAILS} fail_timeout={FAIL_SECONDS}s;"));
        }
    }

    /// A line a call, to one of the lanes.
    pub(super) fn access_logs(&mut self, log: &Log, format: &str, lanes: usize) {
        for lane in 0..lanes {
            let condition = if lanes > 1 { format!(" if=$cm_lane{lane}") } else { String::new() };
            self.line(&format!("    access_log {} {format}{condition};", syslog(log, lane)));
        }
    }
}

/// Where lines go. They are sent as datagrams, for which nobody waits.
fn syslog(log: &Log, lane: usize) -> String {
    format!("syslog:server=unix:{},nohostname,tag={}", log.socket.lane(lane), log_line::TAG)
}

/// Among how many sockets the lines of so many services are spread: each worker opens one to each of them for each service that has
/// calls.
pub(super) fn lanes(services: usize) -> usize {
    (SENDERS / services.max(1)).clamp(1, LANES)
}

/// A variable for each lane, of which one has a value for a call, by what differs from call to call. `is_call`: a variable that is 1 for
/// those that are logged at all.
pub(super) fn push_lanes(body: &mut String, lanes: usize, call: &str, is_call: Option<&str>) {
    if lanes < 2 {
        return;
    }
    let mut parts = String::new();
    let part = 100.0 / lanes as f64;
    for lane in 1..lanes {
        let _ = write!(parts, "{part:.2}% {lane}; ");
    }
    let _ = writeln!(body, "split_clients \"{call}\" $cm_lane {{ {parts}* 0; }}");
    let (variable, one) = is_call.map_or(("", ""), |variable| (variable, "1"));
    for lane in 0..lanes {
        let _ = writeln!(body, "map {variable}$cm_lane $cm_lane{lane} {{ default \"\"; {one}{lane} 1; }}");
    }
}

/// nginx would take a host `unix` for the word in front of a socket's path; the point at its end makes it a name.
fn address(target: &Target) -> String {
    match &target.host {
        Host::Name(name) if &**name == "unix" => format!("unix.:{}", target.port),
        Host::Name(_) | Host::Address(IpAddr::V4(_) | IpAddr::V6(_)) => target.to_string(),
    }
}
