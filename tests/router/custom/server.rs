//! What an operator would write: whoever answers the webhook, and tells a router of its own.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use model::traffic::{LedForm, LedVariation};
use router::{Router, RouterError, custom::Secret};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use traffic::{
    HashFunction, Run, Table, Variation as Which,
    desired::{DesiredConfig, Health, Number, Rule, Service, ServiceSpec, Variation},
};

/// A call as it came.
#[derive(Debug, Clone)]
pub struct Call {
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Call {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// How a call is answered: a status, more of the head, and a body.
pub type Answered = (u16, String, Vec<u8>);

pub fn answer(status: u16, body: &Value) -> Answered {
    (status, String::new(), body.to_string().into_bytes())
}

/// A server that answers each call so; all calls that came.
#[derive(Debug)]
pub struct Server {
    pub at: SocketAddr,
    pub calls: Arc<Mutex<Vec<Call>>>,
    _serving: JoinSet<()>,
}

impl Server {
    pub async fn start<F>(at: SocketAddr, respond: impl Fn(Call) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Answered> + Send,
    {
        let listener = TcpListener::bind(at).await.unwrap();
        let (at, calls) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<Call>>>::default());
        let (respond, noted) = (Arc::new(respond), Arc::clone(&calls));
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut answering = JoinSet::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let (respond, noted) = (Arc::clone(&respond), Arc::clone(&noted));
                answering.spawn(async move {
                    let Some(call) = read(&mut stream).await else { return };
                    noted.lock().unwrap_or_else(PoisonError::into_inner).push(call.clone());
                    let (status, head, body) = respond(call).await;
                    let head = format!(
                        "HTTP/1.1 {status} so\r\nConnection: close\r\n{head}Content-Length: {}\r\n\r\n",
                        body.len()
                    );
                    let _ = stream.write_all(&[head.as_bytes(), &body].concat()).await;
                });
            }
        });
        Self { at, calls, _serving: serving }
    }
}

async fn read(stream: &mut TcpStream) -> Option<Call> {
    let mut came = Vec::new();
    loop {
        if stream.read_buf(&mut came).await.ok()? == 0 {
            return None;
        }
        let mut fields = [httparse::EMPTY_HEADER; 32];
        let mut request = httparse::Request::new(&mut fields);
        let httparse::Status::Complete(head) = request.parse(&came).ok()? else { continue };
        let headers: BTreeMap<String, String> = request
            .headers
            .iter()
            .map(|field| (field.name.to_ascii_lowercase(), String::from_utf8_lossy(field.value).into_owned()))
            .collect();
        let length: usize = headers.get("content-length")?.parse().ok()?;
        while came.len() < head + length {
            if stream.read_buf(&mut came).await.ok()? == 0 {
                return None;
            }
        }
        return Some(Call { headers, body: came[head..head + length].to_vec() });
    }
}

/// Whether a call is signed by whoever has the secret.
pub fn is_signed(call: &Call, secret: &Secret) -> bool {
    let header = |name: &str| call.headers.get(name).cloned().unwrap_or_default();
    let timestamp = header("webhook-timestamp").parse().unwrap_or(0);
    header("webhook-signature") == secret.sign(&header("webhook-id"), timestamp, &call.body)
}

/// Does what is asked with a router of its own.
pub async fn obey(call: Call, secret: Secret, router: Arc<dyn Router>) -> Answered {
    if !is_signed(&call, &secret) {
        return answer(401, &json!("who are you?"));
    }
    let asked = call.json();
    match asked["do"].as_str().unwrap() {
        "apply" => {
            let wanted = wanted(&asked);
            match router.apply(&wanted).await {
                Ok(applied) => answer(200, &taken(applied.number, applied.was_reloaded)),
                Err(RouterError::Older { newest, .. }) => answer(409, &taken(newest, false)),
                Err(error @ (RouterError::Refused { .. } | RouterError::Unable { .. })) => {
                    answer(422, &json!(error.to_string()))
                }
                Err(error) => answer(503, &json!(error.to_string())),
            }
        }
        "read" => match seen(&router).await {
            Ok(seen) => answer(200, &seen),
            Err(error) => answer(503, &json!(error.to_string())),
        },
        "validate" => match router.check(None).await {
            Ok(checked) => answer(200, &json!({"refused": checked.refused, "left_over": checked.left_over})),
            Err(error) => answer(503, &json!(error.to_string())),
        },
        "reload" => match router.reload().await {
            Ok(()) => answer(204, &json!({})),
            Err(error) => answer(422, &json!(error.to_string())),
        },
        other => answer(400, &json!(format!("{other} is nothing that is done here"))),
    }
}

