//! The life of a release over a tree as somebody sees and leads it in a browser: by keyboard alone, and again by pointer; then what
//! of that is an action or a list, in a browser that runs no scripts.

use serde_json::Value;

use crate::{
    browser::{Key, Page, browse},
    clean::at,
    faults,
    maps::{has_pixels, pixels, says},
    states::{fail, over_waves},
    tree::{AGENTS, Tree},
    world::{STAGE, World, strategy},
};

/// What is used of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hand {
    Keyboard,
    Pointer,
}

/// Most stops of Tab until something is found.
const MOST_STOPS: usize = 200;

impl Hand {
    /// Goes to what has this role and name, and uses it.
    async fn uses(self, page: &Page, role: &str, name: &str) {
        match self {
            Self::Pointer => page.click(role, name).await,
            Self::Keyboard => {
                self.reaches(page, role, name).await;
                page.press(Key::Enter).await;
            }
        }
    }

    /// The same, to another document.
    async fn leaves(self, page: &Page, role: &str, name: &str) {
        page.leave_by(async || self.uses(page, role, name).await).await;
    }

    /// Presses Tab until something has the focus.
    async fn reaches(self, page: &Page, role: &str, name: &str) {
        page.find(role, name).await;
        let wanted = format!("{role} {name:?}");
        for _ in 0..MOST_STOPS {
            if page.focus().await == wanted {
                return;
            }
            page.press(Key::Tab).await;
        }
        panic!("Tab doesn't come to {wanted}");
    }

    /// Writes into a field in place of what is there.
    async fn writes(self, page: &Page, role: &str, label: &str, text: &str) {
        match self {
            Self::Pointer => page.fill_in(role, label, text).await,
            Self::Keyboard => {
                self.reaches(page, role, label).await;
                page.select_all().await;
                page.paste(text).await;
            }
        }
    }

    /// Opens what can be done, writes why, does it, and says yes to what is asked back.
    async fn acts(self, page: &Page, what: &str, action: &str, note: &str) {
        self.uses(page, "DisclosureTriangle", what).await;
        self.writes(page, "textbox", NOTE, note).await;
        self.uses(page, "button", action).await;
        page.find("dialog", "").await;
        // The dialog has the only button of this name that can be reached.
        self.leaves(page, "button", action).await;
    }

    /// The same where no script asks back.
    async fn acts_at_once(self, page: &Page, what: &str, action: &str, note: &str) {
        self.uses(page, "DisclosureTriangle", what).await;
        self.writes(page, "textbox", NOTE, note).await;
        self.leaves(page, "button", action).await;
    }
}

const NOTE: &str = "Note: why (this release wants one; it goes into the audit trail)";

/// A wave for each manager.
const LED: &str = "waves: [2, 4, 100%], approval: before_each_wave, notes: required";

/// Looked at each second, long enough for what is measured to come up the tree.
const JUDGED: &str = "    analysis: {duration: 20s, interval: 1s, metrics: [{name: times, provider: children, \
    metric: responseTime, strategy: CANARY_BASELINE, deviation: HIGH, tolerance: 10%}]}\n    end_action:";

/// Half of the calls to the new version, as agents report it, and no condition of their own that it could fail.
fn bad(id: &str) -> String {
    let text = strategy(id).replace("    end_action:", JUDGED);
    let text = text.replace("trafficPercentage: 95", "trafficPercentage: 50");
    text.replace("trafficPercentage: 5\n", "trafficPercentage: 50\n")
}

async fn is_live(page: &Page) {
    page.holds("document.querySelector('#live-state')?.dataset.kind === 'live'").await;
}

/// The words that are shown of a wave.
async fn wave_is(page: &Page, number: usize, words: &str) {
    let shown =
        format!("document.querySelector('#waves [data-key=\"{number}\"]').textContent.includes('{words}')");
    page.holds(&shown).await;
}

