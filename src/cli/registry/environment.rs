//! `choirmaster environment …`.

use std::io::Write;

use clap::Subcommand;

use super::{Gone, One, Registered, Registering, label, list, one, register, remove, seconds};
use crate::cli::{client::ListArgs, failure::Failure, show};
use protocol::ab_releases::{
    Environment, EnvironmentDefaults, EnvironmentPort, EnvironmentSpec, HealthCheck,
};

/// Say where services take calls, by names that A/B releases use.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the environments
    List(ListArgs),
    /// Show an environment: its service, routers and ports, and what holds for each release there
    Show(One),
    /// Register an environment, or say anew what it is; refused while a release names it that is not over
    #[command(after_help = "Example: choirmaster environment register shop --service checkout --port 8080 \
                            --router env=prod --sticky cookie:cm_checkout --health-path /ready")]
    Register(Box<New>),
    /// Remove an environment that no unfinished release names; what was released there goes on naming it
    Remove(Gone),
}

#[derive(Debug, clap::Args)]
struct New {
    #[arg(value_name = "NAME")]
    name: String,
    /// The service that is released there
    #[arg(long, value_name = "SERVICE")]
    service: String,
    /// A port at which it takes calls, of HTTP if nothing else is said (repeatable); none: agents share the calls out
    #[arg(long, value_name = "PORT[:HTTP|HTTPS|TCP|UDP[:HOST,HOST/PATH]]", value_parser = port)]
    port: Vec<EnvironmentPort>,
    /// A label of the routers that lead its calls (repeatable); without any, all that know how
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    router: Vec<(String, String)>,
    /// By what calls stay with a variation, where a release doesn't say it: cookie:NAME, header:NAME or address
    #[arg(long, value_name = "KEY")]
    sticky: Option<String>,
    /// A path that targets answer well when they are healthy
    #[arg(long, value_name = "PATH")]
    health_path: Option<String>,
    /// How often that is asked
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = seconds, requires = "health_path")]
    health_interval: f64,
    /// How long an answer may take
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = seconds, requires = "health_path")]
    health_timeout: f64,
    /// How many seconds a release rests between its stages
    #[arg(long, value_name = "SECONDS")]
    soak: Option<u32>,
    #[command(flatten)]
    how: Registering,
}

impl New {
    fn spec(&self) -> EnvironmentSpec {
        let health_check = self.health_path.clone().map(|path| HealthCheck {
            path,
            interval: self.health_interval,
            timeout: self.health_timeout,
        });
        EnvironmentSpec {
            name: self.name.clone(),
            service: self.service.clone(),
            routers: self.router.iter().cloned().collect(),
            ports: self.port.clone(),
            defaults: EnvironmentDefaults {
                sticky_key: self.sticky.clone(),
                health_check,
                soak_seconds: self.soak,
            },
        }
    }
}

/// `8080`, `8443:HTTPS`, `443:HTTPS:shop.example/api`.
fn port(text: &str) -> Result<EnvironmentPort, String> {
    let mut parts = text.splitn(3, ':');
    let port = parts.next().unwrap_or_default().parse();
    let port = port.map_err(|_| "it looks like 8080, 8443:HTTPS or 443:HTTPS:shop.example/api".to_owned())?;
    let protocol = parts.next().unwrap_or("HTTP").to_ascii_uppercase();
    let route = parts.next().unwrap_or_default();
    let (hosts, path) = route.split_at(route.find('/').unwrap_or(route.len()));
    let hosts = hosts.split(',').filter(|host| !host.is_empty()).map(str::to_owned).collect();
    let path = Some(path.to_owned()).filter(|path| !path.is_empty());
    Ok(EnvironmentPort { port, protocol, hosts, path, tls: None })
}

pub async fn run(args: Args, out: &mut impl Write) -> Result<u8, Failure> {
    match args.command {
        Command::List(args) => list::<Environment>(&args, out).await,
        Command::Show(which) => one::<Environment>(&which, out).await,
        Command::Register(new) => register::<Environment>(&new.spec(), &new.how, out).await,
        Command::Remove(gone) => remove::<Environment>(&gone, out).await,
    }
}

impl Registered for Environment {
    const LIST: &'static str = "environments";
    const NONE: &'static str = "no environments are registered";
    const HEAD: &'static [&'static str] = &["NAME", "SERVICE", "PORTS", "ROUTERS"];

    fn name(&self) -> &str {
        &self.spec.name
    }
    fn row(&self) -> Vec<String> {
        vec![self.spec.name.clone(), self.spec.service.clone(), ports(&self.spec), routers(&self.spec)]
    }
    fn fields(&self) -> Vec<(&'static str, String)> {
        let EnvironmentDefaults { sticky_key, health_check, soak_seconds } = &self.spec.defaults;
        let health = health_check.as_ref().map(|HealthCheck { path, interval, timeout }| {
            format!("{path}, every {interval} s, answered within {timeout} s")
        });
        vec![
            ("service", self.spec.service.clone()),
            ("ports", ports(&self.spec)),
            ("routers", routers(&self.spec)),
            ("sticky", sticky_key.clone().unwrap_or_default()),
            ("health", health.unwrap_or_default()),
            ("soak", soak_seconds.map_or_else(String::new, |soak| show::lasted(soak.into()))),
        ]
    }
    fn entry(&self) -> (&str, &str, Option<&str>) {
        (&self.id, &self.created_at, self.created_by.as_deref())
    }
}

fn ports(spec: &EnvironmentSpec) -> String {
    let port = |port: &EnvironmentPort| {
        let route = port.hosts.join(",") + port.path.as_deref().unwrap_or_default();
        format!("{} {} {route}", port.port, port.protocol).trim_end().to_owned()
    };
    spec.ports.iter().map(port).collect::<Vec<_>>().join(", ")
}

fn routers(spec: &EnvironmentSpec) -> String {
    match (spec.ports.is_empty(), spec.routers.is_empty()) {
        (true, _) => "none".to_owned(),
        (false, true) => "all".to_owned(),
        (false, false) => show::labels(&spec.routers, ", "),
    }
}
