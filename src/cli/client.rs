//! The manager's API, as the commands call it.

use std::{
    collections::VecDeque,
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
    time::Duration,
};

use reqwest::{Certificate, Method, RequestBuilder, Response, StatusCode, Url, header};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    context::{file::Contexts, used},
    failure::{self, Failure},
};
use model::Secret;
use protocol::api::{Child, Diagnostic, Note, Page, Problem};

/// A connection must be there within this time.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// An answer must be whole within this time; a submission may carry megabytes over a slow line.
pub const ANSWER_TIMEOUT: Duration = Duration::from_mins(2);

/// Entries asked for at once.
const PAGE: usize = 500;

/// Managers of one manager that a list over the tree goes into.
const MAX_MANAGERS: usize = 10_000;

/// Least characters of a child's id by which it may be named.
const SHORTEST_ID: usize = 4;

/// Children that are listed where a name may be that of several.
const MAX_CANDIDATES: usize = 5;

/// Of no more children of one name it is asked which of them leads a router.
const MAX_ASKED: usize = 20;

/// Longest answer that is no problem document and is shown all the same, in characters.
const MAX_SHOWN: usize = 300;

/// Where a manager is that nobody has named.
pub const DEFAULT_URL: &str = "http://127.0.0.1:9991";

/// Largest file of certificates that is read, in bytes.
const MAX_CA_BYTES: u64 = 4 * 1024 * 1024;

/// Which manager, and who asks.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Manager")]
pub struct Connection {
    /// Address of the manager [default: that of the context, else http://127.0.0.1:9991]
    #[arg(long, value_name = "URL", env = "CHOIRMASTER_URL")]
    url: Option<String>,
    /// File with the token of an operator; CHOIRMASTER_TOKEN may hold the token itself
    #[arg(long, value_name = "FILE", env = "CHOIRMASTER_TOKEN_FILE")]
    token_file: Option<PathBuf>,
    /// PEM of the authorities of the manager's certificate [default: those that this machine trusts]
    #[arg(long, value_name = "FILE", env = "CHOIRMASTER_CA")]
    ca: Option<PathBuf>,
    /// Context that says what is not said here (choirmaster context) [default: the current one, unless an address is given]
    #[arg(long, value_name = "NAME", env = "CHOIRMASTER_CONTEXT")]
    context: Option<String>,
}

impl Connection {
    /// To an address, whatever contexts there are.
    pub fn to(url: impl Into<String>) -> Self {
        Self { url: Some(url.into()), token_file: None, ca: None, context: None }
    }

    /// The same with all that the context says; flags and variables win. What that says beside an address holds for its own address alone, so
    /// that no other one gets its token.
    fn completed(&self) -> Result<CompleteConnection, Failure> {
        let given = |text: Option<&String>| text.filter(|text| !text.is_empty()).cloned();
        let (url, named) = (given(self.url.as_ref()), given(self.context.as_ref()));
        let contexts = if url.is_some() && named.is_none() { Contexts::default() } else { Contexts::load()? };
        let context = contexts.meant(named.as_deref())?;
        if let Some((name, _)) = context {
            used::note(name);
        }
        let context = context.map(|(_, context)| context);
        let url = url.or_else(|| Some(context?.url.clone())).unwrap_or_else(|| DEFAULT_URL.to_owned());
        let own = context.filter(|context| context.url.trim_end_matches('/') == url.trim_end_matches('/'));
        let token = match (&self.token_file, std::env::var("CHOIRMASTER_TOKEN")) {
            (Some(file), _) => Some(read_token(file)?),
            (None, Ok(token)) if !token.is_empty() => Some(Secret::new(token)),
            (None, _) => own.and_then(|own| own.token_file.as_deref()).map(read_token).transpose()?,
        };
        let ca = self.ca.clone().or_else(|| own?.ca.clone());
        Ok(CompleteConnection { url, token, ca })
    }
}

/// All that a client is made of.
struct CompleteConnection {
    url: String,
    token: Option<Secret>,
    ca: Option<PathBuf>,
}

fn read_token(file: &Path) -> Result<Secret, Failure> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        Failure::user(format!("the token's file {} can't be read: {error}", file.display()))
    })?;
    Ok(Secret::new(text.trim()))
}

