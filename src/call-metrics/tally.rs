use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};
use traffic::{Failure, GROUPS};

use super::Times;

/// Bounds of the histogram of seconds that is shown as a metric, in microseconds.
pub const BOUNDS_US: [u32; 14] = [
    500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 10_000_000,
];

/// What is counted together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    pub service: String,
    /// What the table calls the shares.
    pub split: String,
    /// Units of 0.01 %, a variation each.
    pub shares: Arc<[u16]>,
    pub variation: String,
    /// What names the version's content.
    pub version: String,
    /// Calls that a header asked this version for; they are no part of the split.
    pub by_header: bool,
}

/// What was counted of a version. Each of its calls is in exactly one of `succeeded`, `client_errors`, `errors`, `failed`, `no_target`, `passed_over`,
/// `broken_off`, `callers_gone`, `bad_bodies`, `upgraded` and `cut`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Tally {
    /// Calls that the table gave to it and that have ended.
    pub calls: u64,
    /// Answers with a status below 400 that were passed on whole; connections and flows that ended in order.
    pub succeeded: u64,
    /// Answers with a status from 400 to 499 that were passed on whole.
    pub client_errors: u64,
    /// Answers with a status from 500 on that were passed on whole.
    pub errors: u64,
    /// Calls that it failed before anything of an answer was passed on, by how, whether they were repeated or not.
    #[serde(with = "by_name")]
    pub failed: [u64; Failure::ALL.len()],
    /// Of the failed ones, those that were repeated on the stable version.
    pub repeated: u64,
    /// Of the repeated ones, those that the stable version failed, too.
    pub repeats_failed: u64,
    /// Calls that the router itself refused, since it took none of the version's targets to be there.
    #[serde(skip_serializing_if = "is_zero")]
    pub no_target: u64,
    /// Calls that passed it over, since it failed too many.
    pub passed_over: u64,
    /// Answers that broke off after their head was passed on.
    pub broken_off: u64,
    /// Calls whose caller left, or took or sent nothing for too long.
    pub callers_gone: u64,
    /// Calls whose body had no end that can be found.
    pub bad_bodies: u64,
    /// Calls that went on in another protocol; they have no time.
    pub upgraded: u64,
    /// Calls that the proxy itself ended, since it had to end; flows that were cut, since their version gets none any more.
    pub cut: u64,
    /// How many times a call was sent to it again on a new connection, since the old one had ended.
    pub sent_again: u64,
    /// Bytes of flows of TCP and UDP that have ended: to the version, and to the caller. Those of calls of HTTP aren't counted.
    #[serde(skip_serializing_if = "is_zero")]
    pub bytes_up: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub bytes_down: u64,
    /// Times of the calls that succeeded.
    pub times: Times,
    /// Times of the calls in `client_errors`.
    pub client_error_times: Times,
    /// Both together.
    pub seconds: Seconds,
    /// Calls that have a key and that the version had to answer, by the group of the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<Box<Groups>>,
    /// Copies of calls that it got for comparison; they are in no other number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copies: Option<Box<Copies>>,
}

/// Copies of calls that the stable version answered, each in exactly one of `same`, `same_beginning`, `other_status`, `other_body`,
/// `failed` and `cut`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Copies {
    /// Copies that have ended.
    pub calls: u64,
    /// Answers with the status and the body that the stable version answered with.
    pub same: u64,
    /// The same, as far as bodies are compared; both are longer.
    pub same_beginning: u64,
    /// Answers with another status.
    pub other_status: u64,
    /// Answers with the same status and another body.
    pub other_body: u64,
    /// Copies that it didn't answer, by why.
    #[serde(with = "by_name")]
    pub failed: [u64; Failure::ALL.len()],
    /// Copies that were cut, since no table asked for them any more.
    pub cut: u64,
    /// Answers with a status from 500 on, whatever the stable version answered.
    pub errors: u64,
    /// Copies that were not made, since there was no place for them.
    pub dropped: u64,
    /// Times of the answers with a status below 400: from the beginning of a copy to the last byte that was read of its answer.
    pub times: Times,
    /// The same.
    pub seconds: Seconds,
}

