//! What checks pages finds what is wrong with them: pages that are wrong in one way each, and one that isn't.

use crate::{
    browser::{Graphics, Key, Mode, browse, browse_with},
    contrast, faults,
    served::Served,
};

const GOOD: &str = "<main><h1>Releases</h1><p id=said>%SAID%</p><label>Name <input name=said></label> \
     <button id=b type=button>Approve</button> <a href=\"?said=gone\">Go on</a></main>";

const STYLE: &str = ":root { color-scheme: light dark; } body { color: #222; background: #fff; font: 1rem/1.5 sans-serif } \
     a { color: #0645ad; padding: 1rem } button { min-height: 2rem; min-width: 2rem } \
     @media (prefers-color-scheme: dark) { body { color: #ddd; background: #111 } a { color: #8ab4f8 } }";

const COUNTS: &str =
    "let n = 0; b.addEventListener('click', () => { said.textContent = `approved ${++n}`; });";

#[tokio::test]
async fn a_page_without_faults_has_none_in_any_mode() {
    let served = Served::page(GOOD, STYLE, COUNTS).await;
    browse(async |page| {
        page.go(&served.url).await;
        faults::none(page).await;
    })
    .await;
}

#[tokio::test]
async fn each_kind_of_fault_is_found() {
    let good = "<main><h1>One</h1><p>A text</p></main>";
    let cases = [
        ("image-alt", "<main><h1>One</h1><img src=/favicon.ico></main>", STYLE),
        ("button-name", "<main><h1>One</h1><button></button></main>", STYLE),
        ("label", "<main><h1>One</h1><input></main>", STYLE),
        ("contrast 2.85", good, "body { color: #999; background: #fff }"),
        ("contrast 1.", good, "p { opacity: 0.2 }"),
        ("it lies on a picture", good, "p { background: linear-gradient(red, blue) }"),
        ("wider than the window", good, "p { width: 200vw }"),
        ("nested-interactive", "<main><h1>One</h1><button>a<a href=/>b</a></button></main>", STYLE),
        (
            "target-size",
            "<main><h1>One</h1><button class=s>a</button><button class=s>b</button></main>",
            ".s{display:inline-block;width:9px;height:9px;overflow:hidden;padding:0;border:0}",
        ),
    ];
    browse(async |page| {
        for (expected, body, style) in cases {
            let served = Served::page(body, style, "").await;
            page.go(&served.url).await;
            let found = faults::of(page).await;
            assert!(found.iter().any(|fault| fault.contains(expected)), "{expected}: {found:#?}");
        }
        page.take_reports().await;
    })
    .await;
}

#[tokio::test]
async fn a_fault_of_one_mode_is_found_in_that() {
    let dark = "@media (prefers-color-scheme: dark) { body { background: #111; color: #333 } }";
    let served = Served::page("<main><h1>One</h1><p>Text</p></main>", dark, "").await;
    browse(async |page| {
        page.go(&served.url).await;
        assert_eq!(faults::of(page).await, Vec::<String>::new());
        page.look(Mode::Dark).await;
        assert!(!contrast::faint(page).await.is_empty());
        page.look(Mode::Forced).await;
        assert_eq!(contrast::faint(page).await, Vec::<String>::new());
    })
    .await;
}

#[tokio::test]
async fn what_the_policy_forbids_is_reported_with_and_without_scripts_of_the_page() {
    let inline =
        Served::page("<h1 style='color: red'>One</h1><script>document.title = 'taken over'</script>", "", "")
            .await;
    let sink = Served::page("<h1 id=h>One</h1>", "", "try { h.innerHTML = '<b>two</b>'; } catch {}").await;
    browse(async |page| {
        page.go(&inline.url).await;
        let reports = page.take_all_reports().await.join("\n");
        assert!(reports.contains("script-src-elem forbids inline"), "{reports}");
        assert!(reports.contains("style-src-attr forbids inline"), "{reports}");
        assert_eq!(page.title().await, "A page");
        page.go(&sink.url).await;
        let reports = page.take_all_reports().await.join("\n");
        assert!(reports.contains("require-trusted-types-for forbids"), "{reports}");
    })
    .await;
}

#[tokio::test]
async fn an_error_that_no_script_catches_is_reported() {
    let served = Served::page("<h1>One</h1>", "", "fetch('/nothing'); nobody.knows();").await;
    browse(async |page| {
        page.go(&served.url).await;
        let mut reports = String::new();
        page.until("both reports", async || {
            reports += &page.take_reports().await.join("\n");
            Ok((reports.contains("nobody is not defined") && reports.contains("404")).then_some(()))
        })
        .await;
    })
    .await;
}

#[tokio::test]
#[should_panic(expected = "the page reported")]
async fn a_test_whose_page_reported_something_fails() {
    let served = Served::page("<h1>One</h1>", "", "console.error('oh')").await;
    browse(async |page| {
        page.go(&served.url).await;
        page.holds("document.readyState === 'complete'").await;
    })
    .await;
}

