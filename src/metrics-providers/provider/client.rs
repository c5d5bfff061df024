//! One call: credentials, TLS, and limits on the answer.

use std::path::{Path, PathBuf};

use reqwest::{Client, RequestBuilder, redirect::Policy};

use super::error::{ProviderError, shown};
use language::analysis::providers::{Auth, ProviderSettings};

/// What an answer may have beside its points, in bytes: 64 KiB.
const ANSWER_FRAME_BYTES: usize = 64 * 1024;

/// What one point takes at most, in bytes: an instant, a number and what is between them.
const POINT_BYTES: usize = 64;

/// How much of an answer that is none is read for its text, in bytes.
const MAX_REFUSAL_BYTES: usize = 16 * 1024;

/// Longest file with a secret, in bytes.
const MAX_SECRET_BYTES: usize = 16 * 1024;

#[derive(Debug)]
pub struct Caller {
    client: Client,
    settings: ProviderSettings,
}

impl Caller {
    pub fn new(settings: &ProviderSettings) -> Result<Self, String> {
        let mut builder = Client::builder().redirect(Policy::none()).timeout(settings.timeout);
        if let Some(file) = &settings.ca_file {
            builder = builder.tls_certs_only(authorities(file)?);
        }
        let client = builder.build().map_err(|error| cause(&error))?;
        let caller = Self { client, settings: settings.clone() };
        caller.check_secret()?;
        Ok(caller)
    }

    /// A file that is missing is found at the start, not with the first release.
    fn check_secret(&self) -> Result<(), String> {
        let file = match &self.settings.auth {
            None => return Ok(()),
            Some(Auth::Bearer { token_file }) => token_file,
            Some(Auth::Basic { password_file, .. }) => password_file,
        };
        secret(std::fs::read(file), file).map(drop)
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    pub fn settings(&self) -> &ProviderSettings {
        &self.settings
    }

    /// The body of a good answer.
    pub async fn call(&self, request: RequestBuilder) -> Result<Vec<u8>, ProviderError> {
        let request = self.authorize(request).await?;
        let mut answer = request.send().await.map_err(|error| self.failed(&error))?;
        let status = answer.status();
        if status.is_redirection() {
            return Err(ProviderError::Redirected(status.as_u16()));
        }
        let good = status.is_success();
        let limit = ANSWER_FRAME_BYTES + POINT_BYTES * self.settings.max_points;
        let mut body = Vec::new();
        loop {
            let chunk = match answer.chunk().await {
                Ok(chunk) => chunk,
                // What is there of a refusal will do.
                Err(_) if !good => None,
                Err(error) if error.is_timeout() => return Err(self.failed(&error)),
                Err(error) => return Err(ProviderError::Broken(cause(&error))),
            };
            let Some(chunk) = chunk else { break };
            body.extend_from_slice(&chunk);
            if good && body.len() > limit {
                return Err(ProviderError::TooLarge(limit));
            }
            if !good && body.len() > MAX_REFUSAL_BYTES {
                break;
            }
        }
        if good {
            return Ok(body);
        }
        let (status, text) = (status.as_u16(), refusal(&body));
        Err(match status {
            400..500 => ProviderError::Refused { status, text },
            _ => ProviderError::Troubled { status, text },
        })
    }

    async fn authorize(&self, request: RequestBuilder) -> Result<RequestBuilder, ProviderError> {
        let read = async |file: PathBuf| {
            let bytes = tokio::fs::read(&file).await;
            secret(bytes, &file).map_err(ProviderError::Secret)
        };
        Ok(match &self.settings.auth {
            None => request,
            Some(Auth::Bearer { token_file }) => request.bearer_auth(read(token_file.clone()).await?),
            Some(Auth::Basic { username, password_file }) => {
                request.basic_auth(username, Some(read(password_file.clone()).await?))
            }
        })
    }

    fn failed(&self, error: &reqwest::Error) -> ProviderError {
        if error.is_timeout() {
            return ProviderError::Timeout(self.settings.timeout);
        }
        ProviderError::Unreachable(cause(error))
    }
}

/// The innermost reason, without the address, which may say more than everybody should know.
fn cause(error: &reqwest::Error) -> String {
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    if std::ptr::addr_eq(innermost, error) && error.url().is_some() {
        return "the call failed".to_owned();
    }
    shown(&innermost.to_string())
}

fn secret(bytes: std::io::Result<Vec<u8>>, file: &Path) -> Result<String, String> {
    let file = file.display();
    let bytes = bytes.map_err(|error| format!("{file}: {error}"))?;
    if bytes.len() > MAX_SECRET_BYTES {
        return Err(format!("{file} has more than {MAX_SECRET_BYTES} bytes"));
    }
    let text = String::from_utf8(bytes).map_err(|_| format!("{file} is no text"))?;
    let text = text.trim();
    if text.is_empty() || text.chars().any(char::is_control) {
        return Err(format!("{file} is empty or has more than one line"));
    }
    Ok(text.to_owned())
}

fn authorities(file: &Path) -> Result<Vec<reqwest::Certificate>, String> {
    let wrong = |why: String| format!("ca_file {}: {why}", file.display());
    let pem = std::fs::read(file).map_err(|error| wrong(error.to_string()))?;
    let list = reqwest::Certificate::from_pem_bundle(&pem).map_err(|error| wrong(error.to_string()))?;
    if list.is_empty() { Err(wrong("holds no certificate".to_owned())) } else { Ok(list) }
}

/// What a refusal says: `error` of a JSON object, as Prometheus has it, or its text.
fn refusal(body: &[u8]) -> String {
    #[derive(serde::Deserialize)]
    struct Refusal {
        error: String,
    }
    match serde_json::from_slice::<Refusal>(body) {
        Ok(refusal) => shown(&refusal.error),
        Err(_) => shown(&String::from_utf8_lossy(body)),
    }
}
