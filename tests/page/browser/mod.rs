//! A real browser: Chromium, driven over the `WebDriver` protocol and, for what that has no words for, the commands of its developer
//! tools (`goog/cdp/execute`).
//!
//! A client of our own over the JSON of the protocol, with the HTTP client that is there anyway. Clients that exist bring
//! an HTTP client and a stack of TLS of their own, and know nothing of the developer tools, by which nearly all of this is done.
//!
//! Elements are found as users of assistive technology find them, by role and name: what isn't named can't be tested, and shouldn't
//! be there. All that is done to them works in pages without scripts, too.
//!
//! Nothing waits for a time: [`Page::until`] looks until what is expected is there, for as long as [`DEADLINE`].

mod driver;
mod element;
mod emulate;
mod keys;

pub use self::{emulate::Mode, keys::Key};

use std::{panic::AssertUnwindSafe, path::Path, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures_util::FutureExt as _;
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, sleep},
};

use crate::deadline::DEADLINE;

/// How an expression begins that is awaited.
pub const AWAITED: &str = "/* awaited */";

/// Between two looks.
const LOOK: Duration = Duration::from_millis(25);

/// A browser is some ten processes.
const MOST_BROWSERS: usize = 2;

static BROWSERS: Semaphore = Semaphore::const_new(MOST_BROWSERS);

/// What each document does first: the reports of the content security policy go where all other reports go, to the console.
const REPORTS: &str = "document.addEventListener('securitypolicyviolation', (e) => console.error(\
    `content security policy: ${e.effectiveDirective} forbids ${e.blockedURI} ${e.sample} in ${e.sourceFile}:${e.lineNumber}`));";

const FLAGS: [&str; 12] = [
    "--headless",
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--window-size=1280,800",
    "--force-color-profile=srgb",
];

/// What a browser can draw with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Graphics {
    /// WebGL, by software.
    Software,
    /// Pages find no WebGL.
    None,
}

/// A window of a browser of its own, with a profile of its own.
pub struct Page {
    client: reqwest::Client,
    /// That of the session.
    url: String,
    _profile: TempDir,
    _turn: SemaphorePermit<'static>,
}

/// Gives a test a browser and ends that whatever becomes of the test. A page that reported something to the console that the
/// test did not take ([`Page::take_reports`]) has failed.
pub async fn browse<R>(test: impl AsyncFnOnce(&Page) -> R) -> R {
    browse_with(Graphics::Software, test).await
}

