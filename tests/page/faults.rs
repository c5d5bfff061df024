//! What is wrong with a page for those who don't see it, see it otherwise, or have no pointer.

use serde_json::Value;

use crate::{
    browser::{Mode, Page},
    contrast,
};

/// The checker: `axe/README.md`.
const AXE: &str = include_str!("axe/axe.min.js");

/// All that it knows of WCAG 2.2 at level AA and of good practice. What couldn't be decided is a fault as well, except for contrast,
/// which is computed here.
const RUN: &str = r"/* awaited */
axe.run(document, {
  runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'],
  resultTypes: ['violations', 'incomplete'], preload: false, elementRef: false,
}).then(({ passes, violations, incomplete }) => ({
  passed: passes.length,
  faults: violations.concat(incomplete.filter((rule) => rule.id !== 'color-contrast')).flatMap((rule) =>
    rule.nodes.map((node) => `${rule.id}: ${rule.help}: ${node.html.slice(0, 200)} ${node.failureSummary ?? ''}`)),
}))";

/// What is wider than the window without a scroll bar of its own.
const WIDE: &str = r"
(() => {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return [];
  const scrolls = (at) => at && at !== document.body && at !== document.documentElement
    && (['auto', 'scroll', 'hidden', 'clip'].includes(getComputedStyle(at).overflowX) || scrolls(at.parentElement));
  const out = [...document.body.querySelectorAll('*')].filter((at) => at.getBoundingClientRect().right > width + 1
    && !scrolls(at.parentElement)).map((at) => `wider than the window of ${width}: ${at.outerHTML.slice(0, 160)}`);
  return out.length ? out : [`the document is ${document.documentElement.scrollWidth} wide in a window of ${width}`];
})()";

/// What is wrong with the page as it is looked at now.
pub async fn of(page: &Page) -> Vec<String> {
    let mut faults = Vec::new();
    let checked = page.evaluate_apart(&[AXE, RUN]).await.unwrap_or_else(|e| panic!("the checker: {e}"));
    assert!(checked["passed"].as_u64().unwrap() > 0, "the checker looked at nothing: {checked}");
    faults.extend(texts(&checked["faults"]));
    faults.extend(contrast::faint(page).await);
    faults.extend(wide(page).await);
    faults
}

/// What is wider than the window.
pub async fn wide(page: &Page) -> Vec<String> {
    texts(&page.evaluate_apart(&[WIDE]).await.unwrap_or_else(|e| panic!("{e}")))
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// Panics with all that is wrong with the page in any mode. It is light in the end.
pub async fn none(page: &Page) {
    let mut all = Vec::new();
    for mode in Mode::ALL {
        page.look(mode).await;
        all.extend(of(page).await.into_iter().map(|fault| format!("{}: {fault}", mode.name())));
    }
    page.look(Mode::Light).await;
    assert!(all.is_empty(), "{}: {all:#?}", page.address().await);
}