/// How many calls took how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Seconds {
    /// Calls up to each of [`BOUNDS_US`] and above the one before; then those above all.
    pub buckets: [u64; BOUNDS_US.len() + 1],
    pub sum_us: u64,
}

/// Calls by the group of their key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "GroupsForm", into = "GroupsForm")]
pub struct Groups {
    pub calls: [u64; GROUPS as usize],
    /// Of these, the calls that the version failed: errors, failures and answers that broke off.
    pub failures: [u64; GROUPS as usize],
    /// Times of the others, a group each; none at all where nobody told them.
    pub times: Vec<Times>,
}

impl Tally {
    /// Adds another one.
    pub fn merge(&mut self, other: &Self) {
        self.merge_counts(other);
        self.times.merge(&other.times);
        self.client_error_times.merge(&other.client_error_times);
        if let Some(more) = &other.groups {
            self.groups.get_or_insert_default().merge(more);
        }
        if let Some(more) = &other.copies {
            self.copies.get_or_insert_default().times.merge(&more.times);
        }
    }

    /// Adds the counts of another one, without times and groups.
    pub fn merge_counts(&mut self, other: &Self) {
        let Self { calls, succeeded, client_errors, errors, failed, repeated, repeats_failed, .. } = other;
        let Self { passed_over, broken_off, callers_gone, bad_bodies, upgraded, cut, sent_again, .. } = other;
        let Self { bytes_up, bytes_down, no_target, .. } = other;
        let more = [
            (&mut self.calls, calls),
            (&mut self.succeeded, succeeded),
            (&mut self.client_errors, client_errors),
            (&mut self.errors, errors),
            (&mut self.repeated, repeated),
            (&mut self.repeats_failed, repeats_failed),
            (&mut self.no_target, no_target),
            (&mut self.passed_over, passed_over),
            (&mut self.broken_off, broken_off),
            (&mut self.callers_gone, callers_gone),
            (&mut self.bad_bodies, bad_bodies),
            (&mut self.upgraded, upgraded),
            (&mut self.cut, cut),
            (&mut self.sent_again, sent_again),
            (&mut self.bytes_up, bytes_up),
            (&mut self.bytes_down, bytes_down),
        ];
        for (sum, more) in more {
            *sum += more;
        }
        add_each(&mut self.failed, failed);
        self.seconds.add(&other.seconds);
        if let Some(more) = &other.copies {
            self.copies.get_or_insert_default().merge_counts(more);
        }
    }

    /// Calls that the version failed, however that ended for the caller.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.errors + self.failed.iter().sum::<u64>() + self.broken_off
    }

    /// Calls with their outcome, which is a word; the sum of all is `calls`.
    #[must_use]
    pub fn outcomes(&self) -> [(&'static str, u64); 11] {
        [
            ("success", self.succeeded),
            ("client_error", self.client_errors),
            ("error", self.errors),
            ("failed", self.failed.iter().sum()),
            ("no_target", self.no_target),
            ("passed_over", self.passed_over),
            ("broken_off", self.broken_off),
            ("caller_gone", self.callers_gone),
            ("bad_body", self.bad_bodies),
            ("upgraded", self.upgraded),
            ("cut", self.cut),
        ]
    }

    /// Bytes that it takes, about.
    pub fn bytes(&self) -> usize {
        let times = |groups: &Groups| groups.times.iter().map(Times::bytes).sum::<usize>();
        let of_times = |groups: &Groups| size_of_val(groups.times.as_slice()) + times(groups);
        let groups = self.groups.as_ref().map_or(0, |groups| size_of::<Groups>() + of_times(groups));
        let copies = self.copies.as_ref().map_or(0, |copies| size_of::<Copies>() + copies.times.bytes());
        size_of::<Self>() + self.times.bytes() + self.client_error_times.bytes() + groups + copies
    }
}

