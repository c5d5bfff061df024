//! What every page is made with.

use std::{
    ops::Deref,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use crate::{Settings, shared::Shared};
use http_api::{Operators, session::Sessions};

/// What pages are made from. Clones are the same.
#[derive(Debug, Clone)]
pub struct Page(Arc<Parts>);

#[derive(Debug)]
pub struct Parts {
    pub operators: Operators,
    pub sessions: Sessions,
    pub settings: Settings,
    pub shared: Shared,
}

impl Page {
    pub fn new(operators: Operators, settings: Settings) -> Self {
        let sessions = Sessions::new(rand::random(), settings.session);
        Self(Arc::new(Parts { operators, sessions, settings, shared: Shared::default() }))
    }
}

impl Deref for Page {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

/// Seconds since 1970.
pub fn now_s() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "browsers keep cookies by the calendar")]
    let now = SystemTime::now();
    now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
