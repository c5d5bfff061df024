use std::net::IpAddr;

use model::traffic::Sticky;

use crate::{Bucket, GROUPS, HashFunction, Table, Variation, hash::group_of_key};

/// A header whose value names a variation: who sends it gets that one, whatever the shares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderRule {
    pub name: Box<str>,
    /// Values, compared byte for byte.
    pub values: Vec<(Box<str>, Variation)>,
}

/// What a choice asks about a call.
pub trait Call {
    /// The value of the first header of this name, compared without regard to case.
    fn header(&self, name: &str) -> Option<&[u8]>;
    /// The value of the first cookie of this name.
    fn cookie(&self, name: &str) -> Option<&[u8]>;
    fn address(&self) -> IpAddr;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    pub variation: Variation,
    /// The key that the caller is to get as a cookie, in hexadecimal digits.
    pub new_key: Option<u64>,
    /// The caller asked for this variation by the header rule: the call isn't part of the split.
    pub by_header: bool,
    /// The group of the call's key, or one at random where calls have keys and this one has none; none where each call is drawn by
    /// itself.
    pub group: Option<u8>,
}

/// Which variation a call gets. `draw` gives a random number, each as likely, and is asked only where the call has no key.
pub fn choose(
    (table, function, salt): (&Table, HashFunction, &[u8]),
    (rule, sticky): (Option<&HeaderRule>, Option<&Sticky>),
    call: &impl Call,
    draw: impl FnOnce() -> u64,
) -> Choice {
    if let Some(variation) = rule.and_then(|rule| named(rule, call)) {
        return Choice { variation, new_key: None, by_header: true, group: None };
    }
    let of_key = |key: &[u8]| (Bucket::of_key(function, salt, key), Some(group_of_key(key)));
    let drawn = |drawn: u64| (Bucket::of_random(drawn as u32), None);
    let of_nobody = |number: u64| {
        let group = (number >> u32::BITS) % u64::from(GROUPS);
        (Bucket::of_random(number as u32), Some(group as u8))
    };
    let ((bucket, group), new_key) = match sticky {
        None => (drawn(draw()), None),
        Some(Sticky::Header(name)) => match call.header(name) {
            Some(key) => (of_key(key), None),
            // A user of one call.
            None => (of_nobody(draw()), None),
        },
        Some(Sticky::Cookie(name)) => {
            if let Some(key) = call.cookie(name) {
                (of_key(key), None)
            } else {
                let key = draw();
                (of_key(key_text(key).as_bytes()), Some(key))
            }
        }
        Some(Sticky::Address) => (of_key(call.address().to_canonical().to_string().as_bytes()), None),
    };
    Choice { variation: table.variation(bucket), new_key, by_header: false, group }
}

impl Choice {
    /// The value of the cookie that the caller is to get.
    #[must_use]
    pub fn new_cookie(&self) -> Option<String> {
        self.new_key.map(key_text)
    }
}

fn key_text(key: u64) -> String {
    format!("{key:016x}")
}

fn named(rule: &HeaderRule, call: &impl Call) -> Option<Variation> {
    let value = call.header(&rule.name)?;
    rule.values.iter().find(|(named, _)| named.as_bytes() == value).map(|&(_, variation)| variation)
}
