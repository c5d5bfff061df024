//! What sends calls on, since moto sends none: by the rules and targets that moto tells, as AWS documents that a load balancer goes by
//! them. It is no proof of what AWS does.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use aws_sdk_elasticloadbalancingv2::{Client, types};
use model::hex;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Mutex,
    task::JoinSet,
};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::loss::message::{Message, Wire};

/// The cookie that keeps a caller with a target group; its value is encrypted at AWS.
pub const COOKIE: &str = "AWSALBTG";

/// Takes calls at the listeners of one load balancer.
pub struct Plane {
    pub certificate: CertificateDer<'static>,
    _serving: JoinSet<()>,
}

struct Shared {
    client: Client,
    /// Of listeners, by their ports.
    arns: HashMap<u16, String>,
    version: Arc<AtomicU64>,
    told: Mutex<Told>,
}

/// What moto said since the last change.
#[derive(Default)]
struct Told {
    version: u64,
    rules: HashMap<u16, Vec<types::Rule>>,
    targets: HashMap<String, Vec<SocketAddr>>,
}

impl Plane {
    pub async fn start(
        client: Client,
        load_balancer: &str,
        listeners: Vec<(std::net::TcpListener, &str)>,
        version: &Arc<AtomicU64>,
    ) -> Self {
        let there =
            client.describe_listeners().load_balancer_arn(load_balancer).into_paginator().items().send();
        let there: Vec<types::Listener> = there.collect::<Result<_, _>>().await.unwrap();
        let arn =
            |one: &types::Listener| (one.port().unwrap() as u16, one.listener_arn().unwrap().to_owned());
        let arns = there.iter().map(arn).collect();
        let shared = Arc::new(Shared { client, arns, version: Arc::clone(version), told: Mutex::default() });
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let certificate = made.cert.der().clone();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let tls = rustls::ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key);
        let tls = TlsAcceptor::from(Arc::new(tls.unwrap()));
        let mut serving = JoinSet::new();
        for (listener, protocol) in listeners {
            listener.set_nonblocking(true).unwrap();
            let listener = TcpListener::from_std(listener).unwrap();
            let port = listener.local_addr().unwrap().port();
            let tls = (protocol == "HTTPS").then(|| tls.clone());
            serving.spawn(serve(listener, port, tls, Arc::clone(&shared)));
        }
        Self { certificate, _serving: serving }
    }

    pub async fn over_tls(&self, address: SocketAddr, call: &str) -> String {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let config = rustls::ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(address).await.unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        let mut stream = connector.connect("localhost".try_into().unwrap(), stream).await.unwrap();
        stream.write_all(call.as_bytes()).await.unwrap();
        let mut came = Vec::new();
        // The other side may close without saying so.
        let _ = stream.read_to_end(&mut came).await;
        String::from_utf8(came).unwrap()
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

async fn serve(listener: TcpListener, port: u16, tls: Option<TlsAcceptor>, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, from)) = listener.accept().await {
        let (shared, tls) = (Arc::clone(&shared), tls.clone());
        connections.spawn(async move {
            match tls {
                None => converse(stream, port, from, &shared).await,
                Some(tls) => {
                    if let Ok(stream) = tls.accept(stream).await {
                        converse(stream, port, from, &shared).await;
                    }
                }
            }
        });
    }
}

async fn converse<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    port: u16,
    from: SocketAddr,
    shared: &Shared,
) {
    let mut wire = Wire::new(stream);
    while let Ok(call) = wire.read().await {
        let answer = shared.answer(port, from, &call).await;
        if wire.write(&answer).await.is_err() || call.closes() {
            return;
        }
    }
}

fn by_itself(status: u16) -> Vec<u8> {
    format!("HTTP/1.1 {status} By itself\r\nContent-Length: 0\r\n\r\n").into_bytes()
}

impl Shared {
    async fn answer(&self, port: u16, from: SocketAddr, call: &Message) -> Vec<u8> {
        let Some((group, is_kept)) = self.group(port, call).await else { return by_itself(404) };
        let targets = self.targets(&group).await;
        let Some(target) = fastrand::choice(targets) else { return by_itself(503) };
        let Ok(stream) = TcpStream::connect(target).await else { return by_itself(502) };
        let mut onward = Wire::new(stream);
        let with_from = with_field(&call.written(), &format!("x-forwarded-for: {}", from.ip()));
        let answer = match onward.write(&with_from).await {
            Ok(()) => onward.read().await,
            Err(broken) => Err(broken),
        };
        let Ok(answer) = answer else { return by_itself(502) };
        let given = format!("Set-Cookie: {COOKIE}={}; Path=/", hex::encode(group.as_bytes()));
        if is_kept { with_field(&answer.written(), &given) } else { answer.written() }
    }

