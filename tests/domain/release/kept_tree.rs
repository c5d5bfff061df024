//! Stages that fail and keep their shares below managers: the root hears of it, and what is decided there comes down through all of them.

use domain::release::{
    command::{Command, Reply},
    lifecycle, members,
    parent::{self, offered},
    pause::PausedBy,
    summary::Summary,
};
use language::{check_from_parent, render_full};
use model::StageStatus;

use super::{
    in_place::{kept, own_agent},
    world::{AB, WAIT, World, strategy_text, summary},
};

use StageStatus::{Failure, InProgress, SuccessWaiting};

const AREA: &str =
    r#"{"type":"Polygon","coordinates":[[[13.3,52.4],[13.4,52.4],[13.4,52.5],[13.3,52.5],[13.3,52.4]]]}"#;

/// Managers below each other, from the root down, with agents below the last.
struct Tree {
    levels: Vec<World>,
    /// What each of them but the root is called at the one above.
    ids: Vec<String>,
    agents: Vec<String>,
}

impl Tree {
    /// The release has come down to the agents, who try the new version in the first stage.
    fn new(depth: usize, agents: u32) -> Self {
        let levels: Vec<World> = (0..depth).map(|_| World::new()).collect();
        let mut tree = Self { levels, ids: Vec::new(), agents: Vec::new() };
        tree.ids = tree.levels[..depth - 1].iter_mut().map(|world| world.manager(AREA, agents)).collect();
        let last = tree.levels.last_mut().unwrap();
        tree.agents = (0..agents).map(|_| own_agent(last, AREA)).collect();
        let stages = [["First", WAIT, "a", "Second", "rollback"], ["Second", AB, "a", "rollout", "rollback"]];
        tree.levels[0].submit(&strategy_text("7", "rollout: {on_failure: pause}\n", &["a"], &stages));
        for at in 1..depth {
            let offer = tree.levels[at - 1].poll(&tree.ids[at - 1]);
            let found = tree.levels[at - 1].fetch(&tree.ids[at - 1], &offer).unwrap();
            let text = render_full::whole(&found.strategy);
            let strategy = check_from_parent(text.as_bytes()).strategy.unwrap();
            let submission =
                Box::new(offered::submission(&offer, text.as_bytes(), strategy, [1; 32]).unwrap());
            let submit = lifecycle::Command::Submit { submission, dry_run: false };
            tree.levels[at].command(&Command::Lifecycle(submit)).unwrap();
        }
        for agent in tree.agents.clone() {
            let last = tree.levels.last_mut().unwrap();
            let offer = last.poll(&agent);
            let text = last.fetch(&agent, &offer).unwrap().text(&offer);
            assert!(text.contains("keeps_failed: true"), "{text}");
        }
        tree
    }

    fn last(&mut self) -> &mut World {
        self.levels.last_mut().unwrap()
    }

    fn fails(&mut self, agent: usize) {
        let agent = self.agents[agent].clone();
        self.last().report(&agent, "7", kept("First", SuccessWaiting)).unwrap();
    }

    /// Whether an agent may go on, and whether it is to go back.
    fn asks(&mut self, agent: usize) -> (bool, bool) {
        let agent = self.agents[agent].clone();
        let (end, rollback, _) = ask(self.last(), &agent, "First", None);
        (end, rollback)
    }

    /// Each manager tells what failed below it, from the last one up.
    fn tells(&mut self) {
        for at in (1..self.levels.len()).rev() {
            let release = self.levels[at].release("7");
            let Some(waiting) = release.waits_for_parent() else { continue };
            let Some(failures) = waiting.failures else { continue };
            assert!(!waiting.is_ready, "it has more to say than that it waits");
            let why = release.parent.as_ref().unwrap().failed.clone();
            let said = Summary { failures: Some(failures), why, ..summary(&waiting.name, SuccessWaiting) };
            let id = self.ids[at - 1].clone();
            self.levels[at - 1].report(&id, "7", said).unwrap();
        }
    }

    /// Each manager hears whether the one above stands still, and asks what becomes of what failed, from the root down.
    fn hears(&mut self) {
        for at in 1..self.levels.len() {
            let above = self.levels[at - 1].release("7");
            let hold = above.state.pause().is_some();
            self.levels[at]
                .command(&of_parent(parent::Command::Hold { release: "7".to_owned(), hold }))
                .unwrap();
            let Some(waiting) = self.levels[at].release("7").waits_for_parent() else { continue };
            let id = self.ids[at - 1].clone();
            let (_, undo, accepted) = ask(&mut self.levels[at - 1], &id, &waiting.name, waiting.failures);
            let release = "7".to_owned();
            if undo {
                let end = parent::Command::End { release, stage: waiting.stage, undo };
                self.levels[at].command(&of_parent(end)).unwrap();
            } else if let Some(failures) = waiting.failures.filter(|_| accepted) {
                self.levels[at].command(&of_parent(parent::Command::Accept { release, failures })).unwrap();
            }
        }
    }
}

