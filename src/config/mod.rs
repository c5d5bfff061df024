//! What an operator sets: defaults, under `config/choirmaster.yml`, under `CHOIRMASTER_*` variables, under flags.
//!
//! One struct per section. Whatever the source, a value goes in as `section.key` and a text, is checked there, and
//! a fault names the key and where it was set. All faults are reported at once, and with any there is no
//! configuration: a value that is half understood would be found out in production.
//!
//! Invariants: an unknown key is never ignored; a secret is never printed; `config/choirmaster.yml` lists every
//! key with its default (a test compares). Deliberately not here: lists and nested values, reloading.

mod analysis;
mod audit;
mod auth;
mod canaries;
mod deadlines;
mod env;
mod error;
mod file;
mod functions;
mod history;
mod http;
mod limits;
mod log;
mod mirror;
mod notify;
mod original;
mod page;
mod parent;
mod placement;
mod routers;
mod section;
mod serve;
mod services;
mod store;
mod suggestion;
mod timeouts;
mod tls;
mod value;

use std::path::Path;

pub use analysis::Analysis;
pub use audit::Audit;
pub use auth::Auth;
pub use canaries::Canaries;
pub use deadlines::Deadlines;
pub use env::{OWN_VARIABLES, SHORT_NAMES};
pub use error::{ConfigError, Fault};
pub use functions::Functions;
pub use history::History;
pub use http::Http;
pub use limits::{DEFAULT_MAX_CONNECTIONS, Limits};
pub use log::Log;
pub use mirror::Mirror;
pub use notify::Notify;
pub use page::Page;
pub use parent::Parent;
pub use placement::Placement;
pub use routers::Routers;
pub use section::{Field, Section};
pub use serve::{DEFAULT_LISTEN, Serve};
pub use services::Services;
pub use store::Store;
pub use tls::Tls;
pub use value::{Bytes, LogFormat, Names, Networks, Setting, Url, Urls};

use self::suggestion::{did_you_mean, nearest};
use ::http_api::serve::Timeouts;

/// Where the file is looked for, below the working directory, when none is named.
pub const DEFAULT_FILE: &str = "config/choirmaster.yml";

/// Everything that can be set.
#[derive(Debug, Clone)]
pub struct Config {
    pub serve: Serve,
    pub http: Http,
    pub page: Page,
    pub store: Store,
    pub functions: Functions,
    pub limits: Limits,
    pub deadlines: Deadlines,
    pub timeouts: Timeouts,
    pub audit: Audit,
    pub history: History,
    pub log: Log,
    pub auth: Auth,
    pub tls: Tls,
    pub child_tls: Tls,
    pub notify: Notify,
    pub parent: Parent,
    pub routers: Routers,
    pub services: Services,
    pub canaries: Canaries,
    pub placement: Placement,
    pub mirror: Mirror,
    pub analysis: Analysis,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            serve: Serve::default(),
            http: Http::default(),
            page: Page::default(),
            store: Store::default(),
            functions: Functions::default(),
            limits: Limits::default(),
            deadlines: Deadlines::default(),
            timeouts: Timeouts::default(),
            audit: Audit::default(),
            history: History::default(),
            log: Log::default(),
            auth: Auth::default(),
            tls: Tls::named("tls"),
            child_tls: Tls::named("child_tls"),
            notify: Notify::default(),
            parent: Parent::default(),
            routers: Routers::default(),
            services: Services::default(),
            canaries: Canaries::default(),
            placement: Placement::default(),
            mirror: Mirror::default(),
            analysis: Analysis::default(),
        }
    }
}

/// A flag of the command line: its name as written, the key it sets, and the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    pub name: String,
    pub key: String,
    pub value: String,
}