/// An address of a manager.
pub fn address(url: &str) -> Result<Url, Failure> {
    let wrong = |why: &str| {
        Failure::user(format!("{url:?} is no address of a manager ({why}): it looks like {DEFAULT_URL}"))
    };
    let address = Url::parse(url).map_err(|error| wrong(&error.to_string()))?;
    if !matches!(address.scheme(), "http" | "https") || address.cannot_be_a_base() {
        return Err(wrong("not http or https"));
    }
    Ok(address)
}

/// The authorities in a file of PEM, of which there is one at least.
pub fn authorities(file: &Path) -> Result<Vec<Certificate>, Failure> {
    let wrong = |why: &str| Failure::user(format!("the authorities in {}: {why}", file.display()));
    let mut pem = Vec::new();
    let read = File::open(file).and_then(|opened| opened.take(MAX_CA_BYTES).read_to_end(&mut pem));
    read.map_err(|error| wrong(&format!("they can't be read: {error}")))?;
    let all = Certificate::from_pem_bundle(&pem).map_err(|error| wrong(&error.to_string()))?;
    if all.is_empty() { Err(wrong("it holds no certificate in PEM")) } else { Ok(all) }
}

/// What a list takes beside what it is to hold.
#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = most)]
    pub limit: usize,
    /// Print a JSON array
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connection: Connection,
}

/// What is noted of an operator's action in the audit trail.
#[derive(Debug, Clone, clap::Args)]
pub struct AuditNote {
    /// Who acts, for the audit trail
    #[arg(long, value_name = "NAME", env = "USER", hide_env_values = true)]
    pub by: Option<String>,
    /// Why, for the audit trail
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
}

impl AuditNote {
    pub fn body(&self) -> Note {
        // A shell without a user sets the variable to nothing.
        Note { by: self.by.clone().filter(|by| !by.is_empty()), note: self.note.clone() }
    }
}

/// Why there is no answer that could be used.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    #[error("no manager answers at {url}: {why}\n{}", unreachable(.why))]
    Unreachable { url: String, why: String },
    #[error("{}", refused(.0))]
    Refused(Box<Problem>),
    #[error("the answer of {url} can't be read: {why}\nIs a Choirmaster of this version listening there?")]
    Unreadable { url: String, why: String },
}

/// What to do about a manager that does not answer.
fn unreachable(why: &str) -> &'static str {
    if why.contains("certificate") {
        "If its certificate is of an authority of your own, name that one's PEM file with --ca, or in the context."
    } else {
        "Is it running (choirmaster serve)? Another address goes into --url, CHOIRMASTER_URL or a context."
    }
}

/// A refusal in words.
fn refused(problem: &Problem) -> String {
    let text = if problem.detail.is_empty() { &problem.title } else { &problem.detail };
    let is_of_role =
        ["missing-role", "whole-manager", "unknown-tenant"].iter().any(|of| problem.kind.ends_with(of));
    match problem.status {
        403 if is_of_role => {
            format!("{text}\nWith another token it may be done: name its file with --token-file.")
        }
        401 | 403 => format!(
            "{text}\nThe manager wants the token of an operator: name its file with --token-file, or set \
             CHOIRMASTER_TOKEN."
        ),
        503 => format!("{text}\nTry again in a moment."),
        _ => text.clone(),
    }
}

impl CallError {
    /// Whether the same call may do better in a while: the manager restarts, or its store is away.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused(problem) => matches!(problem.status, 429 | 502 | 503 | 504),
            Self::Unreadable { .. } => false,
        }
    }

    /// Its first line, without what to do about it.
    fn in_short(&self) -> String {
        self.to_string().lines().next().unwrap_or_default().to_owned()
    }

    pub fn diagnostics(&self) -> &[Diagnostic] {
        match self {
            Self::Refused(problem) => &problem.diagnostics,
            _ => &[],
        }
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        let code = match &error {
            CallError::Refused(problem) if (400..500).contains(&problem.status) => failure::USER,
            CallError::Refused(_) | CallError::Unreachable { .. } | CallError::Unreadable { .. } => {
                failure::OURS
            }
        };
        Self { code, text: error.to_string() }
    }
}

