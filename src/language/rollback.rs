//! The strategy that puts back what ran before a release: written out of that release's own text, as anybody could have written it.
//!
//! Rules, and what each keeps from happening:
//!
//! - **Before a release its base versions and stable variations ran**, for a release begins with what serves. So the two versions of each
//!   function change places, and what serves since a release of a service is the stable variation, with the old one behind it. Counter-example:
//!   the strategy of the release *before* that one. Agents that took no part in that never ran what it names.
//! - **At once means without calls.** Each function and service has one stage, in which what comes back gets no calls: it has to start, and
//!   that is all that is asked of it. Counter-example: a stage with all calls. It waits for one, and at night an agent without any would
//!   end untested, with the bad version.
//! - **Nobody waits for others.** All have their turn at once, and limits stop nothing. Counter-example: the limits of the release. One agent
//!   whose disk is full would bring the bad version back everywhere.
//! - **Agents that report once are waited for ten minutes.** Such an agent ends no stage before it has had a call. Who has had none in that
//!   time gets the old version with the others.
//! - **What is said of who takes part stays**: target, labels, deadlines. What is said of other releases (`on_conflict`), of when
//!   (`start`) and of managers above (`forward_up`) doesn't. Counter-example: a start that was in the future once.
//! - **In stages means in those of the release**, with its conditions, waves, soaks and approvals, and shares that change places as well.
//!   Analyses are left out: they ask whether the new version is worse, with arguments that people wrote for one of the two. Counter-example: a
//!   query with `canaryArgs: {pod: v2}`. With `v2` as the base version it would judge the bad version, and keep it for being no worse
//!   than itself.

use std::fmt::Write as _;

use super::{
    analysis::templates,
    annotations,
    findings::Findings,
    node::{Node, NodeKind},
    raw,
    render::quoted,
    rollout_templates::{self, RolloutTemplates},
};

/// The annotation that says which release a strategy rolls back, by the id that whoever submitted that release calls it.
pub const ROLLBACK_OF: &str = "rollback-of";

/// What stages are called in which something is put back; from the second on they have their number, too.
const STAGE: &str = "put back";

/// For so long agents that report once may go without a call.
const NO_CALLS: &str = "after 10m";

/// What of a strategy stays where all is put back at once.
const KEPT: [&str; 8] = [
    "type",
    "functions",
    "services",
    "rollback",
    "target",
    "offer_deadline",
    "setup_grace",
    "stage_deadline",
];

/// What of a strategy doesn't stay in any case.
const LEFT_OUT: [&str; 8] = [
    "id",
    "name",
    annotations::KEY,
    "on_conflict",
    "forward_up",
    "from_above",
    templates::KEY,
    templates::NAMESPACE,
];

/// A release that is to put back what ran before another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollback {
    pub id: String,
    /// The release that is rolled back.
    pub of: String,
    /// Of each of its services the place of the variation that serves since then.
    pub winners: Vec<usize>,
    /// In the stages of that release; else at once.
    pub is_staged: bool,
}

