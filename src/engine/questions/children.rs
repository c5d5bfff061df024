//! The children of a manager below: the kind `children`. Where the path goes on, the manager asks the next one.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use super::{
    kind::{LOOK_PATIENCE, PATIENCE, QuestionKind, ToAnswer, ask},
    path::next_hop,
};
use crate::{Engine, EngineError, blocking::giving_way, view::Children};
use domain::{
    children::Child as Record,
    plan::Middle,
    release::{command::LastSeen, state::Snapshot, waits::LineInputs},
};
use model::{ChildKey, Cordon, Now, TENANT_LABEL, TenantName};
use protocol::{
    api::{Child, Page},
    question::MAX_ANSWER_ENTRIES,
    time::{of_served, rfc3339},
};

/// The kind `children`.
#[derive(Debug)]
pub struct ChildrenOf;

/// Which children are wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Filter {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<(String, String)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cordon: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silent_ms: Option<u64>,
    /// The id of a child, [`SHORTEST_ID`] bytes of its beginning or more, or its name. A manager below may not know this, and list all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub named: Option<String>,
}

/// So much of an id names those that begin so, in bytes.
pub const SHORTEST_ID: usize = 4;

impl Filter {
    fn wants(&self, seen: &Children, now: Now, key: ChildKey, record: &Record) -> bool {
        let silent = || seen.last_call(key).map_or(u64::MAX, |at| now.served_ms.saturating_sub(at));
        // An id whose place another has taken is nobody; asked for by name it is shown.
        record.replaced.is_none()
            && self.label.as_ref().is_none_or(|(k, v)| label(record, k) == Some(v))
            && self.kind.as_ref().is_none_or(|kind| record.kind().name() == kind)
            && self.cordon.as_ref().is_none_or(|cordon| cordon_name(record.cordon) == cordon)
            && self.silent_ms.is_none_or(|ms| silent() >= ms)
            && self.named.as_ref().is_none_or(|named| is_named(record, named))
    }
}

/// A page of them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ChildrenWanted {
    /// The managers that lead there from the one that is asked.
    #[serde(default)]
    pub path: Vec<String>,
    #[serde(default)]
    pub filter: Filter,
    #[serde(default)]
    pub after: Option<u32>,
    /// 1 to [`MAX_ANSWER_ENTRIES`].
    pub limit: u32,
}

impl QuestionKind for ChildrenOf {
    const NAME: &'static str = "children";
    type Body = ChildrenWanted;
    type Answer = Page<Child>;

    async fn answer(asked: ToAnswer, wanted: ChildrenWanted) -> Result<Page<Child>, String> {
        if wanted.path.is_empty() {
            let limit = (wanted.limit as usize).clamp(1, MAX_ANSWER_ENTRIES);
            let after = wanted.after.map(ChildKey);
            let all = |_: &Record, child: Child| Some(child);
            let page = page(&asked.engine, wanted.filter, None, after, limit, all).await;
            return page.map_err(|error| error.to_string());
        }
        below_within(&asked.engine, wanted, asked.left_below()).await
    }
}

/// A page of the children below a manager below this one.
pub async fn ask_below(engine: &Engine, wanted: ChildrenWanted) -> Result<Page<Child>, String> {
    below_within(engine, wanted, PATIENCE).await
}

/// A page of the children below a manager below this one, which is waited for so long.
async fn below_within(
    engine: &Engine,
    wanted: ChildrenWanted,
    time: Duration,
) -> Result<Page<Child>, String> {
    let (key, path) = next_hop(engine, &wanted.path)?;
    let said = ask::<ChildrenOf>(engine, key, &ChildrenWanted { path, ..wanted }, time).await;
    said.map_err(|why| why.to_string())
}

