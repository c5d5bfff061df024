//! Metrics in the text format of Prometheus. Their labels are bounded by the table: services, variations, and classes that stand in
//! this program; a version's digest is none.

use std::collections::BTreeMap;

use traffic::Failure;

use crate::{
    Leaving,
    live::{LiveTable, Transport},
    prometheus,
};
use call_metrics::UnservedCalls;
use call_metrics::{BOUNDS_US, CallMetrics, Seconds, Tally};

/// What is shown of a variation.
type Shown<'t> = (&'t str, &'t str, &'t Tally);

/// The text, as far as it is written.
#[derive(Debug)]
pub(crate) struct Text(prometheus::Text);

impl Text {
    pub(crate) fn new() -> Self {
        Self(prometheus::Text::new("choirmaster_proxy_"))
    }

    pub(crate) fn finish(self) -> String {
        self.0.finish()
    }

    /// The proxy itself: what it is, what it does just now.
    pub(crate) fn proxy(
        &mut self,
        table: &LiveTable,
        (connections, flows): (usize, usize),
        leaving: &[Leaving],
    ) {
        self.0.family("build_info", "gauge", "The version of this program, as a label; always 1.");
        self.0.sample("build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
        self.0.single("connections", "gauge", "Connections of callers.", connections as u64);
        self.0.single("flows", "gauge", "Flows of UDP.", flows as u64);
        let (epoch, generation) = (table.epoch(), table.generation());
        self.0.single("table_epoch", "gauge", "The epoch of the table in force.", epoch);
        self.0.single("table_generation", "gauge", "The generation of the table in force.", generation);
        self.0.family("in_flight", "gauge", "Calls that a version of the table in force carries out.");
        for service in table.services() {
            for version in service.versions() {
                let labels = [("service", service.name()), ("variation", version.name())];
                self.0.sample("in_flight", &labels, version.in_flight().into());
            }
        }
        let help = "Versions that the table in force doesn't name and that still answer calls.";
        self.0.single("leaving_versions", "gauge", help, leaving.len() as u64);
        let in_flight = leaving.iter().map(|of_one| u64::from(of_one.version.in_flight())).sum();
        self.0.single("leaving_in_flight", "gauge", "Calls that these carry out.", in_flight);
    }

    /// What was counted since the proxy started.
    pub(crate) fn counts(&mut self, call_metrics: &CallMetrics, table: &LiveTable) {
        let named: BTreeMap<&str, _> =
            table.services().iter().map(|service| (service.name(), service.versions())).collect();
        let is_named = |service: &str, variation: &str| {
            named.get(service).is_some_and(|versions| versions.iter().any(|v| v.name() == variation))
        };
        let all: Vec<Shown<'_>> = call_metrics.totals(is_named).collect();
        let help = "Calls of the split that have ended, by the variation that the table gave them to.";
        self.classes("calls_total", help, &all, |tally| tally.outcomes().to_vec());
        let help =
            "Calls that a variation failed before anything of an answer was passed on, repeated or not.";
        let failures = |tally: &Tally| Failure::ALL.map(|class| (class.name(), tally.failed[class as usize]));
        self.classes("failures_total", help, &all, |tally| failures(tally).to_vec());
        let help = "Calls that a variation failed and that were repeated on the stable one.";
        let repeats = |tally: &Tally| {
            vec![("saved", tally.repeated - tally.repeats_failed), ("failed", tally.repeats_failed)]
        };
        self.classes("repeats_total", help, &all, repeats);
        let help = "Calls sent again on a new connection, since the old one had ended.";
        let sent_again =
            all.iter().map(|&(service, variation, tally)| (service, variation, tally.sent_again));
        self.counter("sent_again_total", help, sent_again);
        let flows = table.services().iter().filter(|service| service.transport() != Transport::Http);
        let flows: Vec<&str> = flows.map(|service| service.name()).collect();
        let is_of_flows =
            |service: &str, tally: &Tally| flows.contains(&service) || tally.bytes_up + tally.bytes_down > 0;
        let help =
            "Bytes of connections and flows that have ended, to a variation (up) and to its callers (down).";
        self.0.family("bytes_total", "counter", help);
        for (service, variation, tally) in
            all.iter().filter(|(service, _, tally)| is_of_flows(service, tally))
        {
            for (direction, bytes) in [("up", tally.bytes_up), ("down", tally.bytes_down)] {
                let labels = [("service", *service), ("variation", *variation), ("direction", direction)];
                self.0.sample("bytes_total", &labels, bytes);
            }
        }
        let help = "From the head of a call to the last byte of its answer, where its status is below 500.";
        self.0.family("seconds", "histogram", help);
        for (service, variation, tally) in &all {
            self.histogram("seconds", &[("service", service), ("variation", variation)], &tally.seconds);
        }
        self.copies(&all);
        let help = "Calls whose counts had no place until somebody read them.";
        self.0.single("counts_gone_total", "counter", help, call_metrics.gone());
    }

    /// What was made of calls once more, for comparison.
    fn copies(&mut self, all: &[Shown<'_>]) {
        let of_copies =
            |tally: &Tally| tally.copies.as_ref().map_or_else(Vec::new, |copies| copies.outcomes().to_vec());
        let help = "Copies of calls that a variation got for comparison and that have ended.";
        self.classes("shadow_calls_total", help, all, of_copies);
        let shadows: Vec<_> = all
            .iter()
            .filter_map(|&(service, variation, tally)| Some((service, variation, tally.copies.as_deref()?)))
            .collect();
        let help = "Answers to copies with a status from 500 on.";
        let errors = shadows.iter().map(|&(service, variation, copies)| (service, variation, copies.errors));
        self.counter("shadow_errors_total", help, errors);
        let help = "Copies that were not made, since there was no place for them.";
        let dropped =
            shadows.iter().map(|&(service, variation, copies)| (service, variation, copies.dropped));
        self.counter("shadow_dropped_total", help, dropped);
        let help = "From the beginning of a copy to the last byte read of its answer, where its status is below 400.";
        self.0.family("shadow_seconds", "histogram", help);
        for (service, variation, copies) in &shadows {
            let labels = [("service", *service), ("variation", *variation)];
            self.histogram("shadow_seconds", &labels, &copies.seconds);
        }
    }

    /// What no version got, and what is in no log.
    pub(crate) fn losses(&mut self, unserved: UnservedCalls, log_dropped: u64, datagrams_dropped: u64) {
        self.0.family(
            "unserved_total",
            "counter",
            "Calls that the proxy answered by itself, and no version got.",
        );
        self.0.sample("unserved_total", &[("class", "refused")], unserved.refused);
        self.0.sample("unserved_total", &[("class", "no_service")], unserved.no_service);
        let help = "Lines of the access log that had no place in its queue or couldn't be written.";
        self.0.single("log_dropped_total", "counter", help, log_dropped);
        let help = "Datagrams for which there was no place, or that the system didn't take.";
        self.0.single("datagrams_dropped_total", "counter", help, datagrams_dropped);
    }

    fn classes(
        &mut self,
        name: &str,
        help: &str,
        all: &[Shown<'_>],
        classes: impl Fn(&Tally) -> Vec<(&'static str, u64)>,
    ) {
        self.0.family(name, "counter", help);
        for (service, variation, tally) in all {
            for (class, count) in classes(tally) {
                let labels = [("service", *service), ("variation", *variation), ("class", class)];
                self.0.sample(name, &labels, count);
            }
        }
    }

    fn counter<'t>(&mut self, name: &str, help: &str, counts: impl Iterator<Item = (&'t str, &'t str, u64)>) {
        self.0.family(name, "counter", help);
        for (service, variation, count) in counts {
            self.0.sample(name, &[("service", service), ("variation", variation)], count);
        }
    }

    fn histogram(&mut self, name: &str, labels: &[(&str, &str); 2], seconds: &Seconds) {
        let [service, variation] = *labels;
        let mut below = 0;
        let bucket = format!("{name}_bucket");
        for (bound, count) in BOUNDS_US.iter().zip(seconds.buckets) {
            below += count;
            let bound = (f64::from(*bound) / 1e6).to_string();
            self.0.sample(&bucket, &[service, variation, ("le", &bound)], below);
        }
        let all = seconds.buckets.iter().sum();
        self.0.sample(&bucket, &[service, variation, ("le", "+Inf")], all);
        let (micros, of_second) = (seconds.sum_us % 1_000_000, seconds.sum_us / 1_000_000);
        self.0.line(&format!("{name}_sum"), labels, &format!("{of_second}.{micros:06}"));
        self.0.sample(&format!("{name}_count"), labels, all);
    }
}