/// A manager that can be called.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    token: Option<Secret>,
}

impl Client {
    pub fn new(connection: &Connection) -> Result<Self, Failure> {
        let CompleteConnection { url, token, ca } = connection.completed()?;
        let base = address(&url)?;
        let mut http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .user_agent(concat!("choirmaster/", env!("CARGO_PKG_VERSION")));
        if let Some(file) = &ca {
            http = http.tls_certs_only(authorities(file)?);
        }
        let http = http.build().map_err(|error| Failure::ours(format!("no HTTP client: {error}")))?;
        Ok(Self { http, base, token })
    }

    pub fn base(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// Which manager it calls, for people.
    pub fn manager(&self) -> String {
        let context = used::name().map(|name| format!("context {name}, ")).unwrap_or_default();
        format!("{context}{}", self.base())
    }

    /// A request to a path; its parts may hold any character.
    pub fn request(&self, method: Method, path: &[&str]) -> RequestBuilder {
        let mut url = self.base.clone();
        if let Ok(mut parts) = url.path_segments_mut() {
            parts.pop_if_empty().extend(path);
        }
        let request = self.http.request(method, url);
        match &self.token {
            Some(token) => request.bearer_auth(token.reveal()),
            None => request,
        }
    }

    /// Sends a request and waits for an answer that is no refusal.
    pub async fn send(&self, request: RequestBuilder) -> Result<Response, CallError> {
        let answer = request.send().await.map_err(|error| self.unreachable(&error))?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let (status, url) = (answer.status(), answer.url().to_string());
        let text = answer.text().await.unwrap_or_default();
        Err(CallError::Refused(Box::new(problem(status, &url, &text))))
    }

    async fn json<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, CallError> {
        let answer = self.send(request.timeout(ANSWER_TIMEOUT)).await?;
        let url = answer.url().to_string();
        let body = answer.bytes().await.map_err(|error| self.unreachable(&error))?;
        serde_json::from_slice(&body).map_err(|why| CallError::Unreadable { url, why: why.to_string() })
    }

    fn unreachable(&self, error: &reqwest::Error) -> CallError {
        // The innermost cause is the one that says something: connection refused, and not "error sending request".
        let mut cause: &dyn std::error::Error = error;
        while let Some(inner) = cause.source() {
            cause = inner;
        }
        CallError::Unreachable { url: self.base().to_owned(), why: cause.to_string() }
    }

    pub async fn get<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<T, CallError> {
        self.json(self.request(Method::GET, path).query(query)).await
    }

    /// An answer that is text.
    pub async fn text(&self, path: &[&str]) -> Result<String, CallError> {
        let answer = self.send(self.request(Method::GET, path).timeout(ANSWER_TIMEOUT)).await?;
        answer.text().await.map_err(|error| self.unreachable(&error))
    }

    /// The id of the child that is meant: by its id, the beginning of that, or its name, where no other child has the same.
    pub async fn child_id(&self, given: &str) -> Result<String, Failure> {
        let Some(unknown) = self.unknown_child(given).await else { return Ok(given.to_owned()) };
        let found = self.children_named(given, &[]).await?;
        only(given, &found)?.ok_or_else(|| unknown.into())
    }

    /// The same of the child that leads a router: another that is called so is not meant.
    pub async fn router_id(&self, given: &str) -> Result<String, Failure> {
        let Some(unknown) = self.unknown_child(given).await else { return Ok(given.to_owned()) };
        let mut found = self.children_named(given, &[]).await?;
        if (2..=MAX_ASKED).contains(&found.len()) {
            let mut leading = Vec::new();
            for child in &found {
                let path = ["api", "v1", "routers", &child.id];
                if self.get::<serde_json::Value>(&path, &[]).await.is_ok() {
                    leading.push(child.clone());
                }
            }
            if !leading.is_empty() {
                found = leading;
            }
        }
        only(given, &found)?.ok_or_else(|| unknown.into())
    }

    /// The same where it is for the manager to say that there is no such child: what was given then.
    pub async fn child_id_or_given(&self, given: &str) -> Result<String, Failure> {
        let found = self.children_named(given, &[]).await?;
        Ok(only(given, &found)?.unwrap_or_else(|| given.to_owned()))
    }

    /// Ids of managers below that lead to one, with a `/` between, where ids, beginnings of ids or names are given.
    pub async fn managers(&self, given: &str) -> Result<String, Failure> {
        let mut path = String::new();
        for part in given.split('/') {
            let below = (!path.is_empty()).then_some(("below", path.as_str()));
            let query: Vec<(&str, &str)> = [("kind", "rm")].into_iter().chain(below).collect();
            let found = self.children_named(part, &query).await?;
            let id = only(part, &found)?.unwrap_or_else(|| part.to_owned());
            path = if path.is_empty() { id } else { format!("{path}/{id}") };
        }
        Ok(path)
    }

    /// The refusal, where no child has just this id.
    async fn unknown_child(&self, id: &str) -> Option<CallError> {
        let whole: Result<serde_json::Value, CallError> = self.get(&["api", "v1", "children", id], &[]).await;
        match whole {
            Err(CallError::Refused(problem)) if problem.status == 404 => Some(CallError::Refused(problem)),
            // Whatever else went wrong, the call that follows says it better.
            _ => None,
        }
    }

    /// Children that may be meant.
    async fn children_named(&self, given: &str, query: &[(&str, &str)]) -> Result<Vec<Child>, CallError> {
        let query: Vec<(&str, &str)> = query.iter().copied().chain([("named", given)]).collect();
        let (mut found, _) = self.list::<Child>(&["api", "v1", "children"], &query, usize::MAX).await?;
        // A manager below of another version lists all that it has.
        found.retain(|child| {
            let begins = given.len() >= SHORTEST_ID && child.id.starts_with(given);
            child.id == given || child.name.as_deref() == Some(given) || begins
        });
        Ok(found)
    }

    /// Does something to a child or a release; what it is like then is left out.
    pub async fn act(&self, method: Method, path: &[&str], body: &impl Serialize) -> Result<(), CallError> {
        self.send(self.request(method, path).json(body).timeout(ANSWER_TIMEOUT)).await.map(|_| ())
    }

    /// Sends a body and reads the answer.
    pub async fn post<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, CallError> {
        self.json(request).await
    }

    /// Opens a stream of events that goes on after `last`.
    pub async fn events(&self, release: Option<&str>, last: Option<&str>) -> Result<Response, CallError> {
        let mut request = self.request(Method::GET, &["events"]).header(header::ACCEPT, "text/event-stream");
        if let Some(release) = release {
            request = request.query(&[("release", release)]);
        }
        if let Some(last) = last {
            request = request.header("Last-Event-ID", last);
        }
        self.send(request).await
    }

    /// A list's entries up to a limit, page after page, and whether there are more.
    pub async fn list<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
        limit: usize,
    ) -> Result<(Vec<T>, bool), CallError> {
        let mut items = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let size = (limit - items.len()).min(PAGE).to_string();
            let mut query = query.to_vec();
            query.push(("limit", &size));
            query.extend(after.as_deref().map(|after| ("after", after)));
            let page: Page<T> = self.get(path, &query).await?;
            // A page may be empty and go on all the same: what lay in between was not for the caller.
            let goes_on = page.next.is_some() && page.next != after;
            items.extend(page.items);
            after = page.next;
            if !goes_on || items.len() >= limit {
                return Ok((items, after.is_some()));
            }
        }
    }
}

