//! Forms that nobody of this session sent: each is refused, and nothing is done. Each of these fails where its check is taken out.

use super::{Browser, Form, release};
use crate::{
    http::tenants::Shared,
    world::{STAGE, strategy},
};

async fn prepared() -> (Shared, Browser, Form) {
    let shared = Shared::start().await;
    shared.world.child().await;
    shared.submit("root", &strategy("a")).await.ok();
    let root = Browser::signed_in(&shared.world, Shared::secret("root")).await;
    let pause = root.find("a", "pause").await;
    (shared, root, pause)
}

async fn ends_running(shared: Shared, root: &Browser, pause: &Form) {
    assert_eq!(release(&shared, "a").await["state"], "Running");
    // The same is done where nothing is wrong with it.
    assert_eq!(root.submit(pause).await.status, 303);
    assert_eq!(release(&shared, "a").await["state"], "Paused");
    shared.world.stop().await;
}

#[tokio::test]
async fn without_the_proof_of_this_session() {
    let (shared, root, pause) = prepared().await;
    let other = Browser::signed_in(&shared.world, Shared::secret("root")).await;
    let others = other.find("a", "pause").await;
    let of_others = others.fields.iter().find(|(name, _)| name == "proof").unwrap().1.clone();
    for form in [
        pause.clone().without("proof"),
        pause.clone().with("proof", ""),
        pause.clone().with("proof", &of_others),
    ] {
        let answer = root.submit(&form).await;
        assert_eq!(answer.status, 403, "{form:?}");
        assert!(answer.text().contains("Nothing was done: the form is not one of this session."));
    }
    ends_running(shared, &root, &pause).await;
}

#[tokio::test]
async fn from_another_sites_page() {
    let (shared, root, pause) = prepared().await;
    for (name, value) in [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("origin", "https://elsewhere.example"),
        ("origin", "null"),
        ("origin", "http://127.0.0.1:1"),
    ] {
        let answer = root.send(root.sending(&pause).header(name, value)).await;
        assert_eq!(answer.status, 403, "{name}: {value}");
    }
    ends_running(shared, &root, &pause).await;
}

#[tokio::test]
async fn without_a_session_the_note_is_kept() {
    let (shared, root, pause) = prepared().await;
    let mut nobody = Browser::new(&shared.world);
    let noted = pause.clone().with("note", "what I <i>wrote</i>");
    let cookie = root.cookie.clone().unwrap();
    let forged = format!(
        "{}A",
        cookie
            .strip_suffix('A')
            .map_or_else(|| cookie[..cookie.len() - 1].to_owned(), |rest| format!("{rest}B"))
    );
    let elsewhere = cookie.replacen("choirmaster", "choirmaster1", 1);
    for cookie in [None, Some(forged), Some(elsewhere)] {
        nobody.cookie = cookie;
        let answer = nobody.submit(&noted).await;
        let page = answer.text();
        assert_eq!(answer.status, 401, "{page}");
        assert!(page.contains("Nothing was done."), "{page}");
        assert!(page.contains("what I &lt;i&gt;wrote&lt;/i&gt;</textarea>"), "{page}");
        assert!(page.contains("/ui/sign-in?next=%2Fui%2Freleases%2Fa\""), "{page}");
        // What another site's page sent is not shown.
        let answer = nobody.send(nobody.sending(&noted).header("sec-fetch-site", "cross-site")).await;
        assert!(answer.status == 401 && !answer.text().contains("what I"), "{}", answer.text());
    }
    ends_running(shared, &root, &pause).await;
}

#[tokio::test]
async fn readers_have_no_forms_and_do_nothing() {
    let (shared, root, pause) = prepared().await;
    let watch = Browser::signed_in(&shared.world, Shared::secret("watch")).await;
    let page = watch.page("a").await;
    assert!(!page.contains("class=\"action\"") && !page.contains("id=\"actions\""), "{page}");
    // With a proof of their own.
    let (_, rest) = page.split_once("name=\"proof\" value=\"").unwrap();
    let proof = rest.split('"').next().unwrap();
    let answer = watch.submit(&pause.clone().with("proof", proof)).await;
    assert_eq!(answer.status, 403);
    assert!(
        answer.text().contains("this takes the role operator; the token watch has viewer"),
        "{}",
        answer.text()
    );
    let skip = Form { path: "/ui/releases/a/skip".to_owned(), ..pause.clone() };
    assert_eq!(watch.submit(&skip.with("proof", proof).with("stage", STAGE)).await.status, 403);
    ends_running(shared, &root, &pause).await;
}

#[tokio::test]
async fn what_is_no_action_is_none() {
    let (shared, root, pause) = prepared().await;
    for action in ["skip", "strategy", "children%2Fx%2Fretry", ".."] {
        let form = Form { path: format!("/ui/releases/a/{action}"), ..pause.clone() };
        let status = root.submit(&form).await.status;
        assert!((400..500).contains(&status), "{action}: {status}");
    }
    let wrong = root.submit(&pause.clone().with("tag", "\"\r\nx: y")).await;
    assert_eq!(wrong.status, 400);
    let long = root.submit(&pause.clone().with("note", &"ä".repeat(1_001))).await;
    assert_eq!(long.status, 400);
    assert_eq!(root.submit(&pause.clone().with("note", &"x".repeat(64 * 1024))).await.status, 413);
    ends_running(shared, &root, &pause).await;
}

#[tokio::test]
async fn a_tenant_acts_on_its_own_alone() {
    let shared = Shared::start().await;
    shared.child_of("acme").await;
    shared.submit("ann", &strategy("a")).await.ok();
    let ann = Browser::signed_in(&shared.world, Shared::secret("ann")).await;
    let uma = Browser::signed_in(&shared.world, Shared::secret("uma")).await;
    let pause = ann.find("a", "pause").await;
    assert_eq!(uma.get("/ui/releases/a").await.status, 404);
    let (_, rest) = {
        let page = uma.get("/ui/releases").await.ok().text();
        let (before, rest) = page.split_once("name=\"proof\" value=\"").unwrap();
        (before.to_owned(), rest.to_owned())
    };
    let proof = rest.split('"').next().unwrap();
    for path in ["/ui/releases/a/pause", "/ui/releases/~acme~a/pause"] {
        let form = Form { path: path.to_owned(), ..pause.clone() };
        assert_eq!(uma.submit(&form.with("proof", proof)).await.status, 404, "{path}");
    }
    assert_eq!(shared.get("ann", "/api/v1/releases/a").await.json()["state"], "Running");
    let page = ann.act("a", "pause", "ours").await;
    assert!(!page.contains("~acme~"), "{page}");
    // A tenant's approver has the forms that take that role, and no others.
    let abe = Browser::signed_in(&shared.world, Shared::secret("abe")).await;
    let page = abe.page("a").await;
    assert!(
        page.contains("<strong>Promote through all that is left</strong>") && !page.contains("Abort"),
        "{page}"
    );
    shared.world.stop().await;
}
