//! What is measured: this program again as the version and as the proxy, and nginx and `HAProxy` where they are installed.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpListener},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use call_metrics::Cursor;
use proxy::{
    Limits, Proxy,
    form::{TableForm, TransportForm},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::Instant,
};

use crate::secured;

/// Bodies of small and of large answers.
pub const SMALL: usize = 64;
pub const LARGE: usize = 1024 * 1024;
/// The name of that side.
pub const OTHER_BUILD: &str = "other build";
/// Threads of each proxy.
pub const THREADS: usize = 2;
/// Connections that are there at once may be so many.
const CONNECTIONS: usize = 8_000;
/// A program that serves nothing after this time won't.
pub const START: Duration = Duration::from_secs(20);

/// What callers speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secured {
    No,
    Tls,
    /// It isn't looked at: bytes pass.
    Unopened,
}

/// What the proxy's process takes.
#[derive(Debug, Clone, Copy)]
pub enum Serving<'f> {
    Calls,
    /// The same over TLS, with the certificate in this folder.
    Secured(&'f Path),
    /// Connections of TCP.
    Tcp,
}

/// A program that serves.
#[derive(Debug)]
pub struct Side {
    pub name: &'static str,
    pub at: SocketAddr,
    child: Child,
    answers: Option<BufReader<ChildStdout>>,
}

impl Side {
    /// What calls end at: answers at once, whatever the path is, with as much as its last letter says.
    pub fn version() -> anyhow::Result<Self> {
        Self::own("direct", &std::env::current_exe()?, &["version"])
    }

    /// The proxy, with so many services.
    pub fn ours(version: &Self, services: usize) -> anyhow::Result<Self> {
        Self::proxy_of("proxy", &std::env::current_exe()?, version, &[&services.to_string()])
    }

    /// The proxy of another build of this program.
    pub fn other_build(program: &Path, version: &Self) -> anyhow::Result<Self> {
        Self::proxy_of(OTHER_BUILD, program, version, &["1"])
    }

    /// The proxy, which passes on connections of TCP.
    pub fn ours_with_tcp(version: &Self) -> anyhow::Result<Self> {
        Self::proxy_of("proxy", &std::env::current_exe()?, version, &["tcp"])
    }

    /// The proxy, which ends TLS with the certificate in a folder.
    pub fn ours_with_tls(version: &Self, folder: &Path) -> anyhow::Result<Self> {
        let folder = folder.to_str().context("a folder of another name")?;
        Self::proxy_of("proxy", &std::env::current_exe()?, version, &["1", folder])
    }

    fn proxy_of(name: &'static str, program: &Path, version: &Self, rest: &[&str]) -> anyhow::Result<Self> {
        let version = version.at.to_string();
        Self::own(name, program, &[&["proxy", &*version], rest].concat())
    }

    fn own(name: &'static str, program: &Path, arguments: &[&str]) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        command.arg("--serve").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let mut answers = BufReader::new(child.stdout.take().context("it has an output")?);
        let mut line = String::new();
        answers.read_line(&mut line)?;
        let at = line.trim().parse().with_context(|| format!("{name} did not start"))?;
        Ok(Self { name, at, child, answers: Some(answers) })
    }

