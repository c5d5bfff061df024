//! Reports of a stage that goes on, as newer children make them.
//!
//! Calls are counted apart by the manager's time, cut on the child's monotonic clock, and reported at the end of each interval.
//! Where the manager's time is known too badly, they are of no interval. The manager's time is real time: the pace of the
//! fleet has no part in it.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    calls::StageCalls,
    child::{ProcessEnd, SimulatedChild},
    offer::{InterimReports, Offer, OfferStage},
    summary::full_summary,
};
use model::{ManagerClock, StageStatus};
use protocol::ManagerTime;

/// When a stage is reported next.
#[derive(Debug)]
pub struct Reporter {
    interim: InterimReports,
    began: Instant,
    clock: ManagerClock,
    due: Instant,
}

impl Reporter {
    /// `None`: nobody wants to hear of the stage before it is over.
    pub fn for_stage(stage: &OfferStage) -> Option<Self> {
        let now = Instant::now();
        // The first report has no calls, but is answered with the time.
        Some(Self { interim: stage.interim?, began: now, clock: ManagerClock::default(), due: now })
    }

    fn own_ms(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.began).as_millis() as u64
    }

    /// Real time until something is to be done.
    pub fn wait(&self) -> Duration {
        self.due.saturating_duration_since(Instant::now())
    }

    /// Reports, if it is time to, and begins the next interval.
    pub async fn report_if_due(
        &mut self,
        child: &mut SimulatedChild<'_>,
        offer: &Offer,
        stage: &OfferStage,
        calls: &mut StageCalls,
    ) -> Result<(), ProcessEnd> {
        let sent = Instant::now();
        if sent < self.due {
            return Ok(());
        }
        let summary = full_summary(stage, calls, StageStatus::InProgress, child.reads);
        if let Some(ManagerTime { time_ms, time_error_ms }) = child.report_so_far(offer, summary).await? {
            let came = Instant::now();
            self.clock.heard(self.own_ms(sent), self.own_ms(came), time_ms, time_error_ms.into());
        }
        let now = Instant::now();
        let every_ms = self.interim.every.as_millis() as u64;
        let until_next = match self.clock.at(self.own_ms(now)) {
            None => every_ms,
            Some(instant) => {
                calls.enter(instant.interval(self.interim.cut.as_millis() as u64));
                instant.until_next(every_ms)
            }
        };
        self.due = now + Duration::from_millis(until_next);
        Ok(())
    }
}