/// What a strategy comes to is seen before it is submitted, and so is what is wrong with it.
async fn submits(page: &Page, hand: Hand) {
    let right = strategy("a") + &over_waves(LED);
    let wrong = right.replace("WaitForSignal", "WaitForSignals");
    hand.leaves(page, "link", "New release").await;
    hand.writes(page, "textbox", "Strategy", &wrong).await;
    hand.leaves(page, "button", "Check and plan").await;
    page.reads("WaitForSignals").await;
    faults::none(page).await;
    // The fault leads to its place in the text.
    let fault = page.evaluate("document.querySelector('a[data-line]').textContent").await.unwrap();
    hand.uses(page, "link", fault.as_str().unwrap()).await;
    page.holds("document.activeElement.id === 'strategy'").await;
    let marked = "(() => { const { value, selectionStart, selectionEnd } = document.activeElement; \
         return value.slice(selectionStart, selectionEnd); })()";
    let marked = page.evaluate(marked).await.unwrap();
    assert!(marked.as_str().unwrap().starts_with("WaitForSignals"), "{marked}");
    hand.writes(page, "textbox", "Strategy", &right).await;
    hand.leaves(page, "button", "Check and plan").await;
    page.reads("6 agents take part (3 children), waves").await;
    page.find("image", "Where those are who would take part").await;
    let cells = "[...document.querySelectorAll('figure.planned .cell title')].map((title) => title.textContent).join('; ')";
    let cells = page.evaluate(cells).await.unwrap();
    for wave in 1..=3 {
        assert!(cells.as_str().unwrap().contains(&format!("1 waiting, wave {wave}")), "{cells}");
    }
    faults::none(page).await;
    hand.leaves(page, "button", "Submit").await;
    assert!(page.address().await.ends_with("/ui/releases/a"));
    is_live(page).await;
}

/// Three waves go over the tree, each seen without a reload, and the next one after each is opened by an approval.
async fn three_waves(tree: &Tree, page: &Page, hand: Hand) {
    for (at, below) in tree.below.iter().enumerate() {
        wave_is(page, at + 1, "its turn has come").await;
        // Whose turn has not come hears nothing of it.
        for later in at + 1..tree.below.len() {
            wave_is(page, later + 1, "comes later").await;
            assert!(!tree.is_known_at(later, "a").await, "{later}");
        }
        below.run().await;
        let share = format!("{} succeeded", (at + 1) * AGENTS);
        page.reads(&share).await;
        if at + 1 == tree.below.len() {
            page.reads("done").await;
            continue;
        }
        page.reads("waits for approval").await;
        if at == 0 {
            down_the_tree(tree, page, hand).await;
        }
        let note = format!("wave {} looks good", at + 1);
        hand.acts(page, "Approve", "Approve", &note).await;
        page.reads("You approved it.").await;
        page.reads(&note).await;
        is_live(page).await;
    }
    let ended = "document.querySelector('header.release .badge').textContent === 'done'";
    page.holds(ended).await;
}

/// From the release over its map to the tree, a manager opened, and back.
async fn down_the_tree(tree: &Tree, page: &Page, hand: Hand) {
    hand.leaves(page, "link", "On a map").await;
    says(page, "2 waiting, 1 done").await;
    hand.leaves(page, "link", "Tree").await;
    hand.writes(page, "searchbox", "As they stand in the release", "a").await;
    hand.leaves(page, "button", "Filter").await;
    for (at, below) in tree.below.iter().enumerate() {
        hand.leaves(page, "link", &format!("Open {}", below.id)).await;
        let done = if at == 0 { AGENTS } else { 0 };
        page.reads(&format!("{AGENTS} agents: {done} done")).await;
        if at > 0 {
            continue;
        }
        for agent in &below.agents {
            page.reads(&agent.id).await;
        }
    }
    hand.leaves(page, "link", "a").await;
    is_live(page).await;
}