    /// nginx with one upstream, whose connections it keeps.
    pub fn nginx(version: &Self, folder: &Path, secured: Secured) -> anyhow::Result<Option<Self>> {
        let at = free_address()?;
        let (ssl, certificate) = match secured {
            Secured::No | Secured::Unopened => ("", String::new()),
            Secured::Tls => {
                let folder = folder.display();
                let certificate = format!(
                    "ssl_certificate {folder}/cert.pem;\n    ssl_certificate_key {folder}/key.pem; ssl_protocols TLSv1.3;"
                );
                (" ssl", certificate)
            }
        };
        let (to, folder_text) = (version.at, folder.display());
        let configuration = format!(
            "worker_processes {THREADS};\ndaemon off;\npid {folder_text}/nginx.pid;\nerror_log {folder_text}/nginx.log;\n\
             worker_rlimit_nofile {CONNECTIONS};\nevents {{ worker_connections {CONNECTIONS}; }}\n\
             http {{\n  access_log off;\n  client_body_temp_path {folder_text}/body;\n  proxy_temp_path {folder_text}/proxy;\n  \
             fastcgi_temp_path {folder_text}/fastcgi;\n  uwsgi_temp_path {folder_text}/uwsgi;\n  \
             scgi_temp_path {folder_text}/scgi;\n  keepalive_requests 100000000;\n  \
             upstream version {{ server {to}; keepalive 256; keepalive_requests 100000000; }}\n  \
             server {{\n    listen {at}{ssl};\n    {certificate}\n    location / {{\n      proxy_pass http://version;\n      \
             proxy_http_version 1.1;\n      proxy_set_header Connection \"\";\n    }}\n  }}\n}}\n"
        );
        let passing = format!(
            "worker_processes {THREADS};\ndaemon off;\npid {folder_text}/nginx.pid;\nerror_log {folder_text}/nginx.log;\n\
             worker_rlimit_nofile {CONNECTIONS};\nevents {{ worker_connections {CONNECTIONS}; }}\n\
             stream {{\n  server {{\n    listen {at};\n    proxy_pass {to};\n    tcp_nodelay on;\n  }}\n}}\n"
        );
        let (name, configuration) = match secured {
            Secured::No => ("nginx.conf", configuration),
            Secured::Tls => ("nginx-tls.conf", configuration),
            Secured::Unopened => {
                let module = Path::new("/usr/lib/nginx/modules/ngx_stream_module.so");
                let load = if module.exists() {
                    format!("load_module {};\n", module.display())
                } else {
                    String::new()
                };
                ("nginx-tcp.conf", load + &passing)
            }
        };
        let path = folder.join(name);
        fs::write(&path, configuration)?;
        let mut command = Command::new("nginx");
        command.arg("-c").arg(&path).arg("-e").arg(folder.join("nginx.log"));
        Self::foreign("nginx", at, command)
    }

    pub fn haproxy(version: &Self, folder: &Path, secured: Secured) -> anyhow::Result<Option<Self>> {
        let at = free_address()?;
        let (certificate, mode) = match secured {
            Secured::No => (String::new(), "http"),
            Secured::Tls => (format!(" ssl crt {}/both.pem", folder.display()), "http"),
            Secured::Unopened => (String::new(), "tcp"),
        };
        let of_http = if mode == "http" { "  option http-keep-alive\n  http-reuse always\n" } else { "" };
        let to = version.at;
        let configuration = format!(
            "global\n  nbthread {THREADS}\n  maxconn {CONNECTIONS}\ndefaults\n  mode {mode}\n  timeout connect 1s\n  \
             timeout client 75s\n  timeout server 30s\n{of_http}\
             frontend calls\n  bind {at}{certificate}\n  default_backend version\nbackend version\n  server version {to}\n"
        );
        let path = folder.join(if mode == "tcp" { "haproxy-tcp.cfg" } else { "haproxy.cfg" });
        fs::write(&path, configuration)?;
        let mut command = Command::new("haproxy");
        command.arg("-db").arg("-f").arg(&path);
        Self::foreign("HAProxy", at, command)
    }

    /// Nothing where it isn't installed.
    pub fn foreign(name: &'static str, at: SocketAddr, mut command: Command) -> anyhow::Result<Option<Self>> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = match command.spawn() {
            Ok(child) => child,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("starting {name}")),
        };
        let mut side = Self { name, at, child, answers: None };
        let until = Instant::now() + START;
        while std::net::TcpStream::connect(at).is_err() {
            if let Some(status) = side.child.try_wait()? {
                bail!("{name} ended at its start: {status}");
            }
            ensure!(Instant::now() < until, "{name} does not listen");
            thread::sleep(Duration::from_millis(10));
        }
        Ok(Some(side))
    }

    /// Tells the proxy something and waits until it is done.
    pub fn tell(&mut self, order: &str) -> anyhow::Result<()> {
        let input = self.child.stdin.as_mut().context("it takes no orders")?;
        writeln!(input, "{order}")?;
        let mut line = String::new();
        self.answers.as_mut().context("it gives no answers")?.read_line(&mut line)?;
        ensure!(line.trim() == "done", "{} said {line:?}", self.name);
        Ok(())
    }

    /// Its processes.
    fn processes(&self) -> Vec<u32> {
        let own = self.child.id();
        let children = fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap_or_default();
        let children = children.split_whitespace().filter_map(|child| child.parse().ok());
        std::iter::once(own).chain(children).collect()
    }

    /// Processor time that it took so far, in seconds.
    pub fn cpu(&self) -> f64 {
        let of_one = |process: u32| {
            let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
            let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
            let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
            // Ticks of user and of system; all machines that have this file have a hundred a second.
            Some((ticks(11)? + ticks(12)?) / 100.0)
        };
        self.processes().into_iter().filter_map(of_one).sum()
    }

    /// Bytes that are its own: neither shared with others nor kept in the kernel.
    pub fn memory(&self) -> u64 {
        let of_one = |process: u32| {
            let rollup = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
            let line = |name: &str| rollup.lines().find(|line| line.starts_with(name)).map(str::to_owned);
            let kib = |name| line(name)?.split_whitespace().nth(1)?.parse::<u64>().ok();
            Some((kib("Private_Dirty:")? + kib("Private_Clean:")?) * 1024)
        };
        self.processes().into_iter().filter_map(of_one).sum()
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        // nginx's workers end with their master where it is asked to end.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}

pub fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(free_addresses(1)?[0])
}

