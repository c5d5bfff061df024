//! The web page as browsers without scripts use it: pages, forms and cookies over plain HTTP.

mod actions;
mod assets;
mod children;
mod fresh;
mod maps;
mod read;
mod reader;
mod refused;
pub mod releases;
mod routing;
mod sessions;
mod states;
mod strategies;
mod traffic;
mod trail;
mod tree;

use reqwest::{Client, RequestBuilder, header, redirect::Policy};
use serde_json::Value;

use crate::{
    http::tenants::Shared,
    world::{Answer, World, client, strategy},
};

/// A browser that somebody sits at.
pub struct Browser {
    client: Client,
    address: String,
    pub cookie: Option<String>,
}

/// The form of an action, as a page has it.
#[derive(Debug, Clone)]
pub struct Form {
    pub path: String,
    pub fields: Vec<(String, String)>,
}

impl Form {
    /// With a field filled in, or changed.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.fields.retain(|(known, _)| known != name);
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        self.fields.retain(|(known, _)| known != name);
        self
    }
}

impl Browser {
    pub fn new(world: &World) -> Self {
        let client = client().redirect(Policy::none()).build().unwrap();
        Self { client, address: world.manager.address.to_string(), cookie: None }
    }

    /// One in which somebody signed in.
    pub async fn signed_in(world: &World, secret: &str) -> Self {
        let mut browser = Self::new(world);
        let answer = browser.send(browser.form("/ui/sign-in", &[("token", secret)])).await;
        assert_eq!((answer.status, answer.header("location")), (303, "/ui/releases"), "{}", answer.text());
        browser.cookie = Some(given(&answer));
        browser
    }

    pub fn request(&self, method: &str, path: &str) -> RequestBuilder {
        let url = format!("http://{}{path}", self.address);
        let request = self.client.request(method.parse().unwrap(), url);
        match &self.cookie {
            Some(cookie) => request.header(header::COOKIE, cookie),
            None => request,
        }
    }

    fn form(&self, path: &str, fields: &[(&str, &str)]) -> RequestBuilder {
        let pairs = fields.iter().map(|(name, value)| format!("{name}={}", encoded(value)));
        let body = pairs.collect::<Vec<_>>().join("&");
        let request = self.request("POST", path);
        request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded").body(body)
    }

    pub async fn send(&self, request: RequestBuilder) -> Answer {
        let answer = request.send().await.unwrap();
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        Answer { status, headers, body: answer.bytes().await.unwrap().to_vec() }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(self.request("GET", path)).await
    }

    /// What sends a form, to be changed before it is sent.
    pub fn sending(&self, form: &Form) -> RequestBuilder {
        let fields: Vec<_> =
            form.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        self.form(&form.path, &fields)
    }

    pub async fn submit(&self, form: &Form) -> Answer {
        self.send(self.sending(form)).await
    }

    /// The page of a release.
    pub async fn page(&self, release: &str) -> String {
        self.get(&format!("/ui/releases/{release}")).await.ok().text()
    }

    /// The form of an action on the page of a release.
    pub async fn find(&self, release: &str, action: &str) -> Form {
        let page = self.page(release).await;
        form_in(&page, action).unwrap_or_else(|| panic!("no form for {action} in {page}"))
    }

    /// Does something by its form, and follows to the page that says so.
    pub async fn act(&self, release: &str, action: &str, note: &str) -> String {
        let answer = self.submit(&self.find(release, action).await.with("note", note)).await;
        let to = format!("/ui/releases/{release}");
        assert_eq!((answer.status, answer.header("location")), (303, to.as_str()), "{}", answer.text());
        self.go_on(&answer).await.ok().text()
    }

    /// Goes where an answer sends it, with the cookie that this gave for there.
    pub async fn go_on(&self, answer: &Answer) -> Answer {
        let request = self.request("GET", answer.header("location"));
        self.send(request.header(header::COOKIE, given(answer))).await
    }
}

/// The cookie of a session that an answer gives, as it is sent back.
fn given(answer: &Answer) -> String {
    let cookie = answer.header("set-cookie");
    assert!(cookie.contains("; HttpOnly; SameSite=Strict"), "{cookie}");
    cookie.split(';').next().unwrap().to_owned()
}

fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |text, byte| text + &format!("%{byte:02X}"))
}

/// The form of an action in a page.
fn form_in(page: &str, action: &str) -> Option<Form> {
    let forms = page.split("<form class=\"action\"").skip(1);
    let form = forms.filter_map(|form| form.split("</form>").next());
    let form = form.into_iter().find(|form| form.contains(&format!("data-action=\"{action}\"")))?;
    let hidden = form.split("<input type=\"hidden\"").skip(1);
    let fields = hidden.map(|input| (attribute(input, "name"), attribute(input, "value")));
    Some(Form { path: attribute(form, "action"), fields: fields.collect() })
}

/// The form of what is done to one child, in a list of them.
fn form_of(page: &str, verb: &str, child: &str) -> Form {
    let (_, row) =
        page.split_once(&format!("data-key=\"{child}\"")).unwrap_or_else(|| panic!("no {child} in {page}"));
    let row = row.split("</tr>").next().unwrap();
    form_in(row, verb).unwrap_or_else(|| panic!("no form for {verb} in {row}"))
}

/// As it stands between the quotes; nothing in these tests is escaped there.
fn attribute(element: &str, name: &str) -> String {
    let start = format!(" {name}=\"");
    let (_, rest) = element.split_once(&start).unwrap_or_else(|| panic!("no {name} in {element}"));
    rest.split('"').next().unwrap().to_owned()
}

/// What a page says in the element with this opening tag.
fn said<'a>(page: &'a str, opening: &str) -> &'a str {
    let (_, rest) = page.split_once(opening).unwrap_or_else(|| panic!("no {opening} in {page}"));
    rest.split('<').next().unwrap()
}

async fn release(shared: &Shared, id: &str) -> Value {
    shared.get("root", &format!("/api/v1/releases/{id}")).await.ok().json()
}

/// With an approval before each of two waves.
fn waves(id: &str) -> String {
    format!("{}rollout: {{order: waves, waves: [1, 100%], approval: before_each_wave}}\n", strategy(id))
}