impl Copies {
    /// How copies ended, each by a word; the sum of all is `calls`.
    #[must_use]
    pub fn outcomes(&self) -> [(&'static str, u64); 6] {
        [
            ("same", self.same),
            ("same_beginning", self.same_beginning),
            ("other_status", self.other_status),
            ("other_body", self.other_body),
            ("failed", self.failed.iter().sum()),
            ("cut", self.cut),
        ]
    }

    /// Adds the counts of others, without times.
    fn merge_counts(&mut self, other: &Self) {
        let Self { calls, same, same_beginning, other_status, other_body, cut, errors, dropped, .. } = other;
        let more = [
            (&mut self.calls, calls),
            (&mut self.same, same),
            (&mut self.same_beginning, same_beginning),
            (&mut self.other_status, other_status),
            (&mut self.other_body, other_body),
            (&mut self.cut, cut),
            (&mut self.errors, errors),
            (&mut self.dropped, dropped),
        ];
        for (sum, more) in more {
            *sum += more;
        }
        add_each(&mut self.failed, &other.failed);
        self.seconds.add(&other.seconds);
    }
}

impl Seconds {
    pub fn note(&mut self, us: u32) {
        self.buckets[BOUNDS_US.partition_point(|bound| *bound < us)] += 1;
        self.sum_us += u64::from(us);
    }

    fn add(&mut self, more: &Self) {
        add_each(&mut self.buckets, &more.buckets);
        self.sum_us += more.sum_us;
    }
}

impl Default for Groups {
    fn default() -> Self {
        Self { calls: [0; GROUPS as usize], failures: [0; GROUPS as usize], times: Vec::new() }
    }
}

impl Groups {
    fn merge(&mut self, other: &Self) {
        add_each(&mut self.calls, &other.calls);
        add_each(&mut self.failures, &other.failures);
        if self.times.len() < other.times.len() {
            self.times.resize_with(other.times.len(), Times::default);
        }
        self.times.iter_mut().zip(&other.times).for_each(|(sum, more)| sum.merge(more));
    }
}

fn add_each(sums: &mut [u64], more: &[u64]) {
    sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

/// Groups as they travel: a number a group, in order.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct GroupsForm {
    calls: Vec<u64>,
    failures: Vec<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    times: Vec<Times>,
}

/// There is a number for each group, and no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there are {GROUPS} groups of keys, each with its calls and failures")]
struct GroupsFault;

impl From<Groups> for GroupsForm {
    fn from(groups: Groups) -> Self {
        Self { calls: groups.calls.into(), failures: groups.failures.into(), times: groups.times }
    }
}

impl TryFrom<GroupsForm> for Groups {
    type Error = GroupsFault;

    fn try_from(form: GroupsForm) -> Result<Self, GroupsFault> {
        let all = |numbers: Vec<u64>| numbers.try_into().map_err(|_| GroupsFault);
        if !form.times.is_empty() && form.times.len() != usize::from(GROUPS) {
            return Err(GroupsFault);
        }
        Ok(Self { calls: all(form.calls)?, failures: all(form.failures)?, times: form.times })
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives it by reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Failures by their name; one that isn't named didn't happen.
mod by_name {
    use serde::{Deserializer, Serializer};

    use super::{BTreeMap, Deserialize, Failure};

    type Numbers = [u64; Failure::ALL.len()];

    pub(super) fn serialize<S: Serializer>(numbers: &Numbers, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(Failure::ALL.map(|failure| (failure.name(), numbers[failure as usize])))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Numbers, D::Error> {
        let named = BTreeMap::<String, u64>::deserialize(from)?;
        Ok(Failure::ALL.map(|failure| named.get(failure.name()).copied().unwrap_or_default()))
    }
}
