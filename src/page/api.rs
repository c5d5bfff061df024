//! Calls of the API within this process.

use axum::{
    body::{Body, to_bytes},
    http::{HeaderMap, Method, Request, StatusCode, header},
    response::Response,
};
use serde::de::DeserializeOwned;

use crate::{context::Page, fault::Fault, shared::Answer, visit::Visit};
use protocol::api;

/// Largest answer that a page is made from, in bytes.
const MAX_ANSWER: usize = 64 * 1024 * 1024;

/// What somebody asks of the API.
#[derive(Debug, Clone)]
pub struct Api<'a> {
    pub page: &'a Page,
    pub visit: &'a Visit,
}

impl<'a> Api<'a> {
    pub const fn new(page: &'a Page, visit: &'a Visit) -> Self {
        Self { page, visit }
    }

    /// Reads what is at a path, with its query.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Fault> {
        let put = async || {
            let answer = self.send(Method::GET, path, HeaderMap::new(), Body::empty()).await?;
            told(answer).await
        };
        let caller = &self.visit.session.caller;
        // Nobody waits before the page that he goes to.
        let answer =
            if self.visit.wants_middle { self.page.shared.ask(caller, path, put).await } else { put().await };
        understood(&answer?)
    }

    /// Reads what is at a path; `None`: there is nothing.
    pub async fn find<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, Fault> {
        match self.get(path).await {
            Ok(found) => Ok(Some(found)),
            Err(fault) if fault.status == StatusCode::NOT_FOUND => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// Sends a body in JSON, and reads the answer.
    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        mut headers: HeaderMap,
        body: &impl serde::Serialize,
    ) -> Result<T, Fault> {
        let body = serde_json::to_vec(body).map_err(|_| Fault::internal())?;
        headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
        read(self.send(Method::POST, path, headers, body.into()).await?).await
    }

    /// Calls, and leaves the answer as it is.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Body,
    ) -> Result<Response, Fault> {
        let request = Request::builder().method(method).uri(path).body(body);
        let mut request = request.map_err(|_| Fault::bad_request("this is no path of the API"))?;
        *request.headers_mut() = headers;
        Ok(self.page.operators.call(request, self.visit.session.caller.clone()).await)
    }
}

/// What an answer says, or why there is none.
pub async fn read<T: DeserializeOwned>(answer: Response) -> Result<T, Fault> {
    understood(&told(answer).await?)
}

/// An answer in full.
async fn told(answer: Response) -> Result<Answer, Fault> {
    let status = answer.status();
    let bytes = to_bytes(answer.into_body(), MAX_ANSWER).await.map_err(|_| Fault::internal())?;
    Ok((status, bytes))
}

fn understood<T: DeserializeOwned>((status, bytes): &Answer) -> Result<T, Fault> {
    if !status.is_success() {
        let problem: Option<api::Problem> = serde_json::from_slice(bytes).ok();
        return Err(Fault::answered(*status, problem));
    }
    serde_json::from_slice(bytes).map_err(|error| {
        tracing::error!(%error, "an answer of the API could not be read by the page");
        Fault::internal()
    })
}
