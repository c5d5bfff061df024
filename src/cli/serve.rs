//! `choirmaster serve`: the release manager itself.

use std::{io::Write, net::SocketAddr, os::unix::fs::DirBuilderExt as _, path::PathBuf};

use anyhow::Context as _;
use tokio_rustls::TlsAcceptor;

use super::{agent, failure::Failure, logging, settings, settings::Configured as _, signals::Signals};
use crate::{
    app,
    config::{Config, Fault, Flag, LogFormat, Tls},
};
use domain::{
    children::Absences,
    release::settings::{Proven, Settings as Rules},
};
use engine::{
    TaskSettings,
    parent::{
        self,
        forward::{self, Forward, Forwarding},
    },
};
use http_api::{
    address::Proxies,
    auth::{self, ChildTokens, Token},
};
use language::Site;
use metrics_providers::provider::Registry;
use model::Secret;
use placement::FunctionTypes;
use store::options::OpenOptions;

/// Run the release manager.
///
/// Prints one line on stdout once it answers: `listening on http://ADDRESS:PORT`. Logs go to stderr. SIGTERM and
/// SIGINT let requests in hand end, commit what is left, and end with 0.
///
/// Every key of config/choirmaster.yml can also be set by a variable (limits.max_children is
/// CHOIRMASTER_LIMITS_MAX_CHILDREN) or by --set; flags win over variables, variables over the file.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    choirmaster serve\n  \
    choirmaster serve --listen 127.0.0.1:0 --data /var/lib/choirmaster --functions /srv/release\n  \
    choirmaster serve --store postgres://rm:PASSWORD@db/choirmaster --standby\n  \
    choirmaster serve --set deadlines.stage=30m --set audit.retention=30d")]
pub struct Args {
    /// Configuration file [default: config/choirmaster.yml, where there is one]
    #[arg(long, value_name = "FILE", env = "CHOIRMASTER_CONFIG")]
    config: Option<PathBuf>,
    /// Address to listen on; port 0 takes a free one [default: 127.0.0.1:9991]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// Another address, for the calls of children alone
    #[arg(long, value_name = "ADDR")]
    child_listen: Option<String>,
    /// sqlite://PATH or postgres://USER:PASSWORD@HOST/DATABASE [default: sqlite://DATA/choirmaster.db]
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// The parent: http://HOST:PORT
    #[arg(long, value_name = "URL")]
    parent: Option<String>,
    /// Folder for what it keeps [default: data]
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// Folder that contains fns/, for releases submitted without functions [default: .]
    #[arg(long, value_name = "DIR")]
    functions: Option<String>,
    /// Wait until the manager that holds the store is gone, then take over
    #[arg(long)]
    standby: bool,
    /// error, warn, info, debug, trace, or per module as info,engine=debug [default: info]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// human or json [default: human]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// Set any key of the configuration (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = settings::assignment)]
    set: Vec<(String, String)>,
}

impl Args {
    fn flags(&self) -> Vec<Flag> {
        let named = [
            ("--listen", "serve.listen", self.listen.clone()),
            ("--child-listen", "serve.child_listen", self.child_listen.clone()),
            ("--store", "store.url", self.store.clone()),
            ("--parent", "parent.url", self.parent.clone()),
            ("--data", "serve.data", self.data.clone()),
            ("--functions", "functions.root", self.functions.clone()),
            ("--standby", "serve.standby", self.standby.then(|| "true".to_owned())),
            ("--log-level", "log.level", self.log_level.clone()),
            ("--log-format", "log.format", self.log_format.clone()),
        ];
        let flags = settings::Flag::all(&self.set, named).into_iter();
        flags.map(|settings::Flag { name, key, value }| Flag { name: name.to_owned(), key, value }).collect()
    }
}

