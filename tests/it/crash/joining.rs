//! Agents join a manager that is killed: what it has answered holds.

use std::{fs, process::Command, time::Duration};

use agent::link::{About, LinkError, Manager, Settings};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use sha2::{Digest as _, Sha256};
use store::{options::OpenOptions, transfer, url};

use super::server::{Server, Start};
use crate::{
    store::place::{Kind, Place, stories},
    world::{AREA, client, strategy},
};

const DOOR: &str = "join-token-of-the-edge";

fn about(name: &str) -> About {
    About {
        name: Some(name.to_owned()),
        area: Some(AREA.to_owned()),
        runtimes: ["nodejs", "python", "binary"].map(str::to_owned).into(),
        ..About::default()
    }
}

fn link(server: &Server, token: Option<&str>) -> Manager {
    let settings = Settings { url: format!("http://{}", server.address), ..Settings::default() };
    Manager::new(&settings, token.map(str::to_owned)).unwrap()
}

async fn poll(manager: &Manager, id: Option<&str>) -> Result<String, LinkError> {
    Ok(manager.poll(id, &about("kiosk"), Duration::ZERO).await?.id)
}

fn is_refused(polled: Result<String, LinkError>, text: &str) {
    match polled.unwrap_err() {
        LinkError::Refused { status: 401, text: told } => assert!(told.contains(text), "{told}"),
        other => panic!("{other}"),
    }
}