impl Config {
    /// Reads everything. `file` was named by somebody and must be there; without it [`DEFAULT_FILE`] is read where
    /// it exists.
    pub fn load(
        file: Option<&Path>,
        variables: impl IntoIterator<Item = (String, String)>,
        flags: &[Flag],
    ) -> Result<Self, ConfigError> {
        let (mut config, mut faults) = (Self::default(), Vec::new());
        let named = file.is_some();
        let path = file.unwrap_or(Path::new(DEFAULT_FILE));
        match std::fs::read_to_string(path) {
            Ok(text) => file::read(&text, &path.display().to_string(), &mut config, &mut faults),
            Err(error) if !named && error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => faults.push(Fault {
                place: path.display().to_string(),
                message: format!("can't be read: {error}"),
            }),
        }
        env::read(variables, &mut config, &mut faults);
        for Flag { name, key, value } in flags {
            config.set(key, value, name, &mut faults);
        }
        if faults.is_empty() {
            config.check(&mut faults);
        }
        if faults.is_empty() { Ok(config) } else { Err(ConfigError { faults }) }
    }

    /// Reads the text of a file, over the defaults, without variables and flags.
    pub fn from_text(text: &str, name: &str) -> Result<Self, ConfigError> {
        let (mut config, mut faults) = (Self::default(), Vec::new());
        file::read(text, name, &mut config, &mut faults);
        if faults.is_empty() { Ok(config) } else { Err(ConfigError { faults }) }
    }

    fn sections(&mut self) -> [&mut dyn Section; 22] {
        [
            &mut self.serve,
            &mut self.http,
            &mut self.page,
            &mut self.store,
            &mut self.functions,
            &mut self.limits,
            &mut self.deadlines,
            &mut self.timeouts,
            &mut self.audit,
            &mut self.history,
            &mut self.log,
            &mut self.auth,
            &mut self.tls,
            &mut self.child_tls,
            &mut self.notify,
            &mut self.parent,
            &mut self.routers,
            &mut self.services,
            &mut self.canaries,
            &mut self.placement,
            &mut self.mirror,
            &mut self.analysis,
        ]
    }

    /// Every key as `section.key` with its value; secrets are not shown.
    pub fn keys(&self) -> Vec<(String, String)> {
        let mut copy = self.clone();
        let mut keys = Vec::new();
        for section in copy.sections() {
            let name = section.name();
            keys.extend(section.fields().iter().map(|f| (format!("{name}.{}", f.key), f.setting.show())));
        }
        keys
    }

    /// Sets one key from a text.
    fn set(&mut self, key: &str, text: &str, place: &str, faults: &mut Vec<Fault>) {
        let mut fault = |message| faults.push(Fault { place: place.to_owned(), message });
        let (section, name) = key.split_once('.').unwrap_or((key, ""));
        let mut known = Vec::new();
        for found in self.sections() {
            let is_here = found.name() == section;
            let prefix = found.name();
            for field in found.fields() {
                if is_here && field.key == name {
                    if let Err(why) = field.read(text) {
                        fault(format!("{key}: {why}"));
                    }
                    return;
                }
                known.push(format!("{prefix}.{}", field.key));
            }
        }
        let near = nearest(key, known.iter().map(String::as_str));
        let hint = original::ours(key).map_or_else(|| did_you_mean(near), |ours| format!("; {ours}"));
        fault(format!("there is no key {key:?}{hint}"));
    }

    /// The rules between keys.
    fn check(&mut self, faults: &mut Vec<Fault>) {
        for section in self.sections() {
            let name = section.name();
            faults.extend(
                section
                    .check()
                    .into_iter()
                    .map(|(key, message)| Fault { place: format!("{name}.{key}"), message }),
            );
        }
        let address = self.serve.listen;
        if !address.ip().is_loopback() && !self.auth.has_operator_token() {
            faults.push(Fault {
                place: "serve.listen".to_owned(),
                message: format!(
                    "{address} can be reached by others, and whoever reaches it could release: put an operator's \
                     token into a file and name it in auth.operator_token_file (or set \
                     CHOIRMASTER_AUTH_OPERATOR_TOKEN), or listen on 127.0.0.1; children alone can call from \
                     elsewhere at serve.child_listen"
                ),
            });
        }
        if self.serve.child_listen.is_none() && self.child_tls.certificate.is_some() {
            faults.push(Fault {
                place: "child_tls.certificate".to_owned(),
                message: "is for serve.child_listen, which is not set; tls is for serve.listen".to_owned(),
            });
        }
        if self.store.url.is_some() && self.store.url_file.is_some() {
            faults.push(Fault {
                place: "store.url_file".to_owned(),
                message: "and store.url are both set: keep one".to_owned(),
            });
        }
    }
}