/// Runs until a signal, or until the engine ends by itself.
pub async fn run(args: Args) -> Result<u8, Failure> {
    let config = Config::load(args.config.as_deref(), std::env::vars(), &args.flags())?;
    logging::start(&config.log.level, config.log.format == LogFormat::Json);
    let mut end = Signals::new().map_err(|error| Failure::ours(format!("no signals: {error}")))?;
    let options = options(&config)?;
    if options.open.wait {
        tracing::info!("as a standby: listens once the store is free");
    }
    let scheme = if options.tls.is_some() { "https" } else { "http" };
    let mut manager = tokio::select! {
        manager = app::start(options) => manager?,
        () = end.next() => return Ok(0),
    };
    writeln!(std::io::stdout(), "listening on {scheme}://{}", manager.address)?;
    if manager.child_address != manager.address {
        tracing::info!(address = %manager.child_address, "children call at an address of their own");
    }
    tokio::select! {
        () = end.next() => {
            tracing::info!("draining; a second signal ends at once");
            tokio::select! {
                stopped = manager.stop() => stopped?,
                () = end.next() => return Err(Failure::ours("ended before everything was drained")),
            }
            tracing::info!("stopped");
            Ok(0)
        }
        error = manager.failed() => {
            Err(Failure::ours(format!(
                "the engine stopped: {error:#}\nNothing that was acknowledged is lost. Look after the store, then \
                 start the manager again."
            )))
        }
    }
}

/// From the configuration to what the manager is started with.
fn options(config: &Config) -> Result<app::Options, Failure> {
    let open = if config.serve.standby { OpenOptions::standby() } else { OpenOptions::new() };
    refuse_itself(config)?;
    let tls = |tls: &Tls| Ok::<_, Fault>(tls.server()?.map(|server| app::Tls(TlsAcceptor::from(server))));
    Ok(app::Options {
        listen: config.serve.listen,
        child_listen: config.serve.child_listen,
        store: store_url(config)?,
        open: OpenOptions { max_bytes: config.store.max_size.map(|size| size.0), ..open },
        functions_root: config.functions.root.clone(),
        archive_limits: config.functions.limits(),
        rules: Rules {
            offer_deadline: config.deadlines.offer,
            offer_jitter: config.limits.offer_jitter,
            setup_grace: config.deadlines.setup_grace,
            whole_silence: config.deadlines.whole_silence,
            stage_deadline: config.deadlines.stage,
            undo_deadline: config.deadlines.undo,
            absence: Absences::of_all(config.deadlines.absence),
            placement: config.placement.settings(),
            max_children: config.limits.max_children,
            max_open_releases: config.limits.max_open_releases,
            max_adopted: config.limits.max_adopted,
            // Made of the tokens, when these are read.
            proven: Proven::default(),
        },
        task: TaskSettings {
            audit_retention: config.audit.retention,
            history_retention: config.history.retention,
            webhooks: config.notify.webhooks.0.clone(),
            ..TaskSettings::default()
        },
        parent: parent(config)?,
        forwarding: forwarding(config)?,
        service_area: config.parent.area()?,
        max_connections: config.limits.max_connections,
        auth: rights(config)?,
        hosts: config.http.hosts.0.clone(),
        proxies: Proxies(config.http.trusted_proxies.0.clone()),
        tls: tls(&config.tls)?,
        child_tls: tls(&config.child_tls)?,
        timeouts: config.timeouts,
        max_agents: u32::try_from(config.limits.max_agents).unwrap_or(u32::MAX),
        max_wait: config.limits.max_wait,
        max_waiters: config.limits.max_waiters,
        site: site(config)?,
        function_types: FunctionTypes(config.placement.function_types.clone()),
        mirror: config.mirror.settings()?,
        routers: routers(config)?,
        registered: config.services.registered()?,
        canary_folder: config.canaries.watched()?,
        page: page::Settings {
            session: config.page.session,
            // Also where whoever stands in front of this manager speaks TLS.
            secure: config.tls.certificate.is_some() || config.http.public_url.0.starts_with("https://"),
            confirm_abort_above: u32::try_from(config.page.confirm_abort_above).unwrap_or(u32::MAX),
        },
    })
}

/// Routers that this manager leads by itself, each as its file says.
fn routers(config: &Config) -> Result<Vec<app::LedRouter>, Failure> {
    let program = std::env::current_exe()?;
    let files = config.routers.files()?.into_iter();
    let routers = files.map(|(name, file)| {
        let folder = config.serve.data.join("routers");
        let settings = agent::settings::Settings::within(&name, &folder);
        let settings = settings.load_over(Some(&file), std::iter::empty(), &[]);
        let settings = settings.map_err(|error| Failure::user(format!("router {name}: {error}")))?;
        Ok(app::LedRouter { name, settings: settings.into_agent(program.clone()) })
    });
    routers.collect()
}

/// What strategies may name. Providers are set up once here, so that a missing secret or certificate is found now.
fn site(config: &Config) -> Result<Site, Failure> {
    let mut site = config.analysis.site()?;
    site.strategies = config.services.templates()?;
    Registry::new(&site.providers).map_err(|error| {
        Failure::from(Fault { place: "analysis.providers".to_owned(), message: error.to_string() })
    })?;
    Ok(site)
}

