//! A state, a clock that is turned by hand, and verbs that read like the protocol.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    time::Duration,
};

pub use crate::releases::{AB, WAIT, numbered, strategy_text, submission, summary};

use domain::{
    children::{self, Poll, Profile},
    release::{
        advance,
        assignment::Assignment,
        change::Change,
        command::{Command, Form, LastSeen, NoReply, Offer, Refusal, Reply},
        lifecycle, members,
        operation::Effect,
        rollout,
        settings::Settings,
        stages,
        state::{Release, State},
        summary::{Histogram, Reported, Summary},
        waits::{self, LineInputs},
    },
};
use language::render::ROLLOUT_STAGE;
use model::{ChildId, ChildKey, ChildKind, Cordon, Now, ReleaseKey, StageStatus};

use super::reports::received;

/// When children called last, in serving time.
#[derive(Debug, Default)]
pub struct Calls(HashMap<ChildKey, u64>);

impl Calls {
    /// A call of any kind.
    pub fn note(&mut self, child: ChildKey, served_ms: u64) {
        self.0.insert(child, served_ms);
    }
}

impl LastSeen for Calls {
    fn last_call(&self, child: ChildKey) -> Option<u64> {
        self.0.get(&child).copied()
    }
}

#[derive(Debug)]
pub struct World {
    pub state: State,
    pub calls: Calls,
    pub now: Now,
    /// Where polls come from.
    pub address: Option<IpAddr>,
    /// The changes of the last command.
    pub changes: Vec<Change>,
    /// A second state that only applies what the first one's commands changed.
    replayed: State,
    /// Releases that left memory, as a store would bring them back.
    stored: BTreeMap<ReleaseKey, Release>,
    born: u32,
}

impl World {
    pub fn new() -> Self {
        Self {
            state: State::new(Settings::default()),
            calls: Calls::default(),
            address: Some(IpAddr::from([192, 0, 2, 1])),
            now: Now { wall_ms: 1_700_000_000_000, served_ms: 1_000 },
            changes: Vec::new(),
            replayed: State::new(Settings::default()),
            stored: BTreeMap::new(),
            born: 0,
        }
    }

    pub fn command(&mut self, command: &Command) -> Result<Reply, Refusal> {
        if let Command::Members(
            members::Command::Fetch { child, .. }
            | members::Command::Result { child, .. }
            | members::Command::EndStage { child, .. },
        ) = command
            && let Some(key) = self.state.children.key(child)
        {
            self.calls.0.insert(key, self.now.served_ms);
        }
        let mut answer = self.advance(command);
        if let Err(NoReply::Missing(key)) = answer {
            let release = Box::new(self.stored[&key].clone());
            answer = self.advance(&Command::Recalled { release, then: Box::new(command.clone()) });
        }
        let answer = answer.map_err(refusal);
        if let Ok(Reply::Polled { key, .. }) = &answer {
            self.calls.0.insert(*key, self.now.served_ms);
        }
        answer
    }

    /// What commands about a release in memory would come to, one after the other.
    pub fn would(&self, release: &str, commands: &[Command]) -> Result<Effect, Refusal> {
        let snapshot = self.state.snapshot();
        let release = snapshot.release_by_id(release).expect("it is in memory");
        snapshot.would(&self.calls, release, commands, self.now)
    }

    /// Carries out commands about a release in memory, up to the first that is refused. They come to what they would.
    pub fn carry_out(&mut self, release: &str, commands: &[Command]) -> Result<(), Refusal> {
        let (would, before) = (self.would(release, commands), self.release(release).tag());
        let done = commands.iter().try_for_each(|command| self.command(command).map(drop));
        let is_as_it_was = self.release(release).tag() == before;
        let effect = if is_as_it_was { Effect::Nothing } else { Effect::Something };
        assert_eq!(would, done.clone().map(|()| effect), "{commands:?}");
        done
    }

    fn advance(&mut self, command: &Command) -> Result<Reply, NoReply> {
        let (changes, answer) = advance(&mut self.state, &self.calls, command, self.now);
        self.replay(command, &changes);
        self.changes = changes;
        self.stored.extend(self.state.take_closed());
        answer
    }