fn taken(number: Number, reloaded: bool) -> Value {
    json!({"epoch": number.epoch, "generation": number.generation, "reloaded": reloaded})
}

async fn seen(router: &Arc<dyn Router>) -> Result<Value, RouterError> {
    let seen = router.read().await?;
    let mut services = Vec::new();
    for (name, service) in seen.services {
        let mut variations = Vec::new();
        for variation in &service.variations {
            let targets: Vec<String> = variation.targets.iter().map(|one| one.target.to_string()).collect();
            let connections = router.connections(&name, &variation.name).await?;
            variations.push(json!({"name": variation.name, "targets": targets, "connections": connections}));
        }
        let shares: Vec<u16> = service.variations.iter().map(|one| one.hundredths).collect();
        let mut form = json!({"name": name, "variations": variations, "shares": shares});
        if let Some(table) = service.table {
            let runs = table.runs();
            form["buckets"] =
                runs.iter().map(|run| json!([run.from, run.to, run.variation.0])).collect::<Vec<_>>().into();
        }
        services.push(form);
    }
    let mut form = json!({"services": services, "left_over": seen.left_over});
    if let Some(Number { epoch, generation }) = seen.number {
        (form["epoch"], form["generation"]) = (epoch.into(), generation.into());
    }
    Ok(form)
}

/// What is to be done, as it came.
pub fn wanted(asked: &Value) -> DesiredConfig {
    let number = |key: &str| asked[key].as_u64().unwrap();
    let services = asked["services"].as_array().unwrap().iter().map(|form| Service::new(spec(form)).unwrap());
    let number = Number { epoch: number("epoch"), generation: number("generation") };
    DesiredConfig::new(number, services.collect()).unwrap()
}

fn spec(form: &Value) -> ServiceSpec {
    let led: LedForm = serde_json::from_value(form.clone()).unwrap();
    let runs: Vec<(u16, u16, u8)> = serde_json::from_value(form["buckets"].clone()).unwrap();
    let runs: Vec<Run> =
        runs.into_iter().map(|(from, to, of)| Run { from, to, variation: Which(of) }).collect();
    let at = |name: &String| led.variations.iter().position(|one| one.name == *name).unwrap() as u8;
    let rule = led.header.as_ref().map(|rule| Rule {
        name: rule.name.parse().unwrap(),
        values: rule.values.iter().map(|(value, of)| (value.parse().unwrap(), Which(at(of)))).collect(),
    });
    ServiceSpec {
        name: form["name"].as_str().unwrap().parse().unwrap(),
        listens: led.ports,
        sticky: led.sticky.map(|sticky| sticky.try_into().unwrap()),
        rule,
        salt: led.salt.parse().unwrap(),
        hash: HashFunction::ALL.into_iter().find(|hash| hash.name() == led.hash).unwrap(),
        table: Table::from_runs(led.variations.len(), &runs).unwrap(),
        variations: led.variations.iter().map(variation).collect(),
    }
}

fn variation(form: &LedVariation) -> Variation {
    Variation {
        name: form.name.parse().unwrap(),
        targets: form.targets.iter().map(|target| target.parse().unwrap()).collect(),
        health: form.health.as_ref().map(|health| Health {
            path: health.path.as_deref().map(Into::into),
            interval: std::time::Duration::from_millis(health.interval_ms),
            timeout: std::time::Duration::from_millis(health.timeout_ms),
            healthy_after: health.healthy_after,
            unhealthy_after: health.unhealthy_after,
        }),
    }
}