/// Who is above, if somebody is.
fn parent(config: &Config) -> Result<Option<parent::Settings>, Fault> {
    let parent = &config.parent;
    let Some(url) = &parent.url else { return Ok(None) };
    Ok(Some(parent::Settings {
        url: url.0.clone(),
        token: parent.token()?.map(|token| token.reveal().to_owned()),
        name: (!parent.name.is_empty()).then(|| parent.name.clone()),
        poll: parent.poll,
        service_area: parent.area()?,
        public_url: (!config.http.public_url.0.is_empty()).then(|| config.http.public_url.0.clone()),
        archive_limits: config.functions.limits(),
        downloads: config.serve.data.join("parent"),
    }))
}

/// A manager that is its own parent waits for itself. Only what is plain from the configuration is found here: an address of
/// this machine by a port that it listens on. Longer circles are found by the managers' ids, once they speak.
fn refuse_itself(config: &Config) -> Result<(), Failure> {
    let Some(url) = config.parent.url.as_ref().and_then(|url| reqwest::Url::parse(&url.0).ok()) else {
        return Ok(());
    };
    let Ok(named) = url.socket_addrs(|| None) else { return Ok(()) };
    let own = [Some(config.serve.listen), config.serve.child_listen];
    let is_own = |named: &SocketAddr| {
        own.iter().flatten().any(|own| {
            let same = own.ip() == named.ip() || own.ip().is_unspecified() && named.ip().is_loopback();
            own.port() != 0 && own.port() == named.port() && same
        })
    };
    match named.iter().find(|named| is_own(named)) {
        Some(own) => Err(Failure::from(Fault {
            place: "parent.url".to_owned(),
            message: format!("{own} is this manager itself: name the one above it, or none for a root"),
        })),
        None => Ok(()),
    }
}

/// Where strategies go that reach beyond this manager.
fn forwarding(config: &Config) -> Result<Forwarding, Failure> {
    let parent = &config.parent;
    let Some(url) = parent.operator_url.as_ref().or(parent.url.as_ref()) else {
        return Ok(Forwarding::Nobody);
    };
    let Some(area) = parent.area()? else { return Ok(Forwarding::AreaUnknown) };
    let token = parent.operator_token()?.map(|token| token.reveal().to_owned());
    let settings = forward::Settings { url: url.0.clone(), token, area };
    Forward::new(settings).map(Forwarding::Known).map_err(|error| Failure::user(error.to_string()))
}

/// Whose token opens what. Operators need one as soon as there is one, also on the machine's own address.
fn rights(config: &Config) -> Result<auth::Settings, Fault> {
    let operators = config.auth.operators()?.into_iter().map(|line| auth::OperatorToken {
        token: Token::new(line.token.reveal()),
        name: line.name,
        grant: auth::Grant { tenant: line.tenant, roles: line.roles },
    });
    let operators: Vec<auth::OperatorToken> = operators.collect();
    let token = |(name, secret): (String, Secret)| (name, Token::new(secret.reveal()));
    let children = config.auth.children()?.into_iter().map(token).collect();
    let doors = config.auth.doors()?.into_iter().map(|line| auth::JoinToken {
        token: Token::new(line.token.reveal()),
        name: line.name,
        tenant: line.tenant,
    });
    Ok(auth::Settings {
        operator_required: !operators.is_empty(),
        operators,
        metrics_open: config.auth.open_metrics,
        children: ChildTokens::new(children, config.auth.child_token_required),
        doors: doors.collect(),
    })
}

/// The store's URL; the embedded one's folder is made where it is not there.
fn store_url(config: &Config) -> anyhow::Result<String> {
    if let Some(url) = &config.store.url {
        return Ok(url.reveal().to_owned());
    }
    if let Some(file) = &config.store.url_file {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("store.url_file {} can't be read", file.display()))?;
        return Ok(text.trim().to_owned());
    }
    let data = &config.serve.data;
    let mut folder = std::fs::DirBuilder::new();
    // For its owner alone. A folder that is there is left as it is; the files in it are the owner's all the same.
    folder.recursive(true).mode(0o700).create(data).with_context(|| {
        format!("the data folder {} can't be made; name another with --data", data.display())
    })?;
    Ok(format!("sqlite://{}", data.join("choirmaster.db").display()))
}