/// Each is another one.
pub fn free_addresses(count: usize) -> anyhow::Result<Vec<SocketAddr>> {
    let held: Vec<_> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<_, _>>()?;
    Ok(held.iter().map(TcpListener::local_addr).collect::<Result<_, _>>()?)
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// The version's process: it ends with its input.
pub fn serve_version() -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    listener.set_nonblocking(true)?;
    thread::spawn(|| {
        std::io::stdin().lines().map_while(Result::ok).for_each(drop);
        std::process::exit(0);
    });
    runtime()?.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::spawn(answer_all(stream));
        }
    })
}

fn answer(body: usize) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {body}\r\n\r\n");
    let mut answer = head.into_bytes();
    answer.resize(answer.len() + body, b'.');
    answer
}

async fn answer_all(mut stream: TcpStream) -> std::io::Result<()> {
    let small = answer(SMALL);
    let mut large = Vec::new();
    let mut came = vec![0; 4096];
    let mut got = 0;
    loop {
        let read = stream.read(&mut came[got..]).await?;
        if read == 0 {
            return Ok(());
        }
        got += read;
        if !came[..got].ends_with(b"\r\n\r\n") {
            continue;
        }
        let line = came.split(|&byte| byte == b' ').nth(1).unwrap_or_default();
        if line.ends_with(b"/large") {
            if large.is_empty() {
                large = answer(LARGE);
            }
            stream.write_all(&large).await?;
        } else {
            stream.write_all(&small).await?;
        }
        got = 0;
    }
}

/// The proxy's process: it ends with its input, of which each line is the new version's share.
pub fn serve_proxy(version: &str, services: usize, serving: Serving<'_>) -> anyhow::Result<()> {
    let limits = Limits { connections: CONNECTIONS, ..Limits::default() };
    let proxy = Proxy::start(THREADS, limits)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let at = match serving {
        Serving::Calls => proxy.listen(&listener)?,
        Serving::Secured(folder) => proxy.listen_tls(&listener, &secured::for_proxy(folder)?)?,
        Serving::Tcp => proxy.listen_tcp(&listener)?,
    };
    let runtime = runtime()?;
    let mut first = table(version, services, 1, 500)?;
    if let Serving::Tcp = serving {
        first.services[0].ports = vec![at.port()];
        first.services[0].protocol = TransportForm::Tcp;
    }
    runtime.block_on(proxy.apply(&first))?;
    println!("{at}");
    let gathering = Gathering::start(proxy);
    for (generation, share) in (2..).zip(std::io::stdin().lines()) {
        let table = table(version, services, generation, share?.trim().parse()?)?;
        runtime.block_on(gathering.0.apply(&table))?;
        println!("done");
    }
    std::process::exit(0);
}

/// A proxy whose counts are read every second, as an agent does.
struct Gathering(std::sync::Arc<Proxy>);

impl Gathering {
    fn start(proxy: Proxy) -> Self {
        let proxy = std::sync::Arc::new(proxy);
        let of_thread = std::sync::Arc::clone(&proxy);
        thread::spawn(move || {
            let runtime = runtime();
            let mut cursor = Cursor::default();
            while let Ok(runtime) = &runtime {
                thread::sleep(Duration::from_secs(1));
                cursor = runtime.block_on(of_thread.counts_since(cursor)).next;
            }
        });
        Self(proxy)
    }
}

/// Services `s0`, `s1` and so on, each with two versions at the same address.
fn table(version: &str, services: usize, generation: u64, share: u16) -> anyhow::Result<TableForm> {
    let service = |index: usize| {
        serde_json::json!({
            "name": format!("s{index}"),
            "variations": [{"name": "base", "targets": [version]}, {"name": "new", "targets": [version]}],
            "shares": [10_000 - share, share],
        })
    };
    let services: Vec<_> = (0..services).map(service).collect();
    Ok(serde_json::from_value(serde_json::json!({"generation": generation, "services": services}))?)
}
