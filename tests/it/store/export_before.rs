//! Exports of earlier programs: what was a row of the outbox then.

use sha2::{Digest as _, Sha256};
use store::{
    rows::{PointerRow, SettingRow, TenantRow, UserRow, Writes},
    transfer::Progress,
    tried_alone::ImportFile,
};

const BEFORE: &str = r#"{"format":"choirmaster-store","version":2}
{"lease":{"epoch":1,"seq":9,"holder":"","served_ms":5}}
{"outbox":{"id":0,"kind":"identity","at_ms":1,"payload":"me"}}
{"outbox":{"id":3,"kind":"enrolled","at_ms":2,"payload":"{\"url\":\"http://a/\",\"id\":\"old\"}"}}
{"outbox":{"id":4,"kind":"forwarded","at_ms":3,"payload":"{\"release\":\"r\",\"to\":\"http://a/\"}","served_ms":3}}
{"outbox":{"id":5,"kind":"enrolled","at_ms":4,"payload":"{\"url\":\"http://a/\",\"id\":\"new\"}"}}
{"outbox":{"id":6,"kind":"webhook","at_ms":5,"payload":"{}","served_ms":4}}
{"outbox":{"id":7,"kind":"identity","at_ms":6,"payload":"another"}}
"#;

/// With its last line.
fn whole(text: &str) -> String {
    let rows = text.lines().count() - 1;
    let sha256 = Sha256::digest(text).iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    format!("{text}{{\"end\":{{\"rows\":{rows},\"sha256\":\"{sha256}\"}}}}\n")
}

fn read(text: &str) -> Writes {
    let text = whole(text);
    let mut input = text.as_bytes();
    let mut file = ImportFile::open(&mut input).unwrap();
    let slice = file.slice().unwrap().unwrap();
    assert_eq!(slice.progress, Some(Progress { seq: 9, served_ms: 5 }));
    assert!(file.slice().unwrap().is_none());
    slice.writes
}

#[test]
fn an_export_in_which_everything_lay_in_the_outbox_has_settings_and_pointers() {
    let enrolled = r#"{"url":"http://a/","id":"new"}"#;
    let setting =
        |name: &str, value: &str, at_ms| SettingRow { name: name.to_owned(), value: value.to_owned(), at_ms };
    let pointer = r#"{"release":"r","to":"http://a/"}"#.to_owned();
    let writes = read(BEFORE);
    assert_eq!(writes.settings, [setting("enrolled", enrolled, 4), setting("identity", "me", 1)]);
    assert_eq!(writes.pointers, [PointerRow { pointer_key: 4, at_ms: 3, detail: pointer }]);
    let left: Vec<u64> = writes.outbox.iter().map(|row| row.id).collect();
    assert_eq!(left, [6]);
}

#[test]
fn whoever_releases_of_services_name_is_known_after_an_import_of_before_they_were_written_down() {
    let release = |key: u32, at: u64| {
        format!(
            r#"{{"release":{{"release_key":{key},"id":"r{key}","state":"Done","open":false,"digest":"","archive":"","strategy":"","functions":"[]","submitted_ms":{at},"updated_ms":9,"ended_ms":9,"detail":"{{}}"}}}}"#
        )
    };
    let service = |key: u32, actor: &str| {
        format!(
            r#"{{"service_release":{{"release_key":{key},"id":"u{key}","tenant":"acme","tenant_id":"id of acme","environment":"e","environment_id":"id of e","actor":"{actor}","actor_id":"id of {actor}","form":"{{}}"}}}}"#
        )
    };
    let rows = [release(1, 30), release(2, 20), service(1, "ann"), service(2, "ann"), service(2, "otto")];
    let (head, lease) = (BEFORE.lines().next().unwrap(), BEFORE.lines().nth(1).unwrap());
    let of = |version: &str| {
        let head = head.replace(r#""version":2"#, version);
        read(&format!("{head}\n{lease}\n{}\n", rows.join("\n")))
    };
    let before = of(r#""version":4"#);
    let acme = TenantRow { name: "acme".to_owned(), id: "id of acme".to_owned(), at_ms: 20 };
    let user = |name: &str| UserRow {
        tenant: "acme".to_owned(),
        name: name.to_owned(),
        id: format!("id of {name}"),
        at_ms: 20,
    };
    assert_eq!((before.tenants, before.users), (vec![acme], vec![user("ann"), user("otto")]));
    let since = of(r#""version":5"#);
    assert_eq!((since.tenants.len(), since.users.len(), since.service_releases.len()), (0, 0, 3));
}

#[test]
fn rows_of_the_outbox_are_what_they_are_since_there_are_settings() {
    let writes = read(&BEFORE.replace(r#""version":2"#, r#""version":3"#));
    assert_eq!((writes.outbox.len(), writes.settings.len(), writes.pointers.len()), (6, 0, 0));
}
