//! A strategy that nobody changed has the digest that it always had, and so have its functions.

use super::{json, samples};
use crate::world::World;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

#[tokio::test]
async fn samples_that_did_not_change_keep_the_digests_of_strategy_and_archive() {
    let world = World::with(|options| options.functions_root = samples()).await;
    let frozen = json("digests.json");
    for (file, sample) in frozen.as_object().unwrap() {
        let text = std::fs::read_to_string(samples().join("releases").join(file)).unwrap();
        world.submit(&text).await.ok();
        let id = sample["id"].as_str().unwrap();
        let row = world.manager.engine.reader().release(id).await.unwrap().unwrap();
        let now = [hex(&row.digest), hex(&row.archive)];
        assert_eq!(
            now,
            [&sample["digest"], &sample["archive"]].map(|d| d.as_str().unwrap().to_owned()),
            "{file}"
        );
    }
    assert_eq!(frozen.as_object().unwrap().len(), 14);
    world.stop().await;
}
