//! What is set of a router of somebody else's that an agent leads: its keys, and what is wrong with them.

use std::{net::IpAddr, time::Duration};

use agent::settings::{
    CommandLine, OnDrift, Ports, RouterKind, RouterOptions, RouterSettings, aws_alb, custom, haproxy, nginx,
    traefik,
};

use crate::cli::settings::value::{Parsed, SettingTarget, parts};

/// How long the calls that are left may take at the end of a release.
const DRAIN: (Duration, Duration) = (Duration::ZERO, Duration::from_hours(24));

/// How long one answer of nginx or Traefik may take.
const PATIENCE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_mins(1));

/// How long one answer of a webhook or of AWS may take.
const CALL: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

/// How long a load balancer of AWS's keeps a caller with a variation.
const STICKY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_hours(7 * 24));

/// Kinds that are asked for and that there is no adapter for.
const NOT_YET: [&str; 1] = ["envoy"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouterKeys {
    kind: RouterKind,
    on_drift: OnDrift,
    drain: Duration,
    ports: Ports,
    nginx: nginx::Options,
    haproxy: haproxy::Options,
    traefik: traefik::Options,
    custom: custom::Options,
    aws_alb: aws_alb::Options,
}

impl Default for RouterKeys {
    fn default() -> Self {
        Self {
            kind: RouterKind::default(),
            on_drift: OnDrift::default(),
            drain: Duration::from_secs(10),
            ports: Ports::default(),
            nginx: nginx::Options::default(),
            haproxy: haproxy::Options::default(),
            traefik: traefik::Options::default(),
            custom: custom::Options::default(),
            aws_alb: aws_alb::Options::default(),
        }
    }
}

impl RouterKeys {
    /// Every key and its place, in the order of the documentation.
    pub fn keys(&mut self) -> Vec<(&'static str, SettingTarget<'_>)> {
        let Self { kind, on_drift, drain, ports, nginx, haproxy, traefik, custom, aws_alb } = self;
        vec![
            ("router.kind", SettingTarget::Parsed(kind)),
            ("router.on_drift", SettingTarget::Parsed(on_drift)),
            ("router.drain", SettingTarget::Time(drain, DRAIN)),
            ("router.ports", SettingTarget::Parsed(ports)),
            ("nginx.program", SettingTarget::Parsed(&mut nginx.program)),
            ("nginx.config", SettingTarget::Parsed(&mut nginx.config)),
            ("nginx.include", SettingTarget::Parsed(&mut nginx.include)),
            ("nginx.pid", SettingTarget::Parsed(&mut nginx.pid)),
            ("nginx.reload", SettingTarget::Parsed(&mut nginx.reload)),
            ("nginx.folder", SettingTarget::Parsed(&mut nginx.folder)),
            ("nginx.ask", SettingTarget::Parsed(&mut nginx.ask)),
            ("nginx.ask_stream", SettingTarget::Parsed(&mut nginx.ask_stream)),
            ("nginx.addresses", SettingTarget::Parsed(&mut nginx.addresses)),
            ("nginx.certificate", SettingTarget::Parsed(&mut nginx.certificate)),
            ("nginx.key", SettingTarget::Parsed(&mut nginx.key)),
            ("nginx.patience", SettingTarget::Time(&mut nginx.time_limit, PATIENCE)),
            ("nginx.lines", SettingTarget::Parsed(&mut nginx.lines)),
            ("nginx.user", SettingTarget::Parsed(&mut nginx.user)),
            ("nginx.alone", SettingTarget::Parsed(&mut nginx.alone)),
            ("haproxy.program", SettingTarget::Parsed(&mut haproxy.program)),
            ("haproxy.config", SettingTarget::Parsed(&mut haproxy.config)),
            ("haproxy.folder", SettingTarget::Parsed(&mut haproxy.folder)),
            ("haproxy.socket", SettingTarget::Parsed(&mut haproxy.socket)),
            ("haproxy.master_socket", SettingTarget::Parsed(&mut haproxy.master_socket)),
            ("haproxy.pid", SettingTarget::Parsed(&mut haproxy.pid)),
            ("haproxy.reload", SettingTarget::Parsed(&mut haproxy.reload)),
            ("haproxy.addresses", SettingTarget::Parsed(&mut haproxy.addresses)),
            ("haproxy.certificate", SettingTarget::Parsed(&mut haproxy.certificate)),
            ("haproxy.hard_stop_after", SettingTarget::Time(&mut haproxy.hard_stop_after, DRAIN)),
            ("haproxy.lines", SettingTarget::Parsed(&mut haproxy.lines)),
            ("haproxy.user", SettingTarget::Parsed(&mut haproxy.user)),
            ("haproxy.chroot", SettingTarget::Parsed(&mut haproxy.chroot)),
            ("traefik.folder", SettingTarget::Parsed(&mut traefik.folder)),
            ("traefik.own", SettingTarget::Parsed(&mut traefik.own)),
            ("traefik.api", SettingTarget::Parsed(&mut traefik.api)),
            ("traefik.metrics", SettingTarget::Parsed(&mut traefik.metrics)),
            ("traefik.patience", SettingTarget::Time(&mut traefik.time_limit, PATIENCE)),
            ("traefik.load_within", SettingTarget::Time(&mut traefik.load_within, PATIENCE)),
            ("custom.url", SettingTarget::Parsed(&mut custom.url)),
            ("custom.secret_file", SettingTarget::Parsed(&mut custom.secret_file)),
            ("custom.name", SettingTarget::Parsed(&mut custom.name)),
            ("custom.patience", SettingTarget::Time(&mut custom.time_limit, CALL)),
            ("aws_alb.load_balancer", SettingTarget::Parsed(&mut aws_alb.load_balancer)),
            ("aws_alb.region", SettingTarget::Parsed(&mut aws_alb.region)),
            ("aws_alb.priorities", SettingTarget::Parsed(&mut aws_alb.priorities)),
            ("aws_alb.sticky_for", SettingTarget::Time(&mut aws_alb.sticky_for, STICKY)),
            ("aws_alb.endpoint", SettingTarget::Parsed(&mut aws_alb.endpoint)),
            ("aws_alb.patience", SettingTarget::Time(&mut aws_alb.time_limit, CALL)),
        ]
    }

    /// What is set of a kind that isn't led is not looked at.
    pub fn check(&self, faults: &mut Vec<String>) {
        let checked = self.options().map_or(Ok(()), |options| options.check());
        faults.extend(checked.err().map(|(key, why)| format!("{key}: {why}")));
    }

    /// Whether versions of functions run beside it.
    pub fn runs_functions(&self) -> bool {
        self.kind == RouterKind::Embedded
    }

    /// None: the proxy beside the agent.
    pub fn into_router(self) -> Option<RouterSettings> {
        let options = self.options()?;
        let Self { on_drift, drain, ports, .. } = self;
        Some(RouterSettings { options, on_drift, drain, ports })
    }

    /// Of the kind that is led; none: the proxy beside the agent.
    fn options(&self) -> Option<RouterOptions> {
        match self.kind {
            RouterKind::Embedded => None,
            RouterKind::Nginx => Some(RouterOptions::Nginx(self.nginx.clone())),
            RouterKind::Haproxy => Some(RouterOptions::Haproxy(self.haproxy.clone())),
            RouterKind::Traefik => Some(RouterOptions::Traefik(self.traefik.clone())),
            RouterKind::Custom => Some(RouterOptions::Custom(self.custom.clone())),
            RouterKind::AwsAlb => Some(RouterOptions::AwsAlb(self.aws_alb.clone())),
        }
    }
}

impl Parsed for RouterKind {
    /// `router.nginx` is what others call nginx, and `webhook` what we call custom.
    fn take(&mut self, text: &str) -> Result<(), String> {
        let name = text.strip_prefix("router.").unwrap_or(text);
        let name = if name == "webhook" { Self::Custom.name() } else { name };
        let names = Self::ALL.map(Self::name);
        *self = match Self::named(name) {
            Some(kind) => kind,
            None if NOT_YET.contains(&name) => {
                let (last, before) = names.split_last().unwrap_or((&"", &[]));
                return Err(format!(
                    "{text}: no agent leads such a router so far; {} and {last} are led",
                    before.join(", ")
                ));
            }
            None => return Err(format!("{text:?} is neither {}", names.join(" nor "))),
        };
        Ok(())
    }

    fn text(&self) -> String {
        self.name().to_owned()
    }
}

impl Parsed for OnDrift {
    fn take(&mut self, text: &str) -> Result<(), String> {
        *self = match text {
            "repair" => Self::Repair,
            "pause" => Self::Pause,
            "accept" => Self::Accept,
            _ => return Err(format!("{text:?} is neither repair nor pause nor accept")),
        };
        Ok(())
    }

    fn text(&self) -> String {
        match self {
            Self::Repair => "repair",
            Self::Pause => "pause",
            Self::Accept => "accept",
        }
        .to_owned()
    }
}

/// `80, 8000-8099`.
impl Parsed for Ports {
    fn take(&mut self, text: &str) -> Result<(), String> {
        let read = |part: &str| {
            let mut span = (0, 0);
            let both = if part.contains('-') { part.to_owned() } else { format!("{part}-{part}") };
            let faulty = |_| format!("{part:?} is neither a port nor a range of ports, as in 8000-8099");
            span.take(&both).map(|()| span).map_err(faulty)
        };
        self.0 = parts(text).map(read).collect::<Result<_, _>>()?;
        Ok(())
    }

    fn text(&self) -> String {
        let span = |(first, last): &(u16, u16)| {
            if first == last { first.to_string() } else { format!("{first}-{last}") }
        };
        self.0.iter().map(span).collect::<Vec<_>>().join(", ")
    }
}

/// A program and its arguments, with blanks between.
impl Parsed for CommandLine {
    fn take(&mut self, text: &str) -> Result<(), String> {
        self.0 = text.split_whitespace().map(str::to_owned).collect();
        Ok(())
    }

    fn text(&self) -> String {
        self.0.join(" ")
    }
}

impl Parsed for Vec<IpAddr> {
    fn take(&mut self, text: &str) -> Result<(), String> {
        let read =
            |part: &str| part.parse().map_err(|_| format!("{part:?} is no address, as in 0.0.0.0 or ::"));
        *self = parts(text).map(read).collect::<Result<_, _>>()?;
        Ok(())
    }

    fn text(&self) -> String {
        self.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }
}
