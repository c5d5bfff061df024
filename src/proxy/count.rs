use std::time::Duration;

use traffic::Failure;

/// How many times are kept as they are; from then on a histogram is.
pub(crate) const EXACT_TIMES: usize = 1_000;

/// What was counted of a version under the shares of one table, by one thread, since it was last gathered.
#[derive(Debug, Default)]
pub struct Tally {
    /// Calls that the split gave to it.
    pub calls: u64,
    /// Calls that a header asked it for; they are in no other number here.
    pub by_header: u64,
    /// Calls that it answered with a status from 500 to 599, and which were passed on.
    pub errors: u64,
    /// Calls that it failed, by how; also those that were repeated.
    pub failed: [u64; Failure::ALL.len()],
    /// Calls that it failed and that were repeated on the stable version.
    pub repeated: u64,
    /// Calls that were sent to it again on a new connection, since the old one had ended.
    pub sent_again: u64,
    /// Calls that passed it over, since it failed too many.
    pub passed_over: u64,
    /// Answers that broke off after their head was passed on.
    pub broken_off: u64,
    /// Calls whose caller left, or was too slow, before it had the whole answer.
    pub caller_gone: u64,
    /// Calls whose body was none.
    pub bad_body: u64,
    /// Calls that went on in another protocol.
    pub upgraded: u64,
    /// Microseconds from the head of the call to the end of the answer.
    pub times: Vec<u32>,
}

impl Tally {
    pub(crate) fn note_failure(&mut self, failure: Failure) {
        self.failed[failure as usize] += 1;
    }

    /// Notes an answer that was passed on whole.
    pub(crate) fn note_answer(&mut self, status: u16, took: Duration) {
        if status >= 500 {
            self.errors += 1;
        } else if self.times.len() < EXACT_TIMES {
            self.times.push(u32::try_from(took.as_micros()).unwrap_or(u32::MAX));
        }
    }
}
