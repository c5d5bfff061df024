//! What an operator sets of a proxy: defaults, under `config/proxy.yml`, under `CHOIRMASTER_PROXY_*` variables, under flags.
//!
//! `config/proxy.yml` lists every key with its default, which a test compares.

use std::{collections::HashSet, net::SocketAddr, path::PathBuf, time::Duration};

use proxy::{
    Limits, Measuring, TlsFiles,
    access_log::{LogTarget, Logged, LoggedError},
    proxy_protocol::{Network, NetworkError},
};

use crate::cli::settings::{
    Configured, check_level,
    value::{Parsed, SettingTarget, parts},
};

pub const DEFAULT_CONTROL: &str = "data/proxy.sock";

pub const DEFAULT_NFT: &str = "nft";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub listen: Vec<SocketAddr>,
    /// Where metrics are read.
    pub metrics: Vec<SocketAddr>,
    /// Where callers speak TLS, with these files.
    pub tls_listen: Vec<SocketAddr>,
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    pub client_ca: Option<PathBuf>,
    /// Where connections of TCP come in, those of TLS that pass unopened, and datagrams.
    pub tcp_listen: Vec<SocketAddr>,
    pub pass_through: Vec<SocketAddr>,
    pub udp_listen: Vec<SocketAddr>,
    /// Whose connections begin with a PROXY header.
    pub headers_from: Vec<Network>,
    pub control: PathBuf,
    pub state: PathBuf,
    /// 0: one for each core.
    pub threads: usize,
    pub stop_within: Duration,
    pub upgrade_within: Duration,
    /// Whether connections at ports of other programs may be taken by sockets that these have as well, or beside theirs.
    pub shares: bool,
    /// Whether an agent may send connections to others' ports here, and the program with which rules for that are removed.
    pub takes_over: bool,
    pub nft: PathBuf,
    pub limits: Limits,
    pub measuring: Measuring,
    pub log_level: String,
    pub log_json: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 8000))],
            metrics: Vec::new(),
            tls_listen: Vec::new(),
            certificate: None,
            key: None,
            client_ca: None,
            tcp_listen: Vec::new(),
            pass_through: Vec::new(),
            udp_listen: Vec::new(),
            headers_from: Vec::new(),
            control: DEFAULT_CONTROL.into(),
            state: "data/proxy".into(),
            threads: 0,
            // Idle connections end by then, and a call that came last has a moment more.
            stop_within: Limits::default().idle + Duration::from_secs(5),
            upgrade_within: Duration::from_hours(1),
            shares: false,
            takes_over: false,
            nft: DEFAULT_NFT.into(),
            limits: Limits::default(),
            measuring: Measuring::default(),
            log_level: "info".to_owned(),
            log_json: false,
        }
    }
}

impl Configured for Settings {
    const OF: &'static str = "proxy";
    const FILE: &'static str = "config/proxy.yml";
    const PREFIX: &'static str = "CHOIRMASTER_PROXY_";

    fn check(&mut self, faults: &mut Vec<String>) {
        check_level(&self.log_level, faults);
        self.check_tls(faults);
        let mut seen = HashSet::new();
        let of_tcp = [&self.listen, &self.tls_listen, &self.pass_through, &self.tcp_listen, &self.metrics];
        for address in of_tcp.into_iter().flatten() {
            if address.port() != 0 && !seen.insert(address) {
                faults.push(format!(
                    "{address} is to be listened on twice: in proxy.listen, tls.listen, tls.pass_through, tcp.listen, \
                     proxy.metrics"
                ));
            }
        }
        let mut seen = HashSet::new();
        for address in &self.udp_listen {
            if address.port() != 0 && !seen.insert(address) {
                faults.push(format!("{address} is to be listened on twice: in udp.listen"));
            }
        }
    }

    fn keys(&mut self) -> Vec<(&'static str, SettingTarget<'_>)> {
        let mut keys = vec![
            ("proxy.listen", SettingTarget::Parsed(&mut self.listen)),
            ("proxy.metrics", SettingTarget::Parsed(&mut self.metrics)),
            ("proxy.control", SettingTarget::Parsed(&mut self.control)),
            ("proxy.state", SettingTarget::Parsed(&mut self.state)),
            ("proxy.threads", SettingTarget::Number(&mut self.threads, (0, 1_024))),
            ("tls.listen", SettingTarget::Parsed(&mut self.tls_listen)),
            ("tls.certificate", SettingTarget::Parsed(&mut self.certificate)),
            ("tls.key", SettingTarget::Parsed(&mut self.key)),
            ("tls.client_ca", SettingTarget::Parsed(&mut self.client_ca)),
            ("tls.pass_through", SettingTarget::Parsed(&mut self.pass_through)),
            ("tcp.listen", SettingTarget::Parsed(&mut self.tcp_listen)),
            ("udp.listen", SettingTarget::Parsed(&mut self.udp_listen)),
            ("proxy_protocol.from", SettingTarget::Parsed(&mut self.headers_from)),
            ("takeover.sockets", SettingTarget::Parsed(&mut self.shares)),
            ("takeover.nftables", SettingTarget::Parsed(&mut self.takes_over)),
            ("takeover.program", SettingTarget::Parsed(&mut self.nft)),
            ("drain.stop", SettingTarget::Time(&mut self.stop_within, (Duration::ZERO, DAY))),
            ("drain.upgrade", SettingTarget::Time(&mut self.upgrade_within, (SECOND, 30 * DAY))),
            (
                "counts.interval_seconds",
                SettingTarget::Number(&mut self.measuring.interval_seconds, (1, 3_600)),
            ),
            ("counts.keep", SettingTarget::Time(&mut self.measuring.room.age, (MINUTE, DAY))),
            ("log.level", SettingTarget::Parsed(&mut self.log_level)),
            ("log.format", SettingTarget::Json(&mut self.log_json)),
            ("log.access", SettingTarget::Parsed(&mut self.measuring.access_log.logged)),
            ("log.access_to", SettingTarget::Parsed(&mut self.measuring.access_log.to)),
        ];
        keys.extend(limits(&mut self.limits));
        keys
    }
}

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);
const DAY: Duration = Duration::from_hours(24);
const TIMES: (Duration, Duration) = (Duration::from_millis(10), DAY);