#[tokio::test]
async fn pages_are_used_by_pointer_and_by_keyboard() {
    let served = Served::page(GOOD, STYLE, COUNTS).await;
    browse(async |page| {
        page.go(&served.url).await;
        page.click("button", "Approve").await;
        page.reads("approved 1").await;
        page.clicks("button", "Approve", 2).await;
        page.reads("approved 3").await;
        page.fill("Name", "<b>ü").await;
        let field = page.find("textbox", "Name").await;
        assert_eq!(page.on(field, "function() { return this.value; }").await.unwrap(), "<b>ü");
        let stops = page.tab_stops().await;
        assert_eq!(stops, ["textbox \"Name\"", "button \"Approve\"", "link \"Go on\""]);
        page.evaluate("document.querySelector('input').focus()").await.unwrap();
        page.press(Key::Tab).await;
        page.press(Key::Space).await;
        page.reads("approved 4").await;
        page.press(Key::Tab).await;
        page.leave_by(async || page.press(Key::Enter).await).await;
        assert_eq!(page.text_of("paragraph", "").await, "gone");
        page.back().await;
        page.reload().await;
        assert_eq!(page.text_of("paragraph", "").await, "");
        assert!(page.picture().await.starts_with(b"\x89PNG"));
    })
    .await;
}

#[tokio::test]
async fn what_lies_below_something_else_is_not_clicked() {
    let style = "#over { position: fixed; inset: 0; background: #fff }";
    let script = "addEventListener('click', () => { document.title = 'clicked'; }); \
         if (location.search) over.remove();";
    let served = Served::page("<button>Below</button><div id=over>Over</div>", style, script).await;
    browse(async |page| {
        page.go(&served.url).await;
        let button = page.find("button", "Below").await;
        let covered = page
            .on(
                button,
                "function() { const r = this.getBoundingClientRect(); \
            return document.elementFromPoint(r.x + r.width / 2, r.y + r.height / 2).id; }",
            )
            .await;
        assert_eq!(covered.unwrap(), "over");
        page.go(&format!("{}?now", served.url)).await;
        page.click("button", "Below").await;
        page.holds("document.title === 'clicked'").await;
    })
    .await;
}

#[tokio::test]
async fn pages_without_scripts_are_used_as_others_are() {
    let served = Served::page(GOOD, STYLE, COUNTS).await;
    browse(async |page| {
        page.scripts(false).await;
        page.go(&served.url).await;
        page.click("button", "Approve").await;
        page.leave_by(async || page.click("link", "Go on").await).await;
        page.reads("gone").await;
        assert!(!page.text().await.contains("approved"));
        assert_eq!(contrast::faint(page).await, Vec::<String>::new());
    })
    .await;
}

#[tokio::test]
async fn clocks_zones_and_lines_are_what_the_test_says() {
    let served = Served::page("<h1>One</h1>", "", "").await;
    browse(async |page| {
        page.zone("Pacific/Chatham").await;
        page.clock_off(-3).await;
        page.go(&served.url).await;
        let zone = page.evaluate("Intl.DateTimeFormat().resolvedOptions().timeZone").await.unwrap();
        assert_eq!(zone, "Pacific/Chatham");
        let off = page.evaluate("performance.timeOrigin + performance.now() - Date.now()").await.unwrap();
        assert!((off.as_f64().unwrap() / 3_600_000.0 - 3.0).abs() < 0.1, "{off}");
        assert_eq!(
            page.evaluate("matchMedia('(prefers-reduced-motion: reduce)').matches").await.unwrap(),
            false
        );
        page.media(&[("prefers-reduced-motion", "reduce")]).await;
        assert_eq!(
            page.evaluate("matchMedia('(prefers-reduced-motion: reduce)').matches").await.unwrap(),
            true
        );
        page.on_paper().await;
        assert_eq!(page.evaluate("matchMedia('print').matches").await.unwrap(), true);
        page.offline(true).await;
        let fetched = page.promised("fetch('/').then(() => 'there', () => 'no line')").await.unwrap();
        assert_eq!(fetched, "no line");
        page.offline(false).await;
        let fetched = page.promised("fetch('/').then(() => 'there', () => 'no line')").await.unwrap();
        assert_eq!(fetched, "there");
        page.take_reports().await;
    })
    .await;
}

#[tokio::test]
async fn text_is_twice_as_large_and_windows_are_as_narrow_as_the_mode_says() {
    let served = Served::page("<h1>One</h1><p>Text</p>", "p { font-size: 1rem }", "").await;
    let size = "getComputedStyle(document.querySelector('p')).fontSize + ' ' + innerWidth";
    browse(async |page| {
        page.go(&served.url).await;
        for (mode, expected) in
            [(Mode::LargeText, "32px 1280"), (Mode::Phone, "16px 320"), (Mode::Light, "16px 1280")]
        {
            page.look(mode).await;
            assert_eq!(page.evaluate(size).await.unwrap(), expected, "{mode:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn webgl_is_there_unless_the_test_takes_it_away() {
    let served = Served::page("<h1>One</h1>", "", "").await;
    let has = "document.createElement('canvas').getContext('webgl2') !== null";
    for (graphics, expected) in [(Graphics::Software, true), (Graphics::None, false)] {
        browse_with(graphics, async |page| {
            page.go(&served.url).await;
            assert_eq!(page.evaluate(has).await.unwrap(), expected, "{graphics:?}");
            page.take_reports().await;
        })
        .await;
    }
}
