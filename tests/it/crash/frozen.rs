//! What the kills once broke, each as the shortest story that shows it. Pure: no process, no store.

use std::sync::Arc;

use domain::{
    children::{self, Poll, Variant},
    release::{
        advance,
        command::{Command, LastSeen, NoReply, Reply},
        lifecycle::{self, Submission},
        members,
        settings::Settings,
        state::State,
    },
};
use engine::json_columns;
use model::{ChildId, ChildKey, Now, ReleaseId, StageStatus};

use super::operator::sample;
use crate::releases::summary;

const CHILD: &str = "c1";

/// Nobody was ever heard of.
struct Silence;

impl LastSeen for Silence {
    fn last_call(&self, _: ChildKey) -> Option<u64> {
        None
    }
}

struct Story {
    state: State,
    served_ms: u64,
}

impl Story {
    fn new() -> Self {
        let mut story = Self { state: State::new(Settings::default()), served_ms: 0 };
        story.poll();
        story.poll();
        story
    }

    fn ask(&mut self, command: &Command) -> Result<Reply, NoReply> {
        self.served_ms += 100;
        let now = Now { wall_ms: self.served_ms.cast_signed(), served_ms: self.served_ms };
        advance(&mut self.state, &Silence, command, now).1
    }

    fn poll(&mut self) -> String {
        let id = ChildId::parse(CHILD).unwrap();
        let poll = Poll {
            child: Some(id.clone()),
            fresh: id,
            area: None,
            address: None,
            agents: 0,
            profile: None,
            tenant: None,
        };
        match self.ask(&Command::Children(children::Command::Poll(poll))).unwrap() {
            Reply::Polled { offer, .. } => offer.unwrap_or_default(),
            other => panic!("{other:?}"),
        }
    }

    fn submit(&mut self, name: &str, id: &str) {
        let text = sample(name, id);
        let strategy = language::check(&text).strategy.unwrap();
        let id = ReleaseId::parse(id).unwrap();
        let (strategy, text) = (Arc::new(strategy), text.as_str().into());
        let (digest, archive, parent, adopts) = ([1; 32], [2; 32], None, None);
        let submission =
            Box::new(Submission { id, strategy, text, digest, archive, parent, deferred: false, adopts });
        self.ask(&Command::Lifecycle(lifecycle::Command::Submit { submission, dry_run: false })).unwrap();
    }

    fn fetch(&mut self, offer: &str) {
        assert_eq!(self.poll(), offer);
        self.ask(&Command::Members(members::Command::Fetch { child: CHILD.into(), offer: offer.into() }))
            .unwrap();
    }

    fn report(&mut self, offer: &str, stage: &str, status: StageStatus) -> Result<Reply, NoReply> {
        self.ask(&Command::Members(members::Command::Result {
            child: CHILD.into(),
            offer: offer.into(),
            reports: vec![json_columns::received(summary(stage, status)).unwrap()],
        }))
    }

    /// Fetches an offer and ends its only stage.
    fn run(&mut self, offer: &str, stage: &str, status: StageStatus) {
        self.fetch(offer);
        assert_eq!(self.report(offer, stage, status), Ok(Reply::Stored));
    }

    fn runs(&self, function: &str) -> Option<Variant> {
        self.state.deployment(ChildKey(0), function).map(|deployment| deployment.variant)
    }
}

const ROLLOUT: &str = "choirmaster rollout";

#[test]
fn a_repeated_result_of_the_first_roll_out_is_one_while_the_second_runs() {
    let mut story = Story::new();
    story.submit("two-functions", "r");
    story.run("r", "Sieve", StageStatus::Completed);
    story.run("r.2", "Greeting", StageStatus::Completed);
    story.run("r.rollout", ROLLOUT, StageStatus::Completed);
    assert_eq!(story.report("r.rollout", ROLLOUT, StageStatus::Completed), Ok(Reply::Stored));
    story.fetch("r.rollout.2");
    assert_eq!(story.report("r.rollout", ROLLOUT, StageStatus::Completed), Ok(Reply::Stored));
    assert_eq!(story.report("r.rollout.2", ROLLOUT, StageStatus::Completed), Ok(Reply::Stored));
}

#[test]
fn a_test_that_leaves_the_base_version_is_seen_in_what_runs_where() {
    let mut story = Story::new();
    story.submit("two-functions", "r");
    story.run("r", "Sieve", StageStatus::Completed);
    story.run("r.2", "Greeting", StageStatus::Completed);
    story.run("r.rollout", ROLLOUT, StageStatus::Completed);
    story.run("r.rollout.2", ROLLOUT, StageStatus::Completed);
    assert_eq!((story.runs("sieve"), story.runs("greet")), (Some(Variant::New), Some(Variant::New)));
    story.submit("two-functions", "s");
    story.run("s", "Sieve", StageStatus::Completed);
    assert_eq!((story.runs("sieve"), story.runs("greet")), (Some(Variant::Base), Some(Variant::New)));
    story.run("s.2", "Greeting", StageStatus::Completed);
    story.run("s.rollout", ROLLOUT, StageStatus::Completed);
    story.run("s.rollout.2", ROLLOUT, StageStatus::Failure);
    assert_eq!((story.runs("sieve"), story.runs("greet")), (Some(Variant::New), Some(Variant::Base)));
}

#[test]
fn release_does_not_wait_forever_for_absent_child_rollback() {
    let mut story = Story::new();
    story.submit("canary", "r");
    story.fetch("r");
    story.submit("ab", "s");
    let open = |story: &Story, key| {
        let release = story.state.release(model::ReleaseKey(key));
        release.is_some_and(|release| !release.state.is_over())
    };
    assert!(open(&story, 1));
    for _ in 0..6 {
        story.served_ms += 16 * 60 * 1000;
        story.ask(&Command::Tick).unwrap();
    }
    assert!(!open(&story, 0), "the first waits");
    assert!(!open(&story, 1), "the second waits");
    assert_eq!(story.poll(), "r.undo");
}

#[test]
fn an_undo_that_follows_a_missed_deadline_has_a_deadline_itself() {
    let mut story = Story::new();
    story.submit("canary", "r");
    story.fetch("r");
    let key = model::ReleaseKey(0);
    for _ in 0..3 {
        story.served_ms += 16 * 60 * 1000;
        story.ask(&Command::Tick).unwrap();
    }
    let over = story.state.release(key).is_none_or(|release| release.state.is_over());
    assert!(over, "{:?}", story.state.release(key).map(|release| (&release.state, release.next_deadline)));
}
