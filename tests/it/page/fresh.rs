//! Pages that many have brought up to date at once: each is told what holds by then, and what is his.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::time::{sleep, timeout};

use super::Browser;
use crate::{http::tenants::Shared, world::strategy};

const PAGE: &str = "/ui/releases/a";

/// A manager with a release that runs.
async fn released() -> Shared {
    let shared = Shared::start().await;
    shared.world.child().await;
    shared.submit("root", &strategy("a")).await.ok();
    shared
}

/// The middle of the page, as its script has it brought up to date.
async fn middle(browser: &Browser) -> String {
    browser.send(browser.request("GET", PAGE).header("x-choirmaster-middle", "1")).await.ok().text()
}

fn can_act(middle: &str) -> bool {
    middle.contains("data-action=\"")
}

/// Those who look all the time, until they are told to end; each look is checked.
struct Viewers {
    is_over: Arc<AtomicBool>,
    looks: Arc<AtomicUsize>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Viewers {
    async fn start(shared: &Shared, names: &[&'static str], check: fn(&str, &str)) -> Self {
        let (is_over, looks) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let mut tasks = Vec::new();
        for name in names.iter().copied() {
            let browser = Browser::signed_in(&shared.world, Shared::secret(name)).await;
            let (is_over, looks) = (Arc::clone(&is_over), Arc::clone(&looks));
            tasks.push(tokio::spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    check(name, &middle(&browser).await);
                    looks.fetch_add(1, Ordering::Relaxed);
                }
            }));
        }
        Self { is_over, looks, tasks }
    }

    /// Waits for so many looks more.
    async fn look(&self, more: usize) {
        let wanted = self.looks.load(Ordering::Relaxed) + more;
        while self.looks.load(Ordering::Relaxed) < wanted {
            assert!(self.tasks.iter().all(|task| !task.is_finished()));
            sleep(Duration::from_millis(5)).await;
        }
    }

    async fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_shown_what_held_before_he_asked() {
    let shared = released().await;
    let viewers = Viewers::start(&shared, &["root"; 8], |_, _| ()).await;
    let root = Browser::signed_in(&shared.world, Shared::secret("root")).await;
    for _ in 0..20 {
        for (action, state) in [("pause", "Paused"), ("resume", "Running")] {
            shared.call("root", "POST", &format!("/api/v1/releases/a/{action}")).await.ok();
            let shown = middle(&root).await;
            assert!(shown.contains(&format!("data-state=\"{state}\"")), "{shown}");
        }
    }
    viewers.end().await;
    shared.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_shown_what_is_another_s() {
    let shared = released().await;
    // Of the manager, and of a tenant that the release is not of.
    let check = |name: &str, middle: &str| match name {
        "root" => assert!(can_act(middle), "{middle}"),
        "watch" => assert!(!can_act(middle) && middle.contains("data-state=\"Running\""), "{middle}"),
        other => panic!("{other}"),
    };
    let viewers = Viewers::start(&shared, &["root", "watch", "root", "watch", "root", "watch"], check).await;
    let ann = Browser::signed_in(&shared.world, Shared::secret("ann")).await;
    for _ in 0..10 {
        viewers.look(6).await;
        let asked = ann.request("GET", PAGE).header("x-choirmaster-middle", "1");
        assert_eq!(ann.send(asked).await.status, 404);
    }
    viewers.end().await;
    shared.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_goes_away_while_others_wait_takes_nothing_from_them() {
    let shared = released().await;
    let root = Browser::signed_in(&shared.world, Shared::secret("root")).await;
    for wait in 0..60 {
        let gone = timeout(Duration::from_micros(wait * 50), middle(&root));
        let (gone, stayed) = tokio::join!(gone, middle(&root));
        assert!(stayed.contains("data-state=\"Running\""), "{stayed}");
        if let Ok(seen) = gone {
            assert!(seen.contains("data-state=\"Running\""), "{seen}");
        }
    }
    shared.world.stop().await;
}