impl Client {
    /// The entries of a list that is a plain array in the order of names, up to a limit, and whether there are more.
    pub async fn list_by_name<T: DeserializeOwned>(
        &self,
        path: &[&str],
        limit: usize,
        name: impl Fn(&T) -> &str,
    ) -> Result<(Vec<T>, bool), CallError> {
        let mut items: Vec<T> = Vec::new();
        loop {
            // One more than is wanted tells whether there are more.
            let size = limit.saturating_add(1).saturating_sub(items.len()).min(PAGE);
            let (text, after) = (size.to_string(), items.last().map(|last| name(last).to_owned()));
            let query = [("limit", Some(&*text)), ("after", after.as_deref())];
            let query: Vec<(&str, &str)> =
                query.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
            let page: Vec<T> = self.get(path, &query).await?;
            let is_last = page.len() < size;
            items.extend(page);
            if is_last || items.len() > limit {
                let more = items.len() > limit;
                items.truncate(limit);
                return Ok((items, more));
            }
        }
    }
}

/// The id of the one that is meant; `None`: nobody is called so.
fn only(given: &str, found: &[Child]) -> Result<Option<String>, Failure> {
    if let Some(exact) = found.iter().find(|child| child.id == given) {
        return Ok(Some(exact.id.clone()));
    }
    match found {
        [] => Ok(None),
        [one] => Ok(Some(one.id.clone())),
        several => {
            let shown = several.iter().take(MAX_CANDIDATES).map(|child| match &child.name {
                Some(name) => format!("{} ({name})", child.id),
                None => child.id.clone(),
            });
            let shown = shown.collect::<Vec<_>>().join(", ");
            let rest = match several.len().saturating_sub(MAX_CANDIDATES) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            Err(Failure::user(format!(
                "{given} may be {shown}{rest}: write more of the id of the one that you mean"
            )))
        }
    }
}