fn of_parent(command: parent::Command) -> Command {
    Command::Parent(command)
}

fn ask(world: &mut World, child: &str, stage: &str, failures: Option<u32>) -> (bool, bool, bool) {
    let (child, offer, stage) = (child.to_owned(), "7".to_owned(), stage.to_owned());
    let asks = members::Command::EndStage { child, offer, stage, failures };
    match world.command(&Command::Members(asks)).unwrap() {
        Reply::EndStage { end, rollback, accepted, .. } => (end, rollback, accepted),
        other => panic!("{other:?}"),
    }
}

#[test]
fn root_decision_on_failed_stage_reaches_agent_at_any_depth() {
    for depth in [2, 3, 4] {
        let mut tree = Tree::new(depth, 1);
        let agent = tree.agents[0].clone();
        tree.fails(0);
        for _ in 0..2 {
            tree.tells();
            tree.hears();
            assert_eq!(tree.asks(0), (false, false));
        }
        let pause = tree.levels[0].release("7").state.pause().unwrap().clone();
        assert_eq!(pause.by, PausedBy::Limit);
        let managers = tree.ids.join(": ");
        let said = format!(
            "{managers}: {agent} failed in stage First with fns/a_new (errorRate is 0.3): it keeps its shares until somebody decides"
        );
        assert_eq!(pause.reason, said);
        for world in &tree.levels {
            assert_eq!(world.state_of("7"), "Paused");
        }
        assert!(tree.levels.iter().all(|world| world.release("7").failed.contains(0)));
        let manager = tree.ids[0].clone();
        let waits = tree.levels[0].waits_child("7", &manager);
        assert!(waits.contains("has failed stage First, which keeps its shares"), "{waits}");
        // Nobody below decides.
        let last = tree.levels.last_mut().unwrap();
        last.pause("7");
        let resume = lifecycle::Command::Resume { release: "7".to_owned() };
        let _ = last.command(&Command::Lifecycle(resume));
        assert_eq!(tree.asks(0), (false, false));
        tree.levels[0].resume("7");
        assert_eq!(tree.asks(0), (false, false), "it hasn't come down yet");
        tree.hears();
        assert_eq!(tree.asks(0), (true, false));
        // What is told once more was decided.
        tree.fails(0);
        tree.tells();
        assert_eq!(tree.levels[0].state_of("7"), "Running");
        let last = tree.last();
        last.report(&agent, "7", kept("First", Failure)).unwrap();
        let part = last.assignment("7", &agent);
        assert_eq!((part.slot.stage_index(), part.stage_status), (Some(1), InProgress));
        // The next stage is judged anew.
        last.report(&agent, "7", kept("Second", SuccessWaiting)).unwrap();
        tree.tells();
        assert_eq!(tree.levels[0].state_of("7"), "Paused");
        tree.hears();
        let agent_asks = |tree: &mut Tree| ask(tree.last(), &agent, "Second", None).0;
        assert!(!agent_asks(&mut tree));
        tree.levels[0].resume("7");
        tree.hears();
        assert!(agent_asks(&mut tree));
        tree.last().report(&agent, "7", kept("Second", Failure)).unwrap();
        assert_eq!(tree.last().ended(), ["Done, 0 unconfirmed"]);
        assert_eq!(tree.last().runs(&agent, "a"), "new of 7");
    }
}

#[test]
fn what_the_root_takes_back_goes_back_at_the_agent_too() {
    for depth in [2, 3] {
        let mut tree = Tree::new(depth, 1);
        tree.fails(0);
        tree.tells();
        tree.hears();
        tree.levels[0].abort("7");
        tree.hears();
        assert_eq!(tree.asks(0), (true, true));
    }
}

#[test]
fn whoever_lets_the_release_go_on_has_decided_nothing_of_what_they_have_not_heard() {
    for depth in [2, 3] {
        let mut tree = Tree::new(depth, 2);
        // Paused for something else, and resumed before it was told.
        tree.levels[0].pause("7");
        tree.hears();
        tree.fails(0);
        tree.levels[0].resume("7");
        tree.hears();
        assert_eq!(tree.asks(0), (false, false));
        tree.tells();
        tree.hears();
        assert_eq!(tree.levels[0].state_of("7"), "Paused");
        tree.levels[0].resume("7");
        // Another one fails meanwhile.
        tree.fails(1);
        tree.hears();
        assert_eq!([tree.asks(0), tree.asks(1)], [(false, false); 2]);
        tree.tells();
        assert_eq!(tree.levels[0].state_of("7"), "Paused");
        tree.hears();
        assert_eq!([tree.asks(0), tree.asks(1)], [(false, false); 2]);
        tree.levels[0].resume("7");
        tree.hears();
        assert_eq!([tree.asks(0), tree.asks(1)], [(true, false); 2]);
    }
}