/// A bad version is found by what was measured, and taken back; both are seen.
async fn is_taken_back(tree: &Tree, page: &Page, hand: Hand) {
    hand.leaves(page, "link", "New release").await;
    hand.writes(page, "textbox", "Strategy", &bad("b")).await;
    hand.leaves(page, "button", "Submit").await;
    assert!(page.address().await.ends_with("/ui/releases/b"));
    for below in &tree.below {
        for agent in &below.agents {
            below.is_offered(agent).await;
        }
    }
    hand.leaves(page, "link", "On a map").await;
    says(page, "3 doing").await;
    has_pixels(page, "going").await;
    assert_eq!(pixels(page, "back").await, Ok(0));
    for (below, seed) in tree.below.iter().zip(1..) {
        below.measure("b", 1.5, seed).await;
    }
    // The roll-back spreads on the map, manager by manager.
    says(page, "3 being taken back").await;
    has_pixels(page, "back").await;
    let mut before = settled(page).await;
    for (at, below) in tree.below.iter().enumerate() {
        below.undo("b").await;
        let (left, back) = (tree.below.len() - at - 1, at + 1);
        let told = [(left, "being taken back"), (back, "taken back")];
        let told = told.iter().filter(|(number, _)| *number > 0);
        let told: Vec<_> = told.map(|(number, words)| format!("{number} {words}")).collect();
        says(page, &told.join(", ")).await;
        // Who is back has another shape, of more pixels.
        page.until("more pixels", async || Ok((pixels(page, "back").await? > before).then_some(()))).await;
        before = settled(page).await;
    }
    assert_eq!(pixels(page, "going").await, Ok(0));
    hand.leaves(page, "link", "b").await;
    is_live(page).await;
    page.holds("document.querySelector('header.release .badge').textContent === 'taken back'").await;
    // Why: in a sentence, with the interval, and in the numbers of the API.
    let release = tree.root.get("/api/v1/releases/b").await.ok().json();
    let metric = &release["analyses"][0]["metrics"][0];
    assert_eq!(metric["verdict"], "fail", "{metric:#}");
    page.reads(release["why"]["text"].as_str().unwrap()).await;
    page.reads("New to base, as a ratio (1: the same): ").await;
    page.reads("with a confidence of").await;
    page.reads("; the strategy bears at most 1.1").await;
    hand.uses(page, "DisclosureTriangle", "Base and new in numbers").await;
    for (field, path) in [
        ("low", "/effect/low"),
        ("high", "/effect/high"),
        ("estimate", "/effect/estimate"),
        ("base.p50", "/baseline/p50"),
        ("new.p50", "/canary/p50"),
        ("new.count", "/canary/count"),
    ] {
        let shown = format!(
            "(() => {{ const shown = document.querySelector('#judged [data-field=\"{field}\"] data'); \
             return shown.checkVisibility() ? Number(shown.value) : shown.outerHTML; }})()"
        );
        let is = metric["evidence"].pointer(path).unwrap_or_else(|| panic!("no {path} in {metric:#}"));
        assert_eq!(page.evaluate(&shown).await.unwrap().as_f64(), is.as_f64(), "{field}");
    }
    let low = metric["evidence"]["effect"]["low"].as_f64().unwrap();
    assert!(low > 1.1, "{metric:#}");
    faults::none(page).await;
}

/// Pixels of the roll-back once two pictures in a row have as many.
async fn settled(page: &Page) -> u64 {
    let mut last = u64::MAX;
    page.until("a picture that rests", async || {
        let now = pixels(page, "back").await?;
        let rests = now == last;
        last = now;
        Ok(rests.then_some(now))
    })
    .await
}

