//! UUIDs of what has names: each follows from its name, so nobody has to keep which is whose (version 5, RFC 9562 section 5.5).

use std::{fmt, ops::Range};

use model::hex;
use sha1::{Digest as _, Sha1};

/// The tenant of whoever is bound to none: no tenant can be called so.
pub const DEFAULT_TENANT: &str = "~";

/// Whose a release is that has this id in the manager.
#[must_use]
pub fn tenant_of(release: &str) -> &str {
    model::tenant::split(release).map_or(DEFAULT_TENANT, |(tenant, _)| tenant)
}

/// Of all ids that are made here.
const NAMESPACE: [u8; 16] =
    [0x0c, 0x5b, 0x8f, 0x1e, 0x9a, 0x41, 0x4d, 0x27, 0xb6, 0x0d, 0x3a, 0x55, 0xe2, 0x17, 0xc4, 0x90];

/// A UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid([u8; 16]);

/// What has an id of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Tenant,
    User,
    Release,
    Stage,
    Environment,
    TargetGroup,
    Version,
    Strategy,
    RegisteredRelease,
}

impl Kind {
    const fn word(self) -> &'static str {
        match self {
            Self::Tenant => "tenant",
            Self::User => "user",
            Self::Release => "release",
            Self::Stage => "stage",
            Self::Environment => "environment",
            Self::TargetGroup => "target-group",
            Self::Version => "version",
            Self::Strategy => "strategy",
            Self::RegisteredRelease => "registered-release",
        }
    }
}

impl Uuid {
    /// Of what has this name within something else, from the outermost to the innermost; tenants first, where they count.
    #[must_use]
    pub fn of(kind: Kind, names: &[&str]) -> Self {
        let mut hash = Sha1::new();
        hash.update(NAMESPACE);
        hash.update(kind.word());
        for name in names {
            // With its length, so that no two lists of names read the same.
            hash.update((name.len() as u64).to_be_bytes());
            hash.update(name);
        }
        let digest: [u8; 20] = hash.finalize().into();
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        bytes[6] = bytes[6] & 0x0f | 0x50;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Self(bytes)
    }

    /// The number of a stage counts from 1.
    #[must_use]
    pub fn of_stage(release: Self, number: usize) -> Self {
        Self::of(Kind::Stage, &[&release.to_string(), &number.to_string()])
    }

    /// A UUID in its usual form, in capital letters or small ones.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_dash = |at: usize| matches!(at, 8 | 13 | 18 | 23);
        if text.len() != 36 || !text.bytes().enumerate().all(|(at, byte)| is_dash(at) == (byte == b'-')) {
            return None;
        }
        hex::decode(&text.replace('-', "")).ok().map(Self)
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |bytes: Range<usize>| hex::encode(&self.0[bytes]);
        write!(f, "{}-{}-{}-{}-{}", part(0..4), part(4..6), part(6..8), part(8..10), part(10..16))
    }
}
