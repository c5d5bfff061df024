//! Pages, read: their rows and what stands in them, as text.

use std::collections::BTreeMap;

use reqwest::{Client, header, redirect};
use serde_json::Value;

use crate::{
    http::tenants::Shared,
    world::{Answer, World, client, settled},
};

/// The rows of a table by their key, each with its fields by name.
pub type Rows = BTreeMap<String, BTreeMap<String, String>>;

/// A page, which must be one.
pub async fn page(world: &World, path: &str) -> String {
    html(world.get(path).await.ok())
}

#[expect(clippy::needless_pass_by_value, reason = "nobody has another use of it")]
pub fn html(answer: Answer) -> String {
    assert!(answer.header("content-type").starts_with("text/html"), "{answer:?}");
    assert!(answer.header("content-security-policy").starts_with("default-src 'none'"), "{answer:?}");
    answer.text()
}

/// Somebody who signs in with their token by the form, and then looks.
pub struct Browser {
    client: Client,
    base: String,
    cookie: String,
}

impl Browser {
    pub async fn of(shared: &Shared, who: &str) -> Self {
        let client = client().redirect(redirect::Policy::none()).build().unwrap();
        let base = format!("http://{}", shared.world.manager.address);
        let body = format!("token={}", Shared::secret(who));
        let form = client.post(format!("{base}/ui/sign-in")).body(body);
        let answer =
            form.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded").send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 303);
        let cookie = answer.headers().get(header::SET_COOKIE).unwrap().to_str().unwrap();
        let cookie = cookie.split(';').next().unwrap().to_owned();
        Self { client, base, cookie }
    }

    /// The status and the text.
    pub async fn get(&self, path: &str) -> (u16, String) {
        let asked = self.client.get(format!("{}{path}", self.base)).header(header::COOKIE, &self.cookie);
        let answer = asked.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }
}

/// What stands between two marks, from the first of them on.
fn between<'a>(text: &'a str, from: &str, to: &str) -> Option<(&'a str, &'a str)> {
    let (_, rest) = text.split_once(from)?;
    rest.split_once(to)
}

/// All rows of the page's tables.
pub fn rows(page: &str) -> Rows {
    let mut rows = Rows::new();
    let mut rest = page;
    while let Some((key, after)) = between(rest, "<tr data-key=\"", "\">") {
        let (row, after) = after.split_once("</tr>").unwrap();
        let is_new = rows.insert(decoded(key), fields(row)).is_none();
        assert!(is_new, "{key} has two rows");
        rest = after;
    }
    rows
}

/// The cells and facts that have a name.
pub fn fields(text: &str) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    let mut rest = text;
    while let Some((name, after)) = between(rest, " data-field=\"", "\">") {
        let before = rest.len() - after.len();
        let opened = rest[..before].rfind('<').unwrap();
        let tag: String = rest[opened + 1..].chars().take_while(char::is_ascii_alphanumeric).collect();
        let (inside, after) = after.split_once(&format!("</{tag}>")).unwrap();
        fields.insert(name.to_owned(), text_of(inside));
        rest = after;
    }
    fields
}

/// The text of a piece of a page, with one space for any number of them.
pub fn text_of(html: &str) -> String {
    let mut text = String::new();
    let mut is_tag = false;
    for c in html.chars() {
        match c {
            '<' => is_tag = true,
            '>' if is_tag => is_tag = false,
            _ if is_tag => {}
            other => text.push(other),
        }
    }
    decoded(&text).split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

fn decoded(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

/// A text of the API as it stands on a page, without the seconds that pass meanwhile.
pub fn said(value: &Value) -> String {
    let text = value.as_str().unwrap_or_default();
    settled(&text.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" "))
}

/// All items of a list of the API, page by page.
pub async fn all(world: &World, path: &str) -> Vec<Value> {
    let mark = if path.contains('?') { '&' } else { '?' };
    let (mut items, mut next) = (Vec::new(), path.to_owned());
    loop {
        let page = world.get(&next).await.ok().json();
        items.extend(page["items"].as_array().unwrap().iter().cloned());
        match page["next"].as_str() {
            Some(after) => next = format!("{path}{mark}after={after}"),
            None => return items,
        }
    }
}