/// The same with other graphics.
pub async fn browse_with<R>(graphics: Graphics, test: impl AsyncFnOnce(&Page) -> R) -> R {
    let page = Page::open(graphics).await;
    let tested = AssertUnwindSafe(test(&page)).catch_unwind().await;
    let reports = page.reports().await;
    if tested.is_err() {
        let place = page.evaluate("location.href + '\\n' + document.body?.innerText").await;
        eprintln!(
            "the page when the test failed: {}",
            place.as_ref().map_or_else(String::as_str, |v| v.as_str().unwrap_or_default())
        );
        eprintln!("it reported: {reports:#?}");
    }
    page.close().await;
    match tested {
        Ok(result) => {
            assert!(reports.is_empty(), "the page reported: {reports:#?}");
            result
        }
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

impl Page {
    async fn open(graphics: Graphics) -> Self {
        let turn = BROWSERS.acquire().await.unwrap();
        let profile = tempfile::tempdir().unwrap();
        let mut flags: Vec<String> = FLAGS.map(str::to_owned).to_vec();
        flags.push(format!("--user-data-dir={}", profile.path().display()));
        flags.extend(match graphics {
            Graphics::Software => {
                ["--use-angle=swiftshader", "--enable-unsafe-swiftshader"].map(str::to_owned)
            }
            Graphics::None => ["--disable-gpu", "--disable-3d-apis"].map(str::to_owned),
        });
        let wanted = json!({"capabilities": {"alwaysMatch": {"goog:loggingPrefs": {"browser": "ALL"},
            "unhandledPromptBehavior": "ignore", "goog:chromeOptions": {"args": flags}}}});
        // No client is built without one. An error: it is installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().timeout(DEADLINE).build().unwrap();
        let sessions = format!("{}/session", driver::address());
        let session = call(&client, Method::POST, &sessions, &wanted)
            .await
            .unwrap_or_else(|e| panic!("no browser: {e}"));
        let id = session["sessionId"].as_str().unwrap();
        let page = Self { client, url: format!("{sessions}/{id}"), _profile: profile, _turn: turn };
        for (command, parameters) in [
            ("Page.enable", json!({})),
            ("Page.addScriptToEvaluateOnNewDocument", json!({"source": REPORTS})),
        ] {
            page.cdp(command, parameters).await.unwrap();
        }
        page
    }

    async fn close(&self) {
        let _: Result<Value, String> = call(&self.client, Method::DELETE, &self.url, &Value::Null).await;
    }

    async fn command(&self, method: Method, path: &str, body: &Value) -> Value {
        call(&self.client, method, &format!("{}{path}", self.url), body)
            .await
            .unwrap_or_else(|e| panic!("{path}: {e}"))
    }

    /// A command of the developer tools.
    pub async fn cdp(&self, command: &str, parameters: Value) -> Result<Value, String> {
        let url = format!("{}/goog/cdp/execute", self.url);
        call(&self.client, Method::POST, &url, &json!({"cmd": command, "params": parameters})).await
    }

    /// Goes to an address and waits until it is loaded.
    pub async fn go(&self, url: &str) {
        self.command(Method::POST, "/url", &json!({"url": url})).await;
    }

    pub async fn back(&self) {
        self.command(Method::POST, "/back", &json!({})).await;
    }

    pub async fn reload(&self) {
        self.command(Method::POST, "/refresh", &json!({})).await;
    }

    pub async fn address(&self) -> String {
        self.command(Method::GET, "/url", &Value::Null).await.as_str().unwrap().to_owned()
    }

    pub async fn title(&self) -> String {
        self.command(Method::GET, "/title", &Value::Null).await.as_str().unwrap().to_owned()
    }

    /// The value of an expression. The policy of the page doesn't bind what the test evaluates.
    pub async fn evaluate(&self, expression: &str) -> Result<Value, String> {
        valued(&self.cdp("Runtime.evaluate", json!({"expression": expression, "returnByValue": true})).await?)
    }

    /// What a promise comes to. None comes to anything where the page's scripts aren't run.
    pub async fn promised(&self, expression: &str) -> Result<Value, String> {
        let parameters = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        valued(&self.cdp("Runtime.evaluate", parameters).await?)
    }

    /// The value of the last expression, or what it promises, in a world of its own, which shares the document with the page and none of its scripts.
    pub async fn evaluate_apart(&self, expressions: &[&str]) -> Result<Value, String> {
        let tree = self.cdp("Page.getFrameTree", json!({})).await?;
        let frame = tree["frameTree"]["frame"]["id"].clone();
        let world =
            self.cdp("Page.createIsolatedWorld", json!({"frameId": frame, "worldName": "test"})).await?;
        let mut last = Value::Null;
        for expression in expressions {
            let parameters = json!({"expression": expression, "awaitPromise": expression.starts_with(AWAITED), "returnByValue": true,
                "contextId": world["executionContextId"]});
            last = valued(&self.cdp("Runtime.evaluate", parameters).await?)?;
        }
        Ok(last)
    }

    /// All that can be read on the page, as it is shown.
    pub async fn text(&self) -> String {
        let text = self.evaluate("document.body?.innerText ?? ''").await;
        text.unwrap_or_else(|e| panic!("{e}")).as_str().unwrap().to_owned()
    }

    /// Looks until what is asked for is there. What can't be asked, since the page is just being exchanged, is asked again.
    pub async fn until<T>(&self, what: &str, mut look: impl AsyncFnMut() -> Result<Option<T>, String>) -> T {
        let begin = Instant::now();
        let mut said = String::new();
        while begin.elapsed() < DEADLINE {
            match look().await {
                Ok(Some(found)) => return found,
                Ok(None) => said.clear(),
                Err(e) => said = e,
            }
            sleep(LOOK).await;
        }
        panic!("{what}: not within {DEADLINE:?} {said}");
    }

    /// Waits until a text can be read.
    pub async fn reads(&self, text: &str) {
        let expression = format!("(document.body?.innerText ?? '').includes({})", json!(text));
        self.holds(&expression).await;
    }

    /// Waits until an expression is true.
    pub async fn holds(&self, expression: &str) {
        self.until(expression, async || Ok(self.evaluate(expression).await?.as_bool().filter(|is| *is)))
            .await;
    }

    /// Does what leads to another document, and waits until that is loaded.
    pub async fn leave_by(&self, act: impl AsyncFnOnce()) {
        self.evaluate("document.isOld = true").await.unwrap();
        act().await;
        self.holds("document.isOld !== true && document.readyState === 'complete'").await;
    }

    /// Everything that was reported since this was asked last: errors and warnings of the console, of scripts, of what couldn't be
    /// loaded and of the content security policy.
    ///
    /// What the content security policy forbids is nothing that a test expects of a page: it panics.
    pub async fn take_reports(&self) -> Vec<String> {
        let reports = self.reports().await;
        let forbidden = reports.iter().any(|report| report.contains("content security policy: "));
        assert!(!forbidden, "{reports:#?}");
        reports
    }

    /// The same with what the content security policy forbids, for pages that are made to be faulty.
    pub async fn take_all_reports(&self) -> Vec<String> {
        self.reports().await
    }

    async fn reports(&self) -> Vec<String> {
        let url = format!("{}/se/log", self.url);
        let entries = call(&self.client, Method::POST, &url, &json!({"type": "browser"})).await;
        let entries = entries.unwrap_or_else(|e| panic!("the console can't be read: {e}"));
        let is_fault = |entry: &&Value| ["SEVERE", "WARNING"].iter().any(|level| entry["level"] == *level);
        entries
            .as_array()
            .unwrap()
            .iter()
            .filter(is_fault)
            .map(|entry| entry["message"].as_str().unwrap().to_owned())
            .collect()
    }

    /// A picture of the window, as PNG.
    pub async fn picture(&self) -> Vec<u8> {
        let text = self.command(Method::GET, "/screenshot", &Value::Null).await;
        STANDARD.decode(text.as_str().unwrap()).unwrap()
    }

    /// A picture of the window, small enough to be kept beside a text: WebP.
    pub async fn keep_picture(&self, path: &Path) {
        let taken =
            self.cdp("Page.captureScreenshot", json!({"format": "webp", "quality": 80})).await.unwrap();
        let bytes = STANDARD.decode(taken["data"].as_str().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
}

fn valued(answer: &Value) -> Result<Value, String> {
    match answer.get("exceptionDetails") {
        None => Ok(answer["result"]["value"].clone()),
        Some(fault) => Err(format!("{} {}", fault["text"], fault["exception"]["description"])),
    }
}

/// A call of the protocol: what it answers, or what it says is wrong.
async fn call(client: &reqwest::Client, method: Method, url: &str, body: &Value) -> Result<Value, String> {
    let request = client.request(method, url);
    let request = if body.is_null() { request } else { request.json(body) };
    let answer = request.send().await.map_err(|e| e.to_string())?;
    let is_done = answer.status().is_success();
    let mut answer: Value = answer.json().await.map_err(|e| e.to_string())?;
    let value = answer["value"].take();
    if is_done { Ok(value) } else { Err(format!("{}: {}", value["error"], value["message"])) }
}
