//! The one check that CLI, API and tests share.

use super::{
    Strategy,
    analysis::{Templates, providers::Providers, templates},
    diagnostic::{Diagnostic, Severity},
    findings::Findings,
    node::At,
    parse::{self, Author},
    places::TextPlaces,
    raw::{self, MAX_STRATEGY_BYTES},
    rollout_templates::{self, RolloutTemplates},
    validate,
};

/// What a check found.
#[derive(Debug, Clone)]
pub struct Checked {
    /// There exactly if no diagnostic is an error.
    pub strategy: Option<Strategy>,
    /// The text to keep, where it isn't the one that was given: with the templates of the site written into it, so that
    /// [`check`] reads the same strategy from it anywhere and at any time.
    pub frozen: Option<String>,
    /// Where stands what others look at, who know more.
    pub places: TextPlaces,
    /// In the order of the file.
    pub diagnostics: Vec<Diagnostic>,
}

impl Checked {
    /// Adds what was found out elsewhere.
    pub fn add(&mut self, found: Vec<Diagnostic>) {
        if found.iter().any(|found| found.severity == Severity::Error) {
            self.strategy = None;
        }
        self.diagnostics.extend(found);
        self.diagnostics.sort_by_key(|d| (d.line, d.column, d.severity == Severity::Warning));
    }

    /// Warns of a start that is over; `now_ms` since 1970.
    pub fn compare_start(&mut self, now_ms: i64) {
        let start =
            self.strategy.as_ref().and_then(|s| s.rollout.as_ref()).and_then(|rollout| rollout.start_ms);
        let found = self.places.start.as_ref().filter(|_| start.is_some_and(|start| start < now_ms));
        let found = found.map(|place| {
            place.fault(
                Severity::Warning,
                "past-start",
                "this instant is over: the release starts at once",
                "write one that is yet to come, or leave start out",
            )
        });
        self.add(found.into_iter().collect());
    }
}

/// Reads a strategy and reports every fault of it.
pub fn check(text: &str) -> Checked {
    check_for(text, Author::Developer, None)
}

/// [`check`] for what is stored: it was accepted once, and nobody can change it any more. What a later build made a rule of
/// (how long, how many, what beside what) is not held against it; what can't be read is, for nobody could say what it meant.
pub fn check_stored(text: &str) -> Checked {
    check_with(text, Author::Parent, None, true)
}

/// [`check_bytes`] for what the parent hands out.
pub fn check_from_parent(bytes: &[u8]) -> Checked {
    bytes_to_text(bytes, |text| check_for(text, Author::Parent, None))
}

/// What a manager has that strategies may name.
#[derive(Debug, Clone, Default)]
pub struct Site {
    pub templates: Templates,
    /// How shares of services grow, by name.
    pub strategies: RolloutTemplates,
    pub providers: Providers,
}

/// [`check_bytes`] for a release that is to start: what this version can read but not carry out is a fault, too.
pub fn check_submission(bytes: &[u8]) -> Checked {
    check_submission_at(bytes, &Site::default())
}

/// [`check_submission`] at a manager that has templates and providers.
pub fn check_submission_at(bytes: &[u8], site: &Site) -> Checked {
    bytes_to_text(bytes, |text| check_for(text, Author::Developer, Some(site)))
}

/// [`check_bytes`] at a manager that has templates and providers: they are looked up, but nothing is to start.
pub fn check_at(bytes: &[u8], site: &Site) -> Checked {
    bytes_to_text(bytes, |text| check_for(text, Author::Developer, Some(site)))
}

fn check_for(text: &str, author: Author, site: Option<&Site>) -> Checked {
    check_with(text, author, site, false)
}

fn check_with(text: &str, author: Author, site: Option<&Site>, is_stored: bool) -> Checked {
    // A mark that some editors put in front says nothing.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.len() > MAX_STRATEGY_BYTES && !is_stored {
        let mut findings = Findings::new("");
        let message =
            format!("a strategy has at most {MAX_STRATEGY_BYTES} bytes, this one has {}", text.len());
        findings.error(At::START, "too-large", message).fix("split the release");
        return Checked::nothing(findings);
    }
    let mut findings = if is_stored { Findings::of_stored(text) } else { Findings::new(text) };
    let Some(mut root) = raw::read(text, &mut findings) else { return Checked::nothing(findings) };
    let built_in = RolloutTemplates::default();
    let known = site.map_or(&built_in, |site| &site.strategies);
    let named = rollout_templates::expand(&mut root, known, &mut findings);
    let used = templates::expand(&mut root, site.map(|site| &site.templates), &mut findings);
    let Some(draft) = parse::read_strategy(&root, author, &mut findings) else {
        return Checked::nothing(findings);
    };
    let places = draft.places.clone();
    if let Some(site) = site {
        for analysis in parse::analyses(&draft.stages, draft.rollout.as_ref()) {
            analysis.check_providers(&site.providers, &mut findings);
        }
    } else if author == Author::Developer {
        for analysis in parse::analyses(&draft.stages, draft.rollout.as_ref()) {
            analysis.doubt_providers(&mut findings);
        }
    }
    let strategy = validate::strategy(draft, &mut findings);
    let strategy = strategy.filter(|_| !findings.has_errors());
    let is_whole = used.is_empty() && named.is_none();
    let Some((strategy, site)) = strategy.as_ref().zip(site.filter(|_| !is_whole)) else {
        return Checked { strategy, frozen: None, places, diagnostics: findings.finish() };
    };
    let mut frozen = Some(text.to_owned());
    if let Some(named) = &named {
        frozen = rollout_templates::freeze(text, named);
    }
    if !used.is_empty() {
        frozen = frozen.map(|text| templates::freeze(&text, &used, &site.templates));
    }
    let Some(frozen) = frozen.filter(|frozen| check(frozen).strategy.as_ref() == Some(strategy)) else {
        let message = "with what its names mean written into it the strategy can't be read any more";
        findings.error(At::START, "unfreezable", message).fix(
            "make it shorter, write names of strategies and templates plainly, and end it without a ... line",
        );
        return Checked::nothing(findings);
    };
    let strategy = Some(strategy.clone());
    Checked { strategy, frozen: Some(frozen), places, diagnostics: findings.finish() }
}

impl Checked {
    fn nothing(findings: Findings<'_>) -> Self {
        Self { strategy: None, frozen: None, places: TextPlaces::default(), diagnostics: findings.finish() }
    }
}

/// [`check`] for what came over a wire or from a file and may not even be text.
pub fn check_bytes(bytes: &[u8]) -> Checked {
    bytes_to_text(bytes, check)
}

fn bytes_to_text(bytes: &[u8], check: impl FnOnce(&str) -> Checked) -> Checked {
    match std::str::from_utf8(bytes) {
        Ok(text) => check(text),
        Err(error) => {
            let before = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
            let line = u32::try_from(before.matches('\n').count() + 1).unwrap_or(u32::MAX);
            let column = before.rsplit('\n').next().map_or(1, |last| last.chars().count() + 1);
            let mut findings = Findings::new(&before);
            let at = At { line, column: u32::try_from(column).unwrap_or(u32::MAX) };
            findings.error(at, "not-text", "this is not UTF-8 text").fix("save the file as UTF-8");
            Checked::nothing(findings)
        }
    }
}
