//! A real Prometheus, with data of its own: two variants of a function, of which one has gaps.

use std::{
    fmt::Write as _,
    io::BufReader,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
};

use language::{
    analysis::{MetricSource, Variant},
    check,
};
use metrics_providers::provider::{Ask, Provider, ProviderError, Window};

use super::{WINDOW, fetch, provider};

/// A server that lives as long as this.
pub struct Server {
    process: Child,
    pub address: SocketAddr,
    pub folder: tempfile::TempDir,
}

impl Server {
    /// Prometheus over these samples (`OpenMetrics`, without its end), with a web configuration if there is one.
    pub fn start(samples: &str, web: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let samples = file(&folder, "samples.txt", &format!("{samples}# EOF\n"));
        let made = program("promtool")
            .args(["tsdb", "create-blocks-from", "openmetrics"])
            .args([&samples, &folder.path().join("data")])
            .output()
            .unwrap_or_else(|error| missing(&error));
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let web = web.map(|web| format!("--web.config.file={}", file(&folder, "web.yml", web).display()));
        Self::run(folder, web)
    }

    /// An empty one that takes what is written to it.
    pub fn receiving() -> Self {
        Self::run(tempfile::tempdir().unwrap(), Some("--web.enable-remote-write-receiver".to_owned()))
    }

