//! What a manager kept of itself when that lay in the outbox: who it is, who it is at its parent, and where strategies went.

use store::{options::OpenOptions, url};

use super::{Frozen, samples, thaw};
use crate::{
    store::{
        everything::Loaded,
        place::{Kind, Place},
    },
    world::World,
};

const IDENTITY: &str = "125604f89bf04827bea253f5355f5363";
const ENROLLED: &str = r#"{"url":"http://127.0.0.1:40443","id":"d467b2ab-c436-48aa-a7fe-ea41aabda758"}"#;

async fn comes_up_as_who_it_was(form: Frozen, place: &Place) {
    thaw("barrier", form, place).await;
    let (mut writer, _) = url::open(&place.url, &OpenOptions::new()).await.unwrap();
    let mut loaded = Loaded::default();
    writer.load(&mut loaded).await.unwrap();
    let settings: Vec<_> = loaded.settings.values().map(|row| (&*row.name, &*row.value)).collect();
    assert_eq!(settings, [("enrolled", ENROLLED), ("identity", IDENTITY)]);
    assert_eq!(loaded.outbox.len(), 0, "{:?}", loaded.outbox);
    writer.release().await.unwrap();
}

#[tokio::test]
async fn a_file_of_an_earlier_build_is_who_it_was() {
    Place::with(Kind::Sqlite, async |place| comes_up_as_who_it_was(Frozen::File, place).await).await;
}

#[tokio::test]
async fn an_export_of_an_earlier_build_is_who_it_was_in_postgres() {
    Place::with(Kind::Postgres, async |place| comes_up_as_who_it_was(Frozen::Export, place).await).await;
}

/// The first version of an outbox has no times of serving.
const FORWARDED: &str = r#"INSERT INTO outbox (id, kind, at_ms, payload) VALUES
    (5000001, 'forwarded', 3, '{"release":"wide","to":"http://127.0.0.1:1/"}'),
    (5000002, 'forwarded', 4, '{"release":"wide","to":"http://127.0.0.1:2/"}')"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manager_on_a_file_of_an_earlier_build_knows_where_strategies_went() {
    Place::with(Kind::Sqlite, async |place| {
        thaw("barrier", Frozen::File, place).await;
        place.sql(FORWARDED).await;
        let url = place.url.clone();
        let world = World::with(|options| (options.store, options.functions_root) = (url, samples())).await;
        let told = world.get("/api/v1/releases/wide").await.problem();
        assert!(told.contains("--url http://127.0.0.1:2/"), "the last time counts: {told}");
        assert_eq!(world.unreadable("outbox").await, 0);
        world.stop().await;
    })
    .await;
}