/// A page of this manager's own, oldest first: of this tenant's, where one is named. `admit` may leave a child out, or say more of it.
pub async fn page(
    engine: &Engine,
    filter: Filter,
    tenant: Option<TenantName>,
    after: Option<ChildKey>,
    limit: usize,
    admit: impl Fn(&Record, Child) -> Option<Child> + Send + 'static,
) -> Result<Page<Child>, EngineError> {
    let (seen, now) = (Arc::clone(&engine.view().children), engine.clock().now());
    let take = move |state: &Snapshot| {
        let look = LineInputs { state, seen: &*seen, now, since: seen.listening_since() };
        // Whoever asks for the label of a tenant asks for that tenant's.
        let by_label = || filter.label.as_ref().filter(|(key, _)| key == TENANT_LABEL);
        let tenant = tenant.as_ref().map(TenantName::as_str);
        match tenant.or_else(|| by_label().map(|(_, name)| name.as_str())) {
            Some(tenant) => take(&look, state.children.after_of(tenant, after), limit, &filter, &admit),
            None => take(&look, state.children.after(after), limit, &filter, &admit),
        }
    };
    engine.read_apart(LOOK_PATIENCE, take).await
}

fn take<'c>(
    look: &LineInputs<'_, Children>,
    children: impl Iterator<Item = (ChildKey, &'c Record)>,
    limit: usize,
    filter: &Filter,
    admit: &impl Fn(&Record, Child) -> Option<Child>,
) -> Page<Child> {
    let mut items = Vec::new();
    let mut rest = giving_way(children).peekable();
    while let Some((key, record)) = rest.next() {
        if filter.wants(look.seen, look.now, key, record) {
            items.extend(admit(record, child(look, key, record)));
        }
        if items.len() >= limit {
            return Page { items, next: rest.peek().map(|_| key.0.to_string()) };
        }
    }
    Page { items, next: None }
}

/// A child as it is shown, without its area.
pub fn child<S: LastSeen + ?Sized>(look: &LineInputs<'_, S>, key: ChildKey, record: &Record) -> Child {
    let capabilities = record.profile.as_ref().map(|profile| &profile.capabilities);
    let releases = record.open.iter().filter_map(|release| look.state.release(*release));
    Child {
        id: record.id.to_string(),
        name: record.profile.as_ref().and_then(|profile| profile.name.clone()),
        place: place(look.state, key),
        kind: record.kind().name().to_owned(),
        agents: record.agents,
        cordon: cordon_name(record.cordon).to_owned(),
        runtimes: capabilities.and_then(|capabilities| capabilities.runtimes.clone()),
        labels: labels(record),
        born: rfc3339(record.born.wall_ms),
        last_call: look.last_call(key).map(|at| of_served(at, look.now)),
        releases: releases.map(|release| release.id.to_string()).collect(),
        doing: look.doing(key),
        outside: false,
        public_url: None,
        area: None,
    }
}

/// The middle of a child's area in words, to some metres: `52.5200N 13.4050E`. It stays when the child comes back under
/// another id.
pub fn place(state: &Snapshot, key: ChildKey) -> Option<String> {
    state.children.areas().middle(key).map(place_at)
}

/// The same of a middle that is known.
pub fn place_at(Middle { north, east, .. }: Middle) -> String {
    let (ns, ew) = (if north < 0.0 { 'S' } else { 'N' }, if east < 0.0 { 'W' } else { 'E' });
    format!("{:.4}{ns} {:.4}{ew}", north.abs(), east.abs())
}

/// Its labels: those of operators over those that it reports.
fn labels(record: &Record) -> BTreeMap<String, String> {
    let reported = record.profile.as_ref().map(|profile| profile.capabilities.labels.clone());
    let mut labels = reported.unwrap_or_default();
    // Whose it is it doesn't say itself.
    labels.remove(TENANT_LABEL);
    labels.extend(record.labels.iter().flat_map(|own| own.iter()).map(|(k, v)| (k.clone(), v.clone())));
    labels
}

fn is_named(record: &Record, named: &str) -> bool {
    let id = record.id.as_str();
    let name = record.profile.as_ref().and_then(|profile| profile.name.as_deref());
    id == named || name == Some(named) || (named.len() >= SHORTEST_ID && id.starts_with(named))
}

/// The value of one of its labels.
fn label<'a>(record: &'a Record, key: &str) -> Option<&'a str> {
    let own = record.labels.as_ref().and_then(|labels| labels.get(key));
    let reported = || record.profile.as_ref()?.capabilities.labels.get(key);
    own.or_else(|| reported().filter(|_| key != TENANT_LABEL)).map(String::as_str)
}

const fn cordon_name(cordon: Cordon) -> &'static str {
    match cordon {
        Cordon::Open => "open",
        Cordon::Cordoned => "cordoned",
        Cordon::Drained => "drained",
    }
}