    /// The changes alone lead to the same state.
    fn replay(&mut self, command: &Command, changes: &[Change]) {
        let again = &mut self.replayed;
        if let Command::Recalled { release, .. } = command
            && again.release(release.key).is_none()
            && again.known.contains_key(&release.id)
        {
            again.hold((**release).clone());
        }
        for change in changes {
            again.apply(change);
        }
        again.let_go_of_closed(command, changes);
        again.take_closed();
        assert_eq!(self.state.releases, again.releases, "after {command:?}");
        assert!(self.state.children.iter().eq(again.children.iter()), "after {command:?}");
        for (key, _) in self.state.children.iter() {
            for function in ["a", "b", "c"] {
                let (is, said) = (self.state.deployment(key, function), again.deployment(key, function));
                assert_eq!(is, said, "after {command:?}");
            }
        }
    }

    /// A release, wherever it is.
    pub fn release(&self, id: &str) -> &Release {
        let key = self.state.known[id].key;
        self.state.release(key).unwrap_or_else(|| &self.stored[&key])
    }

    /// What a child runs of a function, as far as is known: `new of 7`.
    pub fn runs(&self, child: &str, function: &str) -> String {
        let key = self.state.children.key(child).unwrap();
        let Some(found) = self.state.deployment(key, function) else {
            return "unheard of".to_owned();
        };
        let release = self.state.known.iter().find(|(_, known)| known.key == found.release).unwrap().0;
        format!("{} of {release}", found.variant.name())
    }

    /// Time passes, and the deadlines that fall due have their consequences.
    pub fn pass(&mut self, time: Duration) {
        let ms = time.as_millis() as u64;
        self.now.served_ms += ms;
        self.now.wall_ms += ms as i64;
        self.command(&Command::Tick).unwrap();
    }

    /// A poll with everything in it; answers the id and the offer that waits, `""` for none.
    pub fn poll_as(&mut self, id: &str, area: &str, profile: Option<Profile>) -> (String, String) {
        let agents = self.state.children.by_id(id).map_or(0, |(_, known)| known.agents);
        self.poll_with(id, area, profile, agents)
    }

    /// A poll of somebody who says another number of agents; answers as [`Self::poll_as`] does.
    pub fn poll_with(
        &mut self,
        id: &str,
        area: &str,
        profile: Option<Profile>,
        agents: u32,
    ) -> (String, String) {
        self.born += 1;
        let poll = Poll {
            child: (!id.is_empty()).then(|| ChildId::parse(id).unwrap()),
            fresh: ChildId::parse(&format!("child-{}", self.born)).unwrap(),
            area: Some(area.into()),
            address: self.address,
            agents,
            profile,
            tenant: None,
        };
        match self.command(&Command::Children(children::Command::Poll(poll))).unwrap() {
            Reply::Polled { child, offer, .. } => (child.as_str().to_owned(), offer.unwrap_or_default()),
            other => panic!("{other:?}"),
        }
    }

    /// A child that has polled twice, so that it is no newborn.
    pub fn child(&mut self, area: &str) -> String {
        let (id, _) = self.poll_as("", area, None);
        self.poll_as(&id, area, None);
        id
    }

    /// A machine comes back: it registers anew and polls until it is offered something other than `not`, for at most an
    /// hour. Answers its id and the offer, `""` for none.
    pub fn comes_back(&mut self, area: &str, not: &str) -> (String, String) {
        let new = self.child(area);
        let offer = self.polls_until_offered(&new, not);
        (new, offer)
    }

    /// Polls every 5 s until it is offered something other than `not`.
    pub fn polls_until_offered(&mut self, child: &str, not: &str) -> String {
        let mut offer = self.poll(child);
        for _ in 0..720 {
            if !offer.is_empty() && offer != not {
                return offer;
            }
            self.pass(Duration::from_secs(5));
            offer = self.poll(child);
        }
        String::new()
    }

    /// Takes in who came since a release began.
    pub fn extend(&mut self, release: &str) {
        self.command(&Command::Rollout(rollout::Command::Extend { release: release.to_owned() })).unwrap();
    }

    /// A manager with so many agents, that has polled twice.
    pub fn manager(&mut self, area: &str, agents: u32) -> String {
        let (id, _) = self.poll_with("", area, Some(manager()), agents);
        self.poll_as(&id, area, Some(manager()));
        id
    }

    /// Polls with the area that is known already; answers the offer.
    pub fn poll(&mut self, child: &str) -> String {
        let (_, record) = self.state.children.by_id(child).unwrap();
        let (area, profile) = (record.area.clone().unwrap(), record.profile.as_deref().cloned());
        self.poll_as(child, &area, profile).1
    }