/// A release that went on in spite of failures is tried again where it failed.
async fn is_tried_again(tree: &Tree, page: &Page, hand: Hand) {
    let led = "rollout: {order: parallel, max_failed: 100%, on_failure: continue, notes: required}\n";
    tree.root.submit(&(strategy("c") + led)).await.ok();
    let [good, west, bad] = &tree.below[..] else { panic!("three managers") };
    good.run().await;
    west.run().await;
    for agent in &bad.agents {
        bad.fail(agent).await;
    }
    hand.leaves(page, "link", "Releases").await;
    hand.leaves(page, "link", "c").await;
    is_live(page).await;
    page.reads("done, with failures").await;
    hand.acts(page, "Retry what failed", "Retry what failed", "it was the disk").await;
    page.reads("You gave those that ended badly another attempt.").await;
    is_live(page).await;
    for agent in &bad.agents {
        let offer = bad.is_offered(agent).await;
        bad.finish(agent, &offer).await;
    }
    page.reads("6 succeeded").await;
    page.holds("document.querySelector('header.release .badge').textContent === 'done'").await;
    let release = tree.root.get("/api/v1/releases/c").await.ok().json();
    assert_eq!((&release["attempt"], &release["state"]), (&Value::from(2), &Value::from("Done")));
}

async fn lives(hand: Hand) {
    let tree = Tree::start().await;
    browse(async |page| {
        // The only address that is written; from here on all goes by what is on the pages.
        page.go(&at(&tree.root, "/releases")).await;
        submits(page, hand).await;
        three_waves(&tree, page, hand).await;
        is_taken_back(&tree, page, hand).await;
        is_tried_again(&tree, page, hand).await;
        // The page of the fault was refused, and that is said in the console.
        let reports = page.take_reports().await;
        assert!(reports.iter().all(|report| report.contains("status of 422")), "{reports:?}");
    })
    .await;
    tree.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_lives_over_a_tree_under_the_keyboard_alone() {
    lives(Hand::Keyboard).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_lives_over_a_tree_under_the_pointer() {
    lives(Hand::Pointer).await;
}

/// What a child's part in a release is by the API.
async fn part(world: &World, release: &str, child: &str) -> Value {
    let parts = world.get(&format!("/api/v1/releases/{release}/children")).await.ok().json();
    let parts = parts["items"].as_array().unwrap();
    parts.iter().find(|part| part["child"] == child).unwrap().clone()
}

async fn state_of(world: &World, release: &str) -> Value {
    world.get(&format!("/api/v1/releases/{release}")).await.ok().json()["state"].clone()
}

/// Each action and each list of the life where no script runs.
async fn plain_life(world: &World, page: &Page, hand: Hand) {
    let children = [world.child().await, world.child().await, world.child().await];
    let led = "waves: [1, 2, 100%], approval: before_each_wave, max_failed: 100%, on_failure: continue, notes: required";
    let right = strategy("a") + &over_waves(led);
    hand.leaves(page, "link", "New release").await;
    hand.writes(page, "textbox", "Strategy", &right.replace("WaitForSignal", "WaitForSignals")).await;
    hand.leaves(page, "button", "Submit").await;
    page.reads("WaitForSignals").await;
    hand.writes(page, "textbox", "Strategy", &right).await;
    hand.leaves(page, "button", "Check and plan").await;
    page.reads("3 agents take part (3 children), waves").await;
    page.find("image", "Where those are who would take part").await;
    hand.leaves(page, "button", "Submit").await;
    page.reads("comes later").await;
    // The first wave, held and let go on.
    hand.acts_at_once(page, "Pause", "Pause", "lunch").await;
    page.reads("You paused it.").await;
    assert_eq!(state_of(world, "a").await, "Paused");
    hand.acts_at_once(page, "Resume", "Resume", "back from lunch").await;
    page.reads("You let it go on.").await;
    assert_eq!(state_of(world, "a").await, "Running");
    world.run(&children[0], "a").await;
    hand.leaves(page, "link", "Releases").await;
    page.reads("waits for approval").await;
    hand.leaves(page, "link", "a").await;
    hand.acts_at_once(page, "Approve", "Approve", "the first wave looks good").await;
    page.reads("You approved it.").await;
    page.reads("the first wave looks good").await;
    fail(world, &children[1], "a").await;
    // The lists: of who takes part, of the map, and of the tree.
    hand.leaves(page, "link", "On a map").await;
    let failed = "document.querySelector('#legend [data-state=failed] .number').textContent === '1'";
    page.holds(failed).await;
    page.holds("document.querySelector('table.cells tbody').textContent.includes('Everywhere')").await;
    hand.leaves(page, "link", "Tree").await;
    for child in &children {
        page.reads(child).await;
    }
    page.back().await;
    hand.leaves(page, "link", "a").await;
    hand.leaves(page, "link", "Who takes part").await;
    let [_, bad, last] = &children;
    hand.acts_at_once(page, "Retry", &format!("Retry {bad}"), "it was the disk").await;
    page.reads("You gave the child another attempt.").await;
    let again = part(world, "a", bad).await;
    assert_eq!((&again["attempt"], &again["outcome"]), (&Value::from(2), &Value::Null));
    hand.leaves(page, "link", "a").await;
    // It fails again, and so does the last: both are tried once more at once.
    let offer = world.poll(bad).await.1;
    world.fetch(bad, &offer).await.ok();
    world.report(bad, &offer, STAGE, 5).await.ok();
    hand.leaves(page, "link", "Releases").await;
    hand.leaves(page, "link", "a").await;
    hand.acts_at_once(page, "Approve", "Approve", "go on all the same").await;
    page.reads("You approved it.").await;
    fail(world, last, "a").await;
    hand.leaves(page, "link", "Releases").await;
    page.reads("done, with failures").await;
    hand.leaves(page, "link", "a").await;
    hand.acts_at_once(page, "Retry what failed", "Retry what failed", "the disks are new").await;
    page.reads("You gave those that ended badly another attempt.").await;
    assert_eq!(state_of(world, "a").await, "Running");
    for child in [bad, last] {
        assert_eq!(part(world, "a", child).await["outcome"], Value::Null);
    }
    hand.acts_at_once(page, "Abort", "Abort", "not good after all").await;
    page.reads("You took the release back.").await;
    let release = world.get("/api/v1/releases/a").await.ok().json();
    assert_eq!(release["why"]["note"], "not good after all", "{release:#}");
}

async fn lives_plainly(hand: Hand) {
    let world = World::start().await;
    browse(async |page| {
        page.scripts(false).await;
        page.go(&at(&world, "/releases")).await;
        plain_life(&world, page, hand).await;
        let reports = page.take_reports().await;
        assert!(reports.iter().all(|report| report.contains("status of 422")), "{reports:?}");
    })
    .await;
    world.stop().await;
}

#[tokio::test]
async fn a_release_lives_without_scripts_under_the_keyboard_alone() {
    lives_plainly(Hand::Keyboard).await;
}

#[tokio::test]
async fn a_release_lives_without_scripts_under_the_pointer() {
    lives_plainly(Hand::Pointer).await;
}

#[tokio::test]
async fn a_double_click_on_abort_aborts_once_and_back_does_nothing_again() {
    let world = World::start().await;
    world.child().await;
    world.submit(&strategy("a")).await.ok();
    browse(async |page| {
        page.go(&at(&world, "/releases/a")).await;
        page.click("DisclosureTriangle", "Abort").await;
        page.clicks("button", "Abort", 2).await;
        page.find("dialog", "").await;
        page.leave_by(async || page.clicks("button", "Abort", 2).await).await;
        page.reads("You took the release back.").await;
        page.back().await;
        page.reload().await;
        page.reads("aborted").await;
        page.take_reports().await;
    })
    .await;
    let trail = world.get("/api/v1/audit?release=a&limit=100").await.ok().json();
    let aborts =
        trail["items"].as_array().unwrap().iter().filter(|entry| entry.to_string().contains("Aborted"));
    assert_eq!(aborts.count(), 1, "{trail:#}");
    world.stop().await;
}
