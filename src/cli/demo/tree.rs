//! Three levels of managers: a release that is taken back everywhere because it is bad in one corner, and one that
//! reaches only its target.

use std::{
    io::{IsTerminal, Write},
    path::Path,
    time::Duration,
};

use tokio::time::{Instant, sleep};

use super::{
    Args, fleet_of,
    limits::CHILDREN_LIMIT,
    samples::{TREE_SAMPLES, TreeSample},
    screen::{FinishedRelease, LOOK_EVERY, Screen},
    unless_ended,
};
use crate::cli::{
    client::{Client, Connection},
    failure::Failure,
    show,
    tree::{Tree, TreeConfig},
};
use simulated_children::{BoundingBox, FleetConfig, Traffic, tree::TreeSpec};

/// The tree of the demo.
const TREE: &str = "2x2x3";

/// Where its children are; the samples name places in it.
const SPREAD: BoundingBox = BoundingBox { west: 13.3, south: 52.4, east: 13.6, north: 52.6 };

/// The manager below which new greetings are bad: the last one in the east.
const CORNER: &str = "2.2";

/// Part of the path of what is bad there.
const BAD_IN_THE_CORNER: &str = "greet_new";

/// Between two polls of a manager at the one above it.
const MANAGER_POLL: Duration = Duration::from_millis(100);

/// The tree has this long until the root knows everybody.
const STANDING_LIMIT: Duration = Duration::from_mins(1);

/// Children that run a new version, as they say themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Running {
    west: usize,
    east: usize,
}

/// Plays the samples of the tree and ends it.
pub async fn play(
    args: &Args,
    functions: &Path,
    out: &mut impl Write,
) -> Result<Vec<FinishedRelease>, Failure> {
    let tree = Tree::start(&config(args, functions)?, |place, agents| {
        if place.name == CORNER {
            agents.traffic.bad_path = Some(BAD_IN_THE_CORNER.to_owned());
        }
    })
    .await?;
    let played = unless_ended(play_in(&tree, out)).await;
    tree.stop().await?;
    played
}

fn config(args: &Args, functions: &Path) -> Result<TreeConfig, Failure> {
    let flat = fleet_of(args, "");
    let traffic = Traffic { bad_path: None, ..flat.traffic };
    Ok(TreeConfig {
        spec: TREE.parse::<TreeSpec>().map_err(|error| Failure::ours(error.to_string()))?,
        agents: FleetConfig { spread: SPREAD, traffic, ..flat },
        listen: ([127, 0, 0, 1], 0).into(),
        functions_root: functions.to_owned(),
        poll: MANAGER_POLL,
        processes: false,
    })
}

async fn play_in(tree: &Tree, out: &mut impl Write) -> Result<Vec<FinishedRelease>, Failure> {
    let mut screen = Screen::new(std::io::stdout().is_terminal());
    writeln!(
        out,
        "\nA tree: {} managers on three levels, {} SIMULATED children below the lowest.\nIts root listens on {}\n",
        tree.members().len(),
        tree.size(),
        tree.root()
    )?;
    stand(tree, &mut screen, out).await?;
    let client = Client::new(&Connection::to(tree.root()))?;
    let mut ended = Vec::new();
    for (number, sample) in (1..).zip(&TREE_SAMPLES) {
        writeln!(out, "{number}/{} {}: {}", TREE_SAMPLES.len(), sample.id(), sample.story)?;
        ended.push(play_one(tree, &client, sample, &mut screen, out).await?);
    }
    Ok(ended)
}

/// Waits until the root knows everybody.
async fn stand(tree: &Tree, screen: &mut Screen, out: &mut impl Write) -> Result<(), Failure> {
    let started = Instant::now();
    loop {
        let standing = tree.standing().await?;
        let children = show::counted(tree.size() as u64, "child", "children");
        screen.show(&format!("the root knows of {} of {children}", standing.agents), out)?;
        if tree.is_whole(standing) {
            return screen.keep(out);
        }
        if started.elapsed() > STANDING_LIMIT {
            return Err(Failure::ours("not every manager has registered with the one above it"));
        }
        sleep(LOOK_EVERY).await;
    }
}

async fn play_one(
    tree: &Tree,
    client: &Client,
    sample: &TreeSample,
    screen: &mut Screen,
    out: &mut impl Write,
) -> Result<FinishedRelease, Failure> {
    let (release, took) = screen.follow(client, sample.text, || tree.progress().rolled_out, out).await?;
    let side = tree.size() / 2;
    let wanted = Running { west: if sample.is_west { side } else { 0 }, east: 0 };
    let found = settled(tree, wanted).await;
    let new_at = found.west + found.east;
    let base_at = tree.size() - new_at;
    screen.ended(&release, new_at, base_at, out)?;
    let state = if sample.is_west { "Done" } else { "RolledBack" };
    let wrong = (release.state != state || found != wanted || release.unconfirmed != 0).then(|| {
        format!(
            "NOT AS IT SHOULD: {state}, new versions at {} in the west and 0 in the east; they run at {} and {}",
            wanted.west, found.west, found.east
        )
    });
    Ok(FinishedRelease::of(release, (new_at, base_at), took, wrong))
}

/// What the children say, once it is what it should be or they had time enough.
async fn settled(tree: &Tree, wanted: Running) -> Running {
    let deadline = Instant::now() + CHILDREN_LIMIT;
    loop {
        let found = running(tree);
        if found == wanted || Instant::now() > deadline {
            return found;
        }
        sleep(LOOK_EVERY).await;
    }
}

fn running(tree: &Tree) -> Running {
    let below = |side: &str| {
        let members = tree.members();
        let names = members.iter().map(|member| member.place.name.as_str());
        names
            .filter(|name| name.split('.').next() == Some(side))
            .filter_map(|name| tree.progress_below(name))
            .map(|progress| progress.rolled_out)
            .sum()
    };
    Running { west: below("1"), east: below("2") }
}