    pub fn submit_text(&mut self, text: &str) -> Result<Reply, Refusal> {
        let checked = language::check(text);
        let strategy = checked.strategy.unwrap_or_else(|| panic!("{:#?}", checked.diagnostics));
        self.command(&submission(strategy, text))
    }

    pub fn submit(&mut self, text: &str) {
        self.submit_text(text).unwrap();
    }

    pub fn fetch(&mut self, child: &str, offer: &str) -> Result<Offer, Refusal> {
        let command =
            Command::Members(members::Command::Fetch { child: child.to_owned(), offer: offer.to_owned() });
        match self.command(&command)? {
            Reply::Offer(offer) => Ok(offer),
            other => panic!("{other:?}"),
        }
    }

    /// The child takes its roll-out and ends it.
    pub fn roll_out(&mut self, child: &str) {
        let (offer, form) = self.take(child);
        assert!(matches!(form, Form::Rollout { .. }), "{offer}: {form:?}");
        self.report(child, &offer, summary(ROLLOUT_STAGE, StageStatus::Completed)).unwrap();
    }

    /// The child takes a stage, ends it well, and rolls out.
    pub fn succeed(&mut self, child: &str, stage: &str) {
        let (offer, _) = self.take(child);
        self.report(child, &offer, summary(stage, StageStatus::Completed)).unwrap();
        self.roll_out(child);
    }

    /// Polls, fetches what is offered, and answers its id and form.
    pub fn take(&mut self, child: &str) -> (String, Form) {
        let offer = self.poll(child);
        assert!(!offer.is_empty(), "{child} is offered nothing");
        let form = self.fetch(child, &offer).unwrap().form;
        (offer, form)
    }

    pub fn report(&mut self, child: &str, offer: &str, summary: Summary) -> Result<(), Refusal> {
        self.reports(child, offer, vec![summary])
    }

    pub fn reports(&mut self, child: &str, offer: &str, summaries: Vec<Summary>) -> Result<(), Refusal> {
        let command = Command::Members(members::Command::Result {
            child: child.to_owned(),
            offer: offer.to_owned(),
            reports: summaries.into_iter().map(received).collect(),
        });
        self.command(&command).map(|_| ())
    }

    pub fn may_end(&mut self, child: &str, offer: &str, stage: &str) -> Result<bool, Refusal> {
        let (child, offer, stage) = (child.to_owned(), offer.to_owned(), stage.to_owned());
        match self.command(&Command::Members(members::Command::EndStage {
            child,
            offer,
            stage,
            failures: None,
        }))? {
            Reply::EndStage { end, .. } => Ok(end),
            other => panic!("{other:?}"),
        }
    }

    pub fn pause(&mut self, release: &str) {
        let (release, reason) = (release.to_owned(), "looking".to_owned());
        self.command(&Command::Lifecycle(lifecycle::Command::Pause { release, reason })).unwrap();
    }

    pub fn resume(&mut self, release: &str) {
        self.command(&Command::Lifecycle(lifecycle::Command::Resume { release: release.to_owned() }))
            .unwrap();
    }

    pub fn approve(&mut self, release: &str) -> Result<(), Refusal> {
        self.command(&Command::Rollout(rollout::Command::Approve { release: release.to_owned() })).map(|_| ())
    }

    pub fn abort(&mut self, release: &str) {
        let (release, note) = (release.to_owned(), Some("bad".to_owned()));
        self.command(&Command::Lifecycle(lifecycle::Command::Abort { release, note, by: None })).unwrap();
    }

    pub fn retry(&mut self, release: &str) -> Result<(), Refusal> {
        self.command(&Command::Lifecycle(lifecycle::Command::Retry { release: release.to_owned() }))
            .map(|_| ())
    }

    /// One in which nobody could take part is submitted once more.
    pub fn plan_again(&mut self, release: &str) {
        self.command(&Command::Lifecycle(lifecycle::Command::PlanAgain { release: release.to_owned() }))
            .unwrap();
    }

    pub fn end_now(&mut self, release: &str, stage: &str) -> Result<(), Refusal> {
        let (release, stage) = (release.to_owned(), stage.to_owned());
        self.command(&Command::Stages(stages::Command::End { release, stage })).map(|_| ())
    }

    pub fn forget(&mut self, child: &str) -> Result<Reply, Refusal> {
        self.command(&Command::Children(children::Command::Forget {
            child: child.to_owned(),
            even_if_it_owes: false,
        }))
    }

