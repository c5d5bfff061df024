//! An own agent under a manager that knows nothing of such agents.

use std::io::{Cursor, Write as _};

use zip::{ZipWriter, write::SimpleFileOptions};

use super::{
    node::Node,
    reference,
    releases::{Kind, TWO_STAGES, stages, strategy},
    serving::Behaviour::Good,
    site::Site,
    stages::{habits, nothing_is_left_but},
    wait::wait_until,
};

/// The functions of a release, as managers pack them.
fn archive(site: &Site, versions: [&str; 2]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for version in versions {
        let file = SimpleFileOptions::default().unix_permissions(0o644);
        zip.start_file(format!("fns/{version}/run"), file).unwrap();
        zip.write_all(&std::fs::read(site.content(version).join("run")).unwrap()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// Completed, as it is written in results.
const COMPLETED: u64 = 4;

/// A manager that knows of nothing but the reference offers a release, and no poll of it waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_agent_completes_release_under_reference_manager() {
    let mut site = Site::start().await;
    let (base, new) = (site.version(Good), site.version(Good));
    let text = strategy("plain", [&base, &new], &stages(Kind::Wait, TWO_STAGES, 300), "");
    let script = reference::Script {
        offers: vec![("plain".to_owned(), text, archive(&site, [&base, &new]))],
        end_at: Some(6),
        ..reference::Script::of("")
    };
    let manager = reference::Manager::start(script).await;
    let node = Node::start(&site.folder().join("edge"), "edge", &manager.url, &["agent.keep_base=0s"]).await;
    // Nothing is added by hand: the release brings the base version.
    node.until("the base version serves", |status| !status.functions.is_empty()).await;
    wait_until("its table is in force", async || node.share().await.is_some()).await;
    let load = node.call(&habits()).await;
    let ended = |calls: &[reference::Call], stage: &str| {
        let results = reference::results(calls);
        results.iter().any(|call| call.stage() == stage && call.status() == Some(COMPLETED))
    };
    wait_until("both stages are reported", async || {
        let calls = manager.calls();
        ended(&calls, "s0") && ended(&calls, "s1")
    })
    .await;
    node.is_at_rest().await;
    load.more_calls(100).await;
    let (ledger, _) = load.finish(&site).await;
    let sums = ledger.sums();
    assert_eq!(sums.answered, sums.calls, "{sums}");
    assert_eq!(ledger.more_than_once(|_| true), 0);
    nothing_is_left_but(&site, &node.folder, &new).await;
}