    fn run(folder: tempfile::TempDir, flag: Option<String>) -> Self {
        let mut command = program("prometheus");
        command
            .arg(format!("--config.file={}", file(&folder, "prometheus.yml", "{}").display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .args(["--storage.tsdb.retention.time=100y", "--web.listen-address=127.0.0.1:0"])
            .args(flag);
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut process = process.unwrap_or_else(|error| missing(&error));
        let mut log = BufReader::new(process.stderr.take().unwrap());
        let address = ready(&mut log);
        // Nobody reads on, and a full pipe would hold it up.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Self { process, address, folder }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn file(folder: &tempfile::TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// A program of Prometheus.
pub fn program(name: &str) -> Command {
    match std::env::var_os("CHOIRMASTER_TEST_PROMETHEUS") {
        Some(folder) => Command::new(Path::new(&folder).join(name)),
        None => Command::new(name),
    }
}

pub fn missing(error: &std::io::Error) -> ! {
    panic!("there is no Prometheus ({error}): run the tests with tests/run, which gets one, or install it")
}

/// Where it listens, once it answers.
fn ready(log: &mut impl std::io::BufRead) -> SocketAddr {
    let (mut all, mut address, mut is_ready) = (String::new(), None, false);
    loop {
        let mut line = String::new();
        assert!(log.read_line(&mut line).unwrap() > 0, "Prometheus ended: {all}");
        if line.contains("Listening on") {
            let word = line.split_whitespace().find_map(|word| word.strip_prefix("address="));
            address = word.and_then(|word| word.trim_matches('"').parse().ok());
        }
        is_ready |= line.contains("Server is ready");
        // On a busy machine either may be said first.
        if let Some(address) = address.filter(|_| is_ready) {
            return address;
        }
        all += &line;
    }
}

/// In the middle of each of the ten minutes, so that no sample lies on the edge of a range.
fn samples() -> String {
    let mut text = "# TYPE latency gauge\n".to_owned();
    let at = |minute: i64| WINDOW.start_ms / 1000 + 60 * minute - 30;
    for (variant, factor) in [("baseline", 1), ("canary", 2)] {
        for minute in 1..=10 {
            let _ = writeln!(text, "latency{{variant=\"{variant}\"}} {} {}", minute * factor, at(minute));
        }
    }
    text += "# TYPE sparse gauge\n";
    for minute in [1, 2, 9, 10] {
        let _ = writeln!(text, "sparse {minute} {}", at(minute));
    }
    text
}

const QUERY: &str = r#"sum_over_time(latency{variant="{{ .Variant.Name }}"}[1m])"#;

#[tokio::test]
async fn a_real_prometheus_answers_or_says_why_not() {
    let server = Server::start(&samples(), None);
    let it = provider(&format!("type: prometheus, url: 'http://{}', max_points: 20000", server.address));
    both_variants(&it).await;
    let values = |samples: metrics_providers::provider::Samples| samples.values().collect::<Vec<_>>();

    // What is older than five minutes is stale; a range knows at once.
    let stale = provider(&format!("type: prometheus, url: 'http://{}', step: 1m", server.address));
    let found = fetch(&stale, "sparse").await.unwrap();
    assert_eq!((found.gaps, found.points.len()), (2, 8));
    let found = fetch(&it, "sum_over_time(sparse[1m])").await.unwrap();
    assert_eq!((found.gaps, values(found)), (6, vec![1.0, 2.0, 9.0, 10.0]));

    let found = fetch(&stale, "sparse * 0 / 0").await.unwrap();
    assert_eq!((found.nan, found.gaps, found.points.len()), (8, 2, 0));
    assert_eq!(fetch(&stale, "nothing").await.unwrap().gaps, 10);
    assert_eq!(fetch(&stale, "latency").await, Err(ProviderError::SeveralSeries(2)));
    assert_eq!(fetch(&stale, "sum(latency)").await.unwrap().points.len(), 10);
    assert_eq!(fetch(&stale, "sparse / 0").await, Err(ProviderError::Infinite));
    for (query, why) in [("\"a\"", "string"), ("sparse[5m]", "range"), ("sum(", "parse error"), ("", "")] {
        let error = fetch(&stale, query).await.unwrap_err();
        let refused = matches!(&error, ProviderError::Refused { status: 400, text } if text.contains(why));
        assert!(refused, "{query}: {error:?}");
    }

    let long = Window { end_ms: WINDOW.start_ms + 12_000_000, ..WINDOW };
    let fine =
        provider(&format!("type: prometheus, url: 'http://{}', max_points: 20000, step: 1s", server.address));
    let error = fine.fetch(Ask { text: "sparse", json_path: None }, long).await.unwrap_err();
    assert!(matches!(&error, ProviderError::Refused { text, .. } if text.contains("11,000")), "{error:?}");
}

/// The values of both variants, by the query of a strategy.
async fn both_variants(it: &Arc<dyn Provider>) {
    let block = format!(
        "    analysis:\n      duration: 10m\n      interval: 1m\n      metrics:\n        - {{name: latency, provider: it, strategy: CANARY_BASELINE, query: '{QUERY}'}}\n    end_action:\n"
    );
    let text = crate::reference::REFERENCE.replacen("    end_action:\n", &block, 1);
    let strategy = check(&text).strategy.unwrap();
    let (_, analysis) = strategy.analyses().next().unwrap();
    let metric = &analysis.metrics[0];
    let MetricSource::Query(asked) = &metric.source else { panic!("{metric:?}") };
    assert_eq!(metric.variants(), (Variant::Canary, Some(Variant::Baseline)));
    for (variant, factor) in [(Variant::Baseline, 1.0), (Variant::Canary, 2.0)] {
        let text = asked.text(variant, "sieve", it.escape()).unwrap();
        let found = fetch(it, &text).await.unwrap();
        let expected: Vec<f64> = (1..=10).map(|minute| f64::from(minute) * factor).collect();
        assert_eq!(found.values().collect::<Vec<_>>(), expected);
        let times: Vec<i64> = found.points.iter().map(|point| point.at_ms).collect();
        assert_eq!(times, (1..=10).map(|minute| WINDOW.start_ms + 60_000 * minute).collect::<Vec<_>>());
        assert_eq!((found.gaps, found.nan), (0, 0));
    }
}

#[tokio::test]
async fn a_real_prometheus_is_asked_with_a_password_over_tls_of_its_own_authority() {
    let tls = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/provider/tls");
    let file = |name: &str| tls.join(name).display().to_string();
    // The hash is that of the password below.
    let web = format!(
        "tls_server_config: {{cert_file: {}, key_file: {}}}\nbasic_auth_users: {{rm: {}}}\n",
        file("server.pem"),
        file("server.key"),
        "$2b$04$qf1jzOUdjC4OKRsi9d7xXerO7pwpc5vyrScW/UbKeqMnR/nebYkD6"
    );
    let server = Server::start(&samples(), Some(&web));
    let password = server.folder.path().join("password");
    std::fs::write(&password, "open sesame\n").unwrap();
    let keys = |authority: &str, user: &str| {
        let password = password.display();
        format!(
            "type: prometheus, step: 1m, url: 'https://{}', ca_file: {authority}, basic_auth: {{username: {user}, password_file: {password}}}",
            server.address
        )
    };
    let own = file("ca.pem");
    assert_eq!(fetch(&provider(&keys(&own, "rm")), "sum(latency)").await.unwrap().points.len(), 10);
    let error = fetch(&provider(&keys(&own, "mallory")), "sum(latency)").await.unwrap_err();
    assert!(matches!(error, ProviderError::Refused { status: 401, .. }), "{error:?}");
    // Another authority: a certificate that signed nothing here.
    let error = fetch(&provider(&keys(&file("server.pem"), "rm")), "sum(latency)").await.unwrap_err();
    assert!(matches!(&error, ProviderError::Unreachable(why) if why.contains("certificate")), "{error:?}");
}