    /// The target group of a call, and whether its caller is to be kept there.
    async fn group(&self, port: u16, call: &Message) -> Option<(String, bool)> {
        let rules = self.rules(port).await;
        let rule = rules.iter().find(|rule| rule.conditions().iter().all(|one| is_met(one, call)))?;
        let config = rule.actions().first()?.forward_config()?;
        let sticky =
            config.target_group_stickiness_config().and_then(types::TargetGroupStickinessConfig::enabled)
                == Some(true);
        let groups: Vec<(&str, u32)> = config
            .target_groups()
            .iter()
            .map(|group| (group.target_group_arn().unwrap(), group.weight().unwrap() as u32))
            .collect();
        let mut cookies = call.field("cookie").unwrap_or_default().split("; ");
        let own = format!("{}=", COOKIE.to_lowercase());
        let held = cookies.find_map(|cookie| cookie.strip_prefix(&own));
        // Whatever its weight is.
        let kept = groups.iter().find(|(arn, _)| sticky && held == Some(&hex::encode(arn.as_bytes())));
        if let Some((arn, _)) = kept {
            return Some(((*arn).to_owned(), true));
        }
        let mut drawn = fastrand::u32(..groups.iter().map(|(_, weight)| *weight).sum::<u32>());
        for (arn, weight) in groups {
            if drawn < weight {
                return Some((arn.to_owned(), sticky));
            }
            drawn -= weight;
        }
        None
    }

    async fn told(&self) -> tokio::sync::MutexGuard<'_, Told> {
        let mut told = self.told.lock().await;
        let version = self.version.load(Ordering::SeqCst);
        if told.version != version {
            *told = Told { version, ..Told::default() };
        }
        told
    }

    async fn rules(&self, port: u16) -> Vec<types::Rule> {
        let mut told = self.told().await;
        if let Some(rules) = told.rules.get(&port) {
            return rules.clone();
        }
        let asked = self.client.describe_rules().listener_arn(&self.arns[&port]).send().await.unwrap();
        let mut rules = asked.rules().to_vec();
        rules.retain(|rule| rule.is_default() != Some(true));
        rules.sort_by_key(|rule| rule.priority().unwrap().parse::<u16>().unwrap());
        told.rules.insert(port, rules.clone());
        rules
    }

    async fn targets(&self, group: &str) -> Vec<SocketAddr> {
        let mut told = self.told().await;
        if let Some(targets) = told.targets.get(group) {
            return targets.clone();
        }
        let asked = self.client.describe_target_health().target_group_arn(group).send().await.unwrap();
        let target = |one: &types::TargetHealthDescription| {
            let target = one.target().unwrap();
            SocketAddr::new(target.id().unwrap().parse().unwrap(), target.port().unwrap() as u16)
        };
        let targets: Vec<SocketAddr> = asked.target_health_descriptions().iter().map(target).collect();
        told.targets.insert(group.to_owned(), targets.clone());
        targets
    }
}

fn is_met(condition: &types::RuleCondition, call: &Message) -> bool {
    match condition.field() {
        Some("host-header") => {
            let host = call.field("host").unwrap_or_default().to_ascii_lowercase();
            let host = host.split(':').next().unwrap();
            let mut patterns = condition.host_header_config().unwrap().values().iter();
            patterns.any(|pattern| fits(pattern.to_ascii_lowercase().as_bytes(), host.as_bytes()))
        }
        Some("path-pattern") => {
            let path = call.path().split('?').next().unwrap();
            let mut patterns = condition.path_pattern_config().unwrap().values().iter();
            patterns.any(|pattern| fits(pattern.as_bytes(), path.as_bytes()))
        }
        Some("http-header") => {
            let config = condition.http_header_config().unwrap();
            let sent = call.field(&config.http_header_name().unwrap().to_lowercase()).unwrap_or_default();
            config.values().iter().any(|value| value.eq_ignore_ascii_case(sent))
        }
        other => panic!("no rule of the tests has the condition {other:?}"),
    }
}

/// `*` stands for whatever there is, `?` for one character.
fn fits(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern, text) {
        ([b'*', rest @ ..], _) => (0..=text.len()).any(|at| fits(rest, &text[at..])),
        ([b'?', rest @ ..], [_, left @ ..]) => fits(rest, left),
        ([one, rest @ ..], [other, left @ ..]) => one == other && fits(rest, left),
        ([], []) => true,
        _ => false,
    }
}

fn with_field(message: &[u8], field: &str) -> Vec<u8> {
    let line = message.windows(2).position(|end| end == b"\r\n").unwrap() + 2;
    [&message[..line], field.as_bytes(), b"\r\n", &message[line..]].concat()
}
