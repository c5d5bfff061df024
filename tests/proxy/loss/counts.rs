use std::collections::BTreeMap;

use call_metrics::Tally;
use proxy::Proxy;

use super::ledger::Counted;

/// What proxies that followed each other counted, by version.
#[derive(Debug, Default)]
pub struct Counts {
    of_former: BTreeMap<String, Counted>,
    of: BTreeMap<String, Counted>,
}

impl Counts {
    /// Takes what a proxy has counted since its start.
    pub async fn gather(&mut self, proxy: &Proxy) {
        self.of = self.of_former.clone();
        for row in proxy.gather().await {
            add(self.of.entry(row.key.variation.clone()).or_default(), &row.tally);
        }
    }

    /// From now on another proxy counts.
    pub fn begin_another(&mut self) {
        self.of_former = self.of.clone();
    }

    pub fn of(&self, version: &str) -> Counted {
        self.of.get(version).copied().unwrap_or_default()
    }

    pub fn all(&self) -> Counted {
        let mut all = Counted::default();
        for of_one in self.of.values() {
            all.calls += of_one.calls;
            all.errors += of_one.errors;
            all.failed += of_one.failed;
            all.repeated += of_one.repeated;
            all.sent_again += of_one.sent_again;
            all.passed_over += of_one.passed_over;
            all.broken_off += of_one.broken_off;
        }
        all
    }
}

fn add(counted: &mut Counted, tally: &Tally) {
    counted.calls += tally.calls;
    counted.errors += tally.errors;
    counted.failed += tally.failed.iter().sum::<u64>();
    counted.repeated += tally.repeated;
    counted.sent_again += tally.sent_again;
    counted.passed_over += tally.passed_over;
    counted.broken_off += tally.broken_off;
}