impl Rollback {
    /// Its strategy, out of the text of the release that is rolled back. `None`: that is no strategy, or not one with these services.
    #[must_use]
    pub fn strategy(&self, text: &str) -> Option<String> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut findings = Findings::of_stored(text);
        let mut root = raw::read(text, &mut findings)?;
        rollout_templates::expand(&mut root, &RolloutTemplates::default(), &mut findings);
        let functions = exchange_versions(&mut root)?;
        let services = self.exchange_variations(&mut root)?;
        let mut more = Vec::new();
        if self.is_staged {
            root.remove(&LEFT_OUT);
            stay_in_stages(&mut root, &services);
        } else {
            let NodeKind::Mapping(pairs) = &mut root.kind else { return None };
            pairs.retain(|(key, _)| key.text().is_some_and(|key| KEPT.contains(&key)));
            more.push(("stages", Node::sequence(stages(&functions, &services))));
            more.push(("rollout", led(services.is_empty())));
        }
        let head = [
            ("id", Node::scalar(&self.id)),
            ("name", Node::scalar(format!("rollback of {}", self.of))),
            (annotations::KEY, Node::mapping([(ROLLBACK_OF, Node::scalar(&self.of))])),
        ];
        let comment = format!("# Puts back what ran before release {}.\n", self.of);
        let parts = [Node::mapping(head), root, Node::mapping(more)];
        let parts = parts.iter().filter(|part| has_lines(part));
        Some(parts.fold(comment, |text, part| text + &lines(part, 0)))
    }

    /// What serves since the release is the stable variation, and the one that was comes behind it. At once, there is no other, and no header
    /// that asks for one.
    fn exchange_variations(&self, root: &mut Node) -> Option<Vec<Exchanged>> {
        let services = root.child("services").map(Node::items).unwrap_or_default();
        if services.len() != self.winners.len() {
            return None;
        }
        let mut all = Vec::new();
        for (service, winner) in services.iter_mut().zip(&self.winners) {
            let name = service.child("name")?.text()?.to_owned();
            let NodeKind::Sequence(variations) = &mut service.child("variations")?.kind else { return None };
            if *winner == 0 || *winner >= variations.len() {
                return None;
            }
            variations.swap(0, *winner);
            if !self.is_staged {
                variations.swap(1, *winner);
                variations.truncate(2);
            }
            let back = if self.is_staged { *winner } else { 1 };
            let mut name_of = |at: usize| Some(variations.get_mut(at)?.child("name")?.text()?.to_owned());
            all.push(Exchanged { name, serving: name_of(0)?, back: name_of(back)? });
            // What serves has to be what is rolled back, whatever that release was content with.
            let left_out = ["base", "at_rollback", "header"];
            service.remove(if self.is_staged { &left_out[..1] } else { &left_out });
        }
        Some(all)
    }
}

/// A service, and the names of two of its variations.
struct Exchanged {
    name: String,
    /// The stable one from now on.
    serving: String,
    /// The one that comes back.
    back: String,
}

/// The two versions of each function change places. Gives their names.
fn exchange_versions(root: &mut Node) -> Option<Vec<String>> {
    let mut names = Vec::new();
    for function in root.child("functions").map(Node::items).unwrap_or_default() {
        let base = function.child("base_version")?.clone();
        let new = std::mem::replace(function.child("new_version")?, base);
        *function.child("base_version")? = new;
        names.push(function.child("name")?.text()?.to_owned());
    }
    Some(names)
}

/// The stages in which all is put back at once: one behind the other, those of functions first.
fn stages(functions: &[String], services: &[Exchanged]) -> Vec<Node> {
    let name = |at: usize| if at == 0 { STAGE.to_owned() } else { format!("{STAGE} {}", at + 1) };
    let count = functions.len() + services.len();
    let stage = |at: usize| {
        let kind = if at < functions.len() { "A/B" } else { "Traffic" };
        let mut pairs = vec![("name", Node::scalar(name(at))), ("type", Node::scalar(kind))];
        if let Some(function) = functions.get(at) {
            let version = |name: &str, share: &str| {
                Node::mapping([("name", Node::scalar(name)), ("trafficPercentage", Node::scalar(share))])
            };
            let versions = [version("base_version", "100"), version("new_version", "0")];
            pairs.extend([("func_name", Node::scalar(function)), ("variants", Node::sequence(versions))]);
        } else if let Some(service) = services.get(at - functions.len()) {
            let shares = Node::mapping([(service.serving.as_str(), Node::scalar("100"))]);
            pairs.extend([("service", Node::scalar(&service.name)), ("shares", shares)]);
        }
        let next = if at + 1 < count { name(at + 1) } else { "rollout".to_owned() };
        pairs.push(("end_action", Node::mapping([("onSuccess", Node::scalar(next))])));
        Node::mapping(pairs)
    };
    (0..count).map(stage).collect()
}

