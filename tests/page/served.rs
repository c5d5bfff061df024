//! Small pages that the tests serve themselves: what checks pages is tried on pages that are known to be wrong.

use axum::{
    Router,
    extract::{Query, State},
    response::{Html, IntoResponse as _, Response},
    routing::get,
};
use tokio::{net::TcpListener, task::JoinHandle};

/// As strict as that of the web page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

/// Serves one page at `/`, a style at `/style.css` and a script at `/script.js`, until it is dropped.
pub struct Served {
    pub url: String,
    serving: JoinHandle<()>,
}

#[derive(Clone, Copy)]
struct Texts {
    body: &'static str,
    style: &'static str,
    script: &'static str,
}

#[derive(serde::Deserialize)]
struct Said {
    #[serde(default)]
    said: String,
}

impl Served {
    /// `%SAID%` in the body is what the query says as `said`.
    pub async fn page(body: &'static str, style: &'static str, script: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let routes = Router::new()
            .route("/", get(page))
            .route(
                "/style.css",
                get(async |State(texts): State<Texts>| ([("content-type", "text/css")], texts.style)),
            )
            .route(
                "/script.js",
                get(async |State(texts): State<Texts>| ([("content-type", "text/javascript")], texts.script)),
            )
            .route("/favicon.ico", get(async || ()));
        let routes = routes.with_state(Texts { body, style, script });
        let serving = tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self { url, serving }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn page(State(texts): State<Texts>, Query(said): Query<Said>) -> Response {
    let body = texts.body.replace("%SAID%", &said.said);
    let html = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>A page</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><link rel=\"stylesheet\" href=\"/style.css\">\
         <script type=\"module\" src=\"/script.js\"></script></head><body>{body}</body></html>"
    );
    ([("content-security-policy", POLICY)], Html(html)).into_response()
}
