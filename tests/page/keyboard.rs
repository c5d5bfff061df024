//! The keyboard alone.

use crate::{
    browser::{Key, browse},
    clean::open,
    faults, states,
};

#[tokio::test]
async fn keys_lead_through_the_releases_and_are_explained() {
    let world = states::all().await;
    browse(async |page| {
        open(page, &world, "/releases").await;
        page.type_text("jjk").await;
        assert_eq!(page.focus().await, "link \"fifty\"");
        page.type_text("/").await;
        let field = page.focus().await;
        assert!(field.starts_with("searchbox"), "{field}");
        page.type_text("j?").await;
        assert_eq!(page.evaluate("document.activeElement.value").await.unwrap(), "j?");
        page.press(Key::Escape).await;
        page.press(Key::Escape).await;
        assert_eq!(page.evaluate("document.activeElement.id").await.unwrap(), "main");
        page.type_text("?").await;
        page.find("dialog", "Keys").await;
        faults::none(page).await;
        page.type_text("j").await;
        page.press(Key::Escape).await;
        page.gone("dialog", "Keys").await;
        page.type_text("j").await;
        page.leave_by(async || page.press(Key::Enter).await).await;
        assert!(page.address().await.ends_with("/ui/releases/fifty"));
    })
    .await;
    world.stop().await;
}

#[tokio::test]
async fn keys_of_one_character_can_be_turned_off() {
    let world = states::all().await;
    browse(async |page| {
        open(page, &world, "/releases").await;
        page.click("button", "Keys").await;
        page.click("checkbox", "Keys of a single character do what is said here").await;
        page.click("button", "Close").await;
        page.reload().await;
        page.holds("document.querySelector('#live-state').dataset.kind === 'live'").await;
        page.evaluate("document.querySelector('#main').focus()").await.unwrap();
        page.type_text("j?").await;
        assert_eq!(page.evaluate("document.activeElement.id").await.unwrap(), "main");
        assert_eq!(page.all("dialog", "Keys").await.unwrap().len(), 0);
        page.click("button", "Keys").await;
        page.find("dialog", "Keys").await;
    })
    .await;
    world.stop().await;
}

#[tokio::test]
async fn nothing_of_the_keys_is_there_without_scripts_and_pages_can_be_printed() {
    let world = states::all().await;
    browse(async |page| {
        page.scripts(false).await;
        page.go(&crate::clean::at(&world, "/releases")).await;
        assert_eq!(page.all("button", "Keys").await.unwrap().len(), 0);
        assert_eq!(page.all("dialog", "Keys").await.unwrap().len(), 0);
        page.on_paper().await;
        assert_eq!(page.all("button", "Filter").await.unwrap().len(), 0);
        let shown = page.text().await;
        assert!(shown.contains("fifty") && shown.contains("waits for approval"), "{shown}");
        assert_eq!(crate::contrast::faint(page).await, Vec::<String>::new());
    })
    .await;
    world.stop().await;
}