/// How many items a list may have, as somebody writes it.
pub fn most(text: &str) -> Result<usize, String> {
    let most = text.parse().ok().filter(|most| *most > 0);
    most.ok_or_else(|| "it is a whole number from 1".to_owned())
}

/// A list over a whole tree.
#[derive(Debug)]
pub struct Tree<T> {
    /// Each with the managers that lead to it, a `/` behind each: `middle/`.
    pub items: Vec<(String, T)>,
    pub more: bool,
    /// Managers that were not heard, and why.
    pub unheard: Vec<(String, String)>,
}

impl Client {
    /// The items of a list of this manager and of every manager below it, each asked for its own.
    pub async fn list_tree<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
        limit: usize,
    ) -> Result<Tree<T>, CallError> {
        let mut tree = Tree { items: Vec::new(), more: false, unheard: Vec::new() };
        let mut managers = VecDeque::from([String::new()]);
        while let Some(manager) = managers.pop_front() {
            if tree.items.len() >= limit {
                tree.more = true;
                break;
            }
            let at = (!manager.is_empty()).then_some(("below", manager.as_str()));
            let query: Vec<(&str, &str)> = query.iter().copied().chain(at).collect();
            let found = self.list::<T>(path, &query, limit - tree.items.len()).await;
            let prefix = if manager.is_empty() { String::new() } else { format!("{manager}/") };
            match found {
                Ok((items, more)) => {
                    tree.items.extend(items.into_iter().map(|item| (prefix.clone(), item)));
                    tree.more |= more;
                }
                Err(error) if manager.is_empty() => return Err(error),
                Err(error) => {
                    tree.unheard.push((manager, error.in_short()));
                    continue;
                }
            }
            let of_managers: Vec<(&str, &str)> = [("kind", "rm")].into_iter().chain(at).collect();
            match self.list::<Child>(&["api", "v1", "children"], &of_managers, MAX_MANAGERS).await {
                Ok((below, more)) => {
                    managers.extend(below.into_iter().map(|child| format!("{prefix}{}", child.id)));
                    tree.more |= more;
                }
                Err(error) if manager.is_empty() => return Err(error),
                Err(error) => tree.unheard.push((format!("what is below {manager}"), error.in_short())),
            }
        }
        Ok(tree)
    }
}

/// The problem that a refusal carries; one is made up where it carries none.
fn problem(status: StatusCode, url: &str, text: &str) -> Problem {
    serde_json::from_str(text).unwrap_or_else(|_| {
        let shown: String = text.trim().chars().take(MAX_SHOWN).filter(|c| !c.is_control()).collect();
        let shown = if shown.is_empty() { "no reason given".to_owned() } else { shown };
        Problem {
            kind: "about:blank".to_owned(),
            title: status.to_string(),
            status: status.as_u16(),
            detail: format!("{url} answered {status}: {shown}"),
            diagnostics: Vec::new(),
        }
    })
}
