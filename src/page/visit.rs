//! Who looks at a page, and how.

use http_api::session::Session;

/// Somebody who looks at a page, and may.
#[derive(Debug, Clone)]
pub struct Visit {
    pub session: Session,
    /// Whether the browser has yet to be given the cookie.
    pub is_new: bool,
    /// The path and the query that were asked for.
    pub asked: String,
    /// Light, dark, or as the system has it.
    pub scheme: Scheme,
    /// Whether there is anybody to sign in as.
    pub has_operators: bool,
    /// Whether a script asks, which needs the middle of the page alone.
    pub wants_middle: bool,
}

/// Which colours somebody chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scheme {
    #[default]
    System,
    Light,
    Dark,
}

impl Scheme {
    pub const ALL: [Self; 3] = [Self::System, Self::Light, Self::Dark];

    pub const fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scheme| scheme.name() == name)
    }
}
