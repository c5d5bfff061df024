//! `choirmaster environment …`, `target-group …`, `version …`: what A/B releases name. They differ in what they say; how they are listed,
//! shown, registered and removed is the same.

pub mod environment;
pub mod target_group;
pub mod version;

use std::io::Write;

use reqwest::Method;
use serde::{Serialize, de::DeserializeOwned};

use super::{
    client::{AuditNote, Client, Connection, ListArgs},
    failure::Failure,
    show,
};

/// What is registered, as a manager shows it.
trait Registered: Serialize + DeserializeOwned {
    /// Its list in the API.
    const LIST: &'static str;
    /// What a list says where there are none.
    const NONE: &'static str;
    const HEAD: &'static [&'static str];

    fn name(&self) -> &str;
    /// Under [`Self::HEAD`].
    fn row(&self) -> Vec<String>;
    /// What it says, line by line.
    fn fields(&self) -> Vec<(&'static str, String)>;
    /// Its UUID, when it was registered, and by whom.
    fn entry(&self) -> (&str, &str, Option<&str>);
}

#[derive(Debug, clap::Args)]
struct One {
    /// Its name or its UUID
    #[arg(value_name = "NAME")]
    name: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, clap::Args)]
struct Gone {
    /// Its name or its UUID
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    noted: AuditNote,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, clap::Args)]
struct Registering {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    noted: AuditNote,
    #[command(flatten)]
    connection: Connection,
}

const fn path<R: Registered>() -> [&'static str; 3] {
    ["api", "v1", R::LIST]
}

async fn list<R: Registered>(args: &ListArgs, out: &mut impl Write) -> Result<u8, Failure> {
    let client = Client::new(&args.connection)?;
    let found = client.list_by_name(&path::<R>(), args.limit, R::name).await?;
    show::list(out, &found, args.json, R::NONE, |all| show::table(R::HEAD, all.iter().map(R::row)))?;
    Ok(0)
}

async fn one<R: Registered>(one: &One, out: &mut impl Write) -> Result<u8, Failure> {
    let client = Client::new(&one.connection)?;
    let [api, v1, list] = path::<R>();
    let found: R = client.get(&[api, v1, list, &one.name], &[]).await?;
    shown(&found, one.json, out)
}

async fn register<R: Registered>(
    spec: &impl Serialize,
    how: &Registering,
    out: &mut impl Write,
) -> Result<u8, Failure> {
    let client = Client::new(&how.connection)?;
    let request = client.request(Method::POST, &path::<R>()).query(&how.noted.body()).json(spec);
    let made: R = client.post(request).await?;
    shown(&made, how.json, out)
}

async fn remove<R: Registered>(gone: &Gone, out: &mut impl Write) -> Result<u8, Failure> {
    let client = Client::new(&gone.connection)?;
    let [api, v1, list] = path::<R>();
    client.act(Method::DELETE, &[api, v1, list, &gone.name], &gone.noted.body()).await?;
    writeln!(out, "{}: removed", show::one_line(&gone.name))?;
    Ok(0)
}

fn shown<R: Registered>(found: &R, json: bool, out: &mut impl Write) -> Result<u8, Failure> {
    if json {
        show::json(out, found)?;
        return Ok(0);
    }
    let (id, since, by) = found.entry();
    writeln!(out, "{}", show::one_line(found.name()))?;
    let entry = [("id", id.to_owned()), ("registered", since.to_owned())];
    let by = by.map(|by| ("by", by.to_owned()));
    let fields = found.fields().into_iter().chain(entry).chain(by);
    for (what, value) in fields.filter(|(_, value)| !value.is_empty()) {
        writeln!(out, "  {what:<11} {}", show::one_line(&value))?;
    }
    Ok(0)
}

/// `KEY=VALUE`.
fn label(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    pair.map(|(key, value)| (key.to_owned(), value.to_owned()))
        .ok_or_else(|| "it looks like tier=edge".to_owned())
}

/// A duration, in seconds.
fn seconds(text: &str) -> Result<f64, String> {
    let millis = model::duration::read_millis(text);
    millis.map(|millis| millis as f64 / 1_000.0).ok_or_else(|| "it looks like 2s or 500ms".to_owned())
}