/// How that is led. `is_of_functions`: of these alone. Of services nothing waits for calls.
fn led(is_of_functions: bool) -> Node {
    let pairs =
        [("order", "parallel"), ("on_failure", "continue"), ("no_calls", NO_CALLS), ("untested", "rollout")];
    let pairs = pairs.into_iter().take(if is_of_functions { 4 } else { 2 });
    Node::mapping(pairs.map(|(key, value)| (key, Node::scalar(value))))
}

/// The stages of the release, in which the two versions have changed places.
fn stay_in_stages(root: &mut Node, services: &[Exchanged]) {
    for stage in root.child("stages").map(Node::items).unwrap_or_default() {
        stage.remove(&["analysis"]);
        let named = stage.child("service").and_then(|service| service.text().map(str::to_owned));
        let service = match named {
            Some(named) => services.iter().find(|service| service.name == named),
            None => services.first(),
        };
        let (Some(Exchanged { serving, back, .. }), Some(shares)) = (service, stage.child("shares")) else {
            continue;
        };
        let NodeKind::Mapping(pairs) = &mut shares.kind else { continue };
        for (variation, _) in pairs {
            if variation.text() == Some(serving.as_str()) {
                *variation = Node::scalar(back);
            } else if variation.text() == Some(back.as_str()) {
                *variation = Node::scalar(serving);
            }
        }
    }
    let Some(rollout) = root.child("rollout") else { return };
    rollout.remove(&["start", "analysis"]);
    if !has_lines(rollout) {
        root.remove(&["rollout"]);
    }
}

/// YAML that reads as the same tree, without aliases and comments: lists of scalars on one line, all else in lines of its own, each so
/// far from the margin. Scalars are quoted, so that none means nothing.
fn lines(node: &Node, indent: usize) -> String {
    let mut text = String::new();
    match &node.kind {
        NodeKind::Mapping(pairs) if has_lines(node) => {
            for (key, value) in pairs {
                let _ = write!(text, "{:indent$}{}:", "", key_of(key));
                let _ = if has_lines(value) {
                    write!(text, "\n{}", lines(value, indent + 2))
                } else {
                    writeln!(text, " {}", inline(value))
                };
            }
        }
        NodeKind::Sequence(items) if has_lines(node) => {
            for item in items {
                // The first of its lines begins behind the dash.
                let _ = write!(text, "{:indent$}- {}", "", lines(item, indent + 2).trim_start_matches(' '));
            }
        }
        NodeKind::Null | NodeKind::Scalar(_) | NodeKind::Sequence(_) | NodeKind::Mapping(_) => {
            let _ = writeln!(text, "{:indent$}{}", "", inline(node));
        }
    }
    text
}

fn has_lines(node: &Node) -> bool {
    match &node.kind {
        NodeKind::Null | NodeKind::Scalar(_) => false,
        NodeKind::Sequence(items) => items.iter().any(|item| item.text().is_none()),
        NodeKind::Mapping(pairs) => !pairs.is_empty(),
    }
}

fn inline(node: &Node) -> String {
    match &node.kind {
        NodeKind::Null => "null".to_owned(),
        NodeKind::Scalar(text) => quoted(text),
        NodeKind::Sequence(items) => format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", ")),
        NodeKind::Mapping(pairs) => {
            let pairs = pairs.iter().map(|(key, value)| format!("{}: {}", key_of(key), inline(value)));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
        }
    }
}

/// Keys of the language stand as they are.
fn key_of(node: &Node) -> String {
    let is_plain = |text: &&str| {
        let is_word = text.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_');
        is_word && !text.is_empty() && !text.eq_ignore_ascii_case("null")
    };
    node.text().filter(is_plain).map_or_else(|| inline(node), str::to_owned)
}