    pub fn cordon(&mut self, child: &str, cordon: Cordon) {
        self.command(&Command::Children(children::Command::Cordon { child: child.to_owned(), cordon }))
            .unwrap();
    }

    /// The child runs the stage of this name, of the offer that waits for it, until it is ready to end it.
    pub fn get_ready(&mut self, child: &str, stage: &str) -> String {
        let (offer, _) = self.take(child);
        self.report(child, &offer, summary(stage, StageStatus::SuccessWaiting)).unwrap();
        offer
    }

    /// What the release waits for, in one line.
    pub fn waits(&self, release: &str) -> String {
        waits::release(&self.state, self.release(release), self.now).unwrap_or_default()
    }

    /// What a child in it waits for.
    pub fn waits_child(&self, release: &str, child: &str) -> String {
        let look = LineInputs { state: &self.state, seen: &self.calls, now: self.now, since: 0 };
        let key = self.state.children.key(child).unwrap();
        let release = self.release(release);
        look.child(release, key, &release.assignments[&key])
    }

    /// Where the child stands in a release.
    pub fn assignment(&self, release: &str, child: &str) -> &Assignment {
        let key = self.state.children.key(child).unwrap();
        &self.release(release).assignments[&key]
    }

    /// The state of a release in memory, or `"over"` once it has left.
    pub fn state_of(&self, release: &str) -> &'static str {
        self.state.release_by_id(release).map_or("over", |release| release.state.name())
    }

    /// How the last command ended releases.
    pub fn ended(&self) -> Vec<String> {
        self.changes
            .iter()
            .filter_map(|change| match change {
                Change::Lifecycle(lifecycle::Change::Ended { end, unconfirmed, .. }) => {
                    Some(format!("{end:?}, {unconfirmed} unconfirmed"))
                }
                _ => None,
            })
            .collect()
    }
}

pub fn manager() -> Profile {
    Profile { kind: ChildKind::Rm, ..Profile::default() }
}

pub fn histogram(bounds_ms: &[f64], counts: &[u64]) -> Reported {
    Reported::Bounds(Histogram { bounds_ms: bounds_ms.to_vec(), counts: counts.to_vec() })
}

/// One stage, rolled out on success.
pub fn canary(id: &str, function: &str) -> String {
    strategy_text(id, "", &[function], &[["Canary", WAIT, function, "rollout", "rollback"]])
}

/// Two stages in a row.
pub fn two_stage(id: &str, function: &str) -> String {
    let stages =
        [["First", WAIT, function, "Second", "rollback"], ["Second", AB, function, "rollout", "rollback"]];
    strategy_text(id, "", &[function], &stages)
}

/// A graph that branches: the failure of the first stage leads to another one.
pub fn forked(id: &str, function: &str) -> String {
    let stages =
        [["Bold", WAIT, function, "rollout", "Careful"], ["Careful", WAIT, function, "rollout", "rollback"]];
    strategy_text(id, "", &[function], &stages)
}

/// The part of a strategy that names a service with these variations.
pub fn checkout(variations: &[&str]) -> String {
    let variation = |(number, name): (usize, &&str)| {
        format!("      - {{name: {name}, targets: [\"127.0.0.1:{}\"]}}\n", number + 1)
    };
    let variations: String = variations.iter().enumerate().map(variation).collect();
    format!("services:\n  - name: checkout\n    ports: [{{port: 8080}}]\n    variations:\n{variations}")
}

/// A stage of such a service, with these shares in percent.
pub fn traffic_stage(name: &str, shares: &str, next: &str) -> String {
    format!(
        "  - name: {name}\n    type: Traffic\n    shares: {{{shares}}}\n    metrics_conditions: [{{name: errorRate, threshold: \
         \"<0.02\"}}]\n    end_action: {{onSuccess: {next}, onFailure: rollback}}\n"
    )
}

pub fn two_functions(id: &str, first: &str, second: &str) -> String {
    let stages = [["One", WAIT, first, "Two", "rollback"], ["Two", WAIT, second, "rollout", "rollback"]];
    strategy_text(id, "", &[first, second], &stages)
}

/// Why a command is refused, once what was missing is there.
fn refusal(why: NoReply) -> Refusal {
    match why {
        NoReply::Refused(refusal) => refusal,
        NoReply::Missing(release) => panic!("{release:?} was recalled, and is missing still"),
    }
}
