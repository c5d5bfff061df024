//! The worked example of the documents does what they say.

use std::{
    fs,
    process::{Child, Command, Stdio},
};

use router::{
    Router, RouterError,
    custom::{Custom, Secret},
};
use std::sync::Arc;

use super::real::{SECRET, settings};
use crate::{
    conformance::{comes_true, done, state::with_shares},
    loss::wait::wait_until,
    world::{
        backend::Backend,
        place::{at, free_port},
        wants::{service, wanted},
    },
};

struct Example(Child);

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn the_example_of_the_documents_takes_states_and_refuses_strangers_and_older_ones() {
    let text = include_str!("../../../docs/custom-router.md");
    let code = text.split("```python\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    assert!(code.lines().filter(|line| !line.is_empty()).count() <= 45);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("router.py");
    fs::write(&file, code).unwrap();
    let port = free_port();
    let mut command = Command::new("python3");
    command.arg(&file).arg(port.to_string()).env("SECRET", SECRET);
    command.env("STATE", folder.path().join("state.json")).stdin(Stdio::null()).stderr(Stdio::null());
    let _example = Example(command.spawn().expect("there is python3"));
    wait_until("it listens", async || tokio::net::TcpStream::connect(at(port)).await.is_ok()).await;

    let custom = Custom::open(settings(at(port), &folder.path().join("ours"))).unwrap();
    let router: Arc<dyn Router> = Arc::new(custom);
    let backends = ["A", "B"].map(|name| Backend::elsewhere(name, at(9)));
    let mut spec = service("checkout", 8_080, &backends, &[9_000, 1_000]);
    spec.variations[1].targets = vec!["127.0.0.1:10".parse().unwrap()];
    assert!(router.read().await.unwrap().services.is_empty());
    done(&router, &wanted(1, &[&spec])).await;
    let second = wanted(2, &[&with_shares(&spec, &[5_000, 5_000])]);
    done(&router, &second).await;
    done(&router, &second).await;
    assert_eq!(router.check(None).await.unwrap().refused, None);
    router.reload().await.unwrap();

    let mut elsewhere = settings(at(port), &folder.path().join("another's"));
    let another = Custom::open(elsewhere.clone()).unwrap();
    let older = another.apply(&wanted(1, &[&spec])).await.unwrap_err();
    assert!(matches!(older, RouterError::Older { newest, .. } if newest.generation == 2), "{older}");
    comes_true(&router, &second).await;
    elsewhere.folder = folder.path().join("a stranger's");
    elsewhere.secret = Secret::read("whsec_YSBzdHJhbmdlcidzIHNlY3JldCBvZiAyNCBieXRlcw==").unwrap();
    let stranger = Custom::open(elsewhere).unwrap().read().await.unwrap_err();
    assert!(
        matches!(&stranger, RouterError::Away { source, .. } if source.to_string().contains("401")),
        "{stranger}"
    );
}
