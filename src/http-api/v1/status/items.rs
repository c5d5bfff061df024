//! What somebody has to look at, by how urgent it is.

use std::cmp::Reverse;

use protocol::api::StatusItem;

/// Most items of an answer.
pub const MAX_ITEMS: usize = 100;

/// The least urgent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It works, and may not for long.
    Warning,
    /// Somebody has to decide.
    Action,
    /// Something doesn't work, or a rollback isn't proven.
    Critical,
}

/// What an item is about. Of equal severity, what comes first here is told first: the rest may follow from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum About {
    Manager,
    Store,
    Parent,
    Release,
    Router,
    Child,
    Workflows,
    Callers,
}

impl Severity {
    const fn name(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Action => "action",
            Self::Critical => "critical",
        }
    }
}

impl About {
    const fn name(self) -> &'static str {
        match self {
            Self::Manager => "manager",
            Self::Store => "store",
            Self::Parent => "parent",
            Self::Release => "release",
            Self::Router => "router",
            Self::Child => "child",
            Self::Workflows => "workflows",
            Self::Callers => "callers",
        }
    }
}

/// Something that somebody has to look at.
#[derive(Debug)]
pub struct Item {
    severity: Severity,
    about: About,
    shown: StatusItem,
}

impl Item {
    pub fn new(
        (severity, about): (Severity, About),
        text: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        let shown = StatusItem {
            severity: severity.name().to_owned(),
            about: about.name().to_owned(),
            id: None,
            name: None,
            since: None,
            text: text.into(),
            help: help.into(),
        };
        Self { severity, about, shown }
    }

    /// About the one of this id.
    #[must_use]
    pub fn of(mut self, id: &str, name: Option<&str>) -> Self {
        self.shown.id = Some(id.to_owned());
        self.shown.name = name.map(str::to_owned);
        self
    }

    #[must_use]
    pub fn since(mut self, since: Option<String>) -> Self {
        self.shown.since = since;
        self
    }
}

/// All of them.
#[derive(Debug, Default)]
pub struct Items {
    all: Vec<Item>,
    /// How many there are that nobody names.
    unnamed: u32,
}

impl Items {
    pub fn push(&mut self, item: Item) {
        self.all.push(item);
    }

    pub fn unnamed(&mut self, count: u32) {
        self.unnamed = self.unnamed.saturating_add(count);
    }

    pub fn extend(&mut self, other: Self) {
        self.all.extend(other.all);
        self.unnamed(other.unnamed);
    }

    /// The most urgent, and how many there are beside them. Of the same kind they stay in the order in which they were found.
    pub fn finish(mut self) -> (Vec<StatusItem>, u32) {
        self.all.sort_by_key(|item| (Reverse(item.severity), item.about));
        let beyond = u32::try_from(self.all.len().saturating_sub(MAX_ITEMS)).unwrap_or(u32::MAX);
        let shown = self.all.into_iter().take(MAX_ITEMS).map(|item| item.shown).collect();
        (shown, self.unnamed.saturating_add(beyond))
    }
}
