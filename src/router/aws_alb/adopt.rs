//! What the load balancer serves today by a rule of its operator's.

use traffic::desired::{Protocol, Target, is_host, is_path};

use super::{
    AwsAlb, NAME,
    api::{Listener, Rule, Tags},
    rule::{Condition, Marks},
};
use crate::{
    RouterError,
    adopt::{AdoptError, Adopted},
};

/// The tag by which people call things of AWS.
const NAME_TAG: &str = "Name";

/// A rule with what it is called by.
struct Named {
    listener: Listener,
    rule: Rule,
    tags: Tags,
}

impl Named {
    /// `PORT/PRIORITY`.
    fn place(&self) -> String {
        format!("{}/{}", self.listener.port, self.rule.priority)
    }

    fn is_called(&self, name: &str) -> bool {
        self.rule.arn == name
            || self.place() == name
            || self.tags.get(NAME_TAG).is_some_and(|tag| tag == name)
    }
}

impl AwsAlb {
    pub(super) async fn adopt_now(&self, name: &str) -> Result<String, RouterError> {
        let unable = |error: AdoptError| RouterError::Unable { router: NAME, what: error.to_string() };
        let mut all = self.named_rules().await?;
        let is_led = |one: &Named| {
            Marks::read(&one.tags).is_some_and(|marks| marks.service == name || one.is_called(name))
        };
        if all.iter().any(is_led) {
            return Err(unable(AdoptError::Led { name: name.to_owned() }));
        }
        let Some(at) = all.iter().position(|one| one.is_called(name)) else {
            let known = all.iter().filter(|one| Marks::read(&one.tags).is_none());
            let known = known.map(|one| one.tags.get(NAME_TAG).cloned().unwrap_or_else(|| one.place()));
            return Err(unable(AdoptError::Unknown { name: name.to_owned(), known: known.collect() }));
        };
        let found = all.swap_remove(at);
        let adopted = self.adopted(name, &found).await?;
        if adopted.targets.is_empty() {
            return Err(unable(AdoptError::NoTargets { name: name.to_owned() }));
        }
        let router = ["# nothing: its rules come to the listener".to_owned()];
        Ok(adopted.lines(&router, &format!("the rule {}", found.rule.arn)))
    }

    async fn named_rules(&self) -> Result<Vec<Named>, RouterError> {
        let mut all = Vec::new();
        for listener in self.listeners().await?.1 {
            let rules = self.api().rules(&listener).await?;
            let arns: Vec<String> = rules.iter().map(|rule| rule.arn.clone()).collect();
            let mut tags = self.api().tags(&arns).await?;
            all.extend(rules.into_iter().map(|rule| {
                let tags = tags.remove(&rule.arn).unwrap_or_default();
                Named { listener: listener.clone(), rule, tags }
            }));
        }
        Ok(all)
    }

    /// The targets are those of the group with the most weight.
    async fn adopted(&self, name: &str, found: &Named) -> Result<Adopted, RouterError> {
        let text = &found.rule.text;
        let (mut hosts, mut path, mut beside) = (Vec::new(), None, Vec::new());
        for condition in &text.conditions {
            match condition {
                Condition::Host(all) if all.iter().all(|host| is_host(&host.to_ascii_lowercase())) => {
                    hosts = all.iter().map(|host| host.to_ascii_lowercase()).collect();
                    hosts.sort_unstable();
                    hosts.dedup();
                }
                Condition::Path(all) if path_of(all).is_some() => path = path_of(all),
                other => beside.extend(said(other)),
            }
        }
        beside.extend(text.others.iter().cloned());
        if let Some(seconds) = text.forward.sticky {
            beside.push(format!("callers stay with a target group for {seconds} s: `sticky` does that"));
        }
        let groups = self.api().groups().await?;
        let mut targets = Vec::new();
        let heaviest = text.forward.groups.iter().max_by_key(|(_, weight)| **weight);
        for (arn, weight) in &text.forward.groups {
            let group = groups.iter().find(|group| group.arn == *arn);
            let called = group.map_or(arn, |group| &group.name);
            if heaviest.is_some_and(|(of, _)| of != arn) {
                beside.push(format!("the target group {called} with weight {weight}"));
                continue;
            }
            beside.extend(group.iter().flat_map(|group| &group.beside).map(|one| format!("{called}: {one}")));
            for (id, port) in self.api().targets(arn).await?.into_keys() {
                match id.parse() {
                    Ok(host) => targets.push(Target { host, port }),
                    Err(()) => beside.push(format!("{called}: its target {id}, which is no address")),
                }
            }
        }
        let protocol = Protocol::ALL.into_iter().find(|one| one.name() == found.listener.protocol);
        Ok(Adopted {
            name: name.to_owned(),
            listens: [(None, found.listener.port)].into(),
            hosts,
            path,
            protocol: protocol.unwrap_or(Protocol::Http),
            targets,
            beside,
        })
    }
}

/// What these are in whole segments.
fn path_of(patterns: &[String]) -> Option<String> {
    let [path, below] = patterns else { return None };
    (is_path(path) && *below == format!("{path}/*")).then(|| path.clone())
}

/// A condition that a service hasn't.
fn said(condition: &Condition) -> Option<String> {
    match condition {
        Condition::Host(hosts) => Some(format!("only the hosts {}", hosts.join(", "))),
        Condition::Path(paths) if paths.iter().any(|path| path == "/*" || path == "*") => None,
        Condition::Path(paths) => Some(format!("only the paths {}", paths.join(", "))),
        Condition::Header(name, values) => Some(format!("only calls with {name}: {}", values.join(", "))),
        Condition::Other(what) => Some(format!("the condition {what}")),
    }
}