/// `choirmaster children …`.
fn children(server: &Server, args: &[&str]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_choirmaster"));
    command.env_clear().env("USER", "ada").arg("children").args(args);
    let output = command.args(["--url", &format!("http://{}", server.address)]).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

/// Starts with a file of join tokens.
fn start(place: &Place, folder: &std::path::Path) -> Start {
    let file = folder.join("doors");
    fs::write(&file, format!("# who may come in\nedge {DOOR}\n")).unwrap();
    let mut start = Start::on(place);
    start.set.push(format!("auth.join_token_file={}", file.display()));
    start
}

async fn a_token_of_who_joined_holds_until_it_is_revoked_whatever_dies(place: &Place) {
    let folder = tempfile::tempdir().unwrap();
    let start = start(place, folder.path());
    let server = start.listening().await;
    let joined = link(&server, None).join(DOOR, &about("kiosk")).await.unwrap();
    let other = link(&server, None).join(DOOR, &about("other")).await.unwrap();
    assert!(joined.id != other.id && joined.token != other.token);
    server.kill();

    let server = start.listening().await;
    let own = link(&server, Some(&joined.token));
    // It is who it is, whether it says so or not; and nobody else is.
    assert_eq!(poll(&own, None).await.unwrap(), joined.id);
    assert_eq!(poll(&own, Some(&joined.id)).await.unwrap(), joined.id);
    is_refused(poll(&link(&server, None), Some(&joined.id)).await, "this child's own token is needed");
    is_refused(poll(&link(&server, Some(&other.token)), Some(&joined.id)).await, "own token is needed");
    is_refused(poll(&link(&server, Some(DOOR)), Some(&joined.id)).await, "own token is needed");

    let (done, text) = children(&server, &["revoke", &other.id, "--note", "stolen"]);
    assert!(done && text == format!("{}: token revoked\n", other.id), "{text}");
    is_refused(poll(&link(&server, Some(&other.token)), None).await, "was revoked");
    server.kill();

    let server = start.listening().await;
    for id in [None, Some(other.id.as_str())] {
        is_refused(poll(&link(&server, Some(&other.token)), id).await, "was revoked");
    }
    is_refused(poll(&link(&server, None), Some(&other.id)).await, "was revoked");
    assert_eq!(poll(&link(&server, Some(&joined.token)), None).await.unwrap(), joined.id);
    // By the beginning of its id, as it has called; twice is as once; and who has none has none.
    for _ in 0..2 {
        let (done, text) = children(&server, &["revoke", &joined.id[..13]]);
        assert!(done, "{text}");
    }
    is_refused(poll(&link(&server, Some(&joined.token)), None).await, "was revoked");
    let (done, text) = children(&server, &["revoke", "nobody-at-all"]);
    assert!(!done && text.contains("nobody-at-all"), "{text}");
    server.terminate().await;
    assert!(!fs::read_to_string(&start.log).unwrap().contains(&joined.token));
}

async fn tokens_move_with_the_store_and_are_not_in_it(place: &Place) {
    let folder = tempfile::tempdir().unwrap();
    let from = start(place, folder.path());
    let server = from.listening().await;
    let joined = link(&server, None).join(DOOR, &about("kiosk")).await.unwrap();
    server.terminate().await;
    let mut file = Vec::new();
    transfer::export(&url::open_source(&place.url).await.unwrap(), &mut file, &mut |_| {}).await.unwrap();
    let text = String::from_utf8_lossy(&file);
    assert!(text.contains(&joined.id) && !text.contains(&joined.token) && !text.contains(DOOR));
    let digest = Sha256::digest(joined.token.as_bytes());
    let digits = model::hex::encode(&digest);
    assert!(text.contains(&format!(r#"{{\"digest\":\"{digits}\",\"door\":\"edge\"}}"#)), "{text}");
    let other = if place.kind == Kind::Sqlite { Kind::Postgres } else { Kind::Sqlite };
    Place::with(other, async |to| {
        let mut target = url::open_target(&to.url, &OpenOptions::new()).await.unwrap();
        transfer::import(&mut *target, &mut file.as_slice(), &mut |_| {}).await.unwrap();
        target.finish().await.unwrap();
        let server = start(to, folder.path()).listening().await;
        assert_eq!(poll(&link(&server, Some(&joined.token)), None).await.unwrap(), joined.id);
        is_refused(poll(&link(&server, None), Some(&joined.id)).await, "own token is needed");
        server.terminate().await;
    })
    .await;
}

async fn functions_come_whole_over_a_manager_that_is_killed_meanwhile(place: &Place) {
    let folder = tempfile::tempdir().unwrap();
    let start = start(place, folder.path());
    let server = start.listening().await;
    let joined = link(&server, None).join(DOOR, &about("kiosk")).await.unwrap();
    let own = link(&server, Some(&joined.token));
    poll(&own, None).await.unwrap();
    let submit = client().build().unwrap();
    let submit = submit.post(format!("http://{}/release", server.address));
    let submitted =
        submit.header("content-type", "application/yaml").body(strategy("a")).send().await.unwrap();
    assert_eq!(submitted.status(), 201);
    let offer = own.poll(Some(&joined.id), &about("kiosk"), Duration::ZERO).await.unwrap().offer.unwrap();
    own.release(&joined.id, &offer).await.unwrap();
    let into = folder.path().join("fns.zip");
    own.functions(&joined.id, &offer, &into).await.unwrap();
    let whole = fs::read(&into).unwrap();

    // Half of it is there, as after a break, and the manager has been another process since.
    let answer = client().build().unwrap();
    let answer = answer.get(format!("http://{}/release/functions/{offer}", server.address));
    let answer = answer.bearer_auth(&joined.token).send().await.unwrap();
    let tag = answer.headers()["etag"].to_str().unwrap().to_owned();
    let digest = format!("sha-256=:{}:", STANDARD.encode(Sha256::digest(&whole)));
    assert_eq!(answer.headers()["repr-digest"], digest.as_str());
    server.kill();
    let half = whole.len() / 2;
    fs::write(folder.path().join("fns.zip.part"), &whole[..half]).unwrap();
    let note = serde_json::json!({"offer": offer, "tag": tag, "sum": null});
    fs::write(folder.path().join("fns.zip.part.tag"), note.to_string()).unwrap();
    fs::remove_file(&into).unwrap();
    let server = start.listening().await;
    let own = link(&server, Some(&joined.token));
    own.functions(&joined.id, &offer, &into).await.unwrap();
    assert_eq!(fs::read(&into).unwrap(), whole);
    server.terminate().await;
}

stories! {
    a_token_of_who_joined_holds_until_it_is_revoked_whatever_dies,
    tokens_move_with_the_store_and_are_not_in_it,
    functions_come_whole_over_a_manager_that_is_killed_meanwhile,
}