/// What the proxy bears, and for how long.
fn limits(limits: &mut Limits) -> Vec<(&'static str, SettingTarget<'_>)> {
    let Limits {
        head_bytes,
        head_fields,
        head_time,
        idle,
        body_idle,
        tunnel_idle,
        connect,
        first_byte,
        connections,
        in_flight,
        queue,
        queue_time,
        streams,
        resets,
        flows,
        flow_drain,
        udp_flows,
        udp_idle,
        handshake,
        kept_body,
        kept_bodies,
        pooled,
        pool,
        mark: _,
    } = limits;
    vec![
        ("udp.flows", SettingTarget::Number(udp_flows, (1, 1_000_000))),
        ("udp.idle", SettingTarget::Time(udp_idle, TIMES)),
        ("drain.flows", SettingTarget::Time(flow_drain, (Duration::ZERO, 30 * DAY))),
        ("limits.connections", SettingTarget::Number(connections, (1, 10_000_000))),
        ("limits.idle", SettingTarget::Time(idle, TIMES)),
        ("limits.head_bytes", SettingTarget::Size(head_bytes, (1_024, 1 << 20))),
        ("limits.head_fields", SettingTarget::Number(head_fields, (8, 256))),
        ("limits.head_time", SettingTarget::Time(head_time, TIMES)),
        ("limits.body_idle", SettingTarget::Time(body_idle, TIMES)),
        ("limits.tunnel_idle", SettingTarget::Time(tunnel_idle, TIMES)),
        ("limits.connect", SettingTarget::Time(connect, TIMES)),
        ("limits.first_byte", SettingTarget::Time(first_byte, TIMES)),
        ("limits.in_flight", SettingTarget::Number(in_flight, (1, 1_000_000))),
        ("limits.flows", SettingTarget::Number(flows, (1, 1_000_000))),
        ("limits.queue", SettingTarget::Number(queue, (0, 1_000_000))),
        ("limits.queue_time", SettingTarget::Time(queue_time, TIMES)),
        ("limits.streams", SettingTarget::Number(streams, (1, 100_000))),
        ("limits.resets", SettingTarget::Number(resets, (1, 1_000_000))),
        ("limits.handshake", SettingTarget::Time(handshake, TIMES)),
        ("limits.kept_body", SettingTarget::Size(kept_body, (0, 1 << 30))),
        ("limits.kept_bodies", SettingTarget::Size(kept_bodies, (0, 1 << 40))),
        ("limits.pool", SettingTarget::Number(pool, (0, 100_000))),
        ("limits.pooled", SettingTarget::Time(pooled, (Duration::ZERO, DAY))),
    ]
}

impl Settings {
    fn check_tls(&self, faults: &mut Vec<String>) {
        let files = [("tls.certificate", &self.certificate), ("tls.key", &self.key)];
        if self.tls_listen.is_empty() {
            // A whole pair is of use for addresses that are opened while the proxy runs.
            let is_pair = files.iter().all(|(_, path)| path.is_some());
            let named = files.into_iter().chain([("tls.client_ca", &self.client_ca)]);
            let named = named.filter(|(_, path)| path.is_some() && !is_pair);
            faults.extend(named.map(|(key, _)| format!("{key} is set, and tls.listen names no address")));
        } else {
            let missing = files.into_iter().filter(|(_, path)| path.is_none());
            faults
                .extend(missing.map(|(key, _)| format!("tls.listen names an address, and {key} isn't set")));
        }
    }

    /// What callers of TLS are shown, where any are to come.
    pub fn tls(&self) -> Option<TlsFiles> {
        let (certificate, key) = (self.certificate.clone()?, self.key.clone()?);
        Some(TlsFiles { certificate, key, client_ca: self.client_ca.clone() })
    }
}

impl Parsed for Logged {
    fn take(&mut self, text: &str) -> Result<(), String> {
        *self = text.parse().map_err(|error: LoggedError| error.to_string())?;
        Ok(())
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

/// Networks, separated by commas.
impl Parsed for Vec<Network> {
    fn take(&mut self, text: &str) -> Result<(), String> {
        let networks = parts(text).map(str::parse).collect::<Result<_, NetworkError>>();
        *self = networks.map_err(|error| error.to_string())?;
        Ok(())
    }

    fn text(&self) -> String {
        self.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }
}

impl Parsed for LogTarget {
    fn take(&mut self, text: &str) -> Result<(), String> {
        *self = match text {
            "" => return Err("the path is empty".to_owned()),
            "stdout" => Self::Stdout,
            file => Self::File(file.into()),
        };
        Ok(())
    }

    fn text(&self) -> String {
        self.to_string()
    }
}
