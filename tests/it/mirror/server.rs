//! A Redis of one test.

use std::{
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use redis::{AsyncConnectionConfig, Client, aio::MultiplexedConnection, cmd};
use tempfile::TempDir;

use crate::{
    deadline::{DEADLINE, until},
    ports::free_address,
};

pub struct Redis {
    pub address: SocketAddr,
    flags: Vec<String>,
    folder: TempDir,
    process: Option<Child>,
}

impl Redis {
    pub async fn start() -> Self {
        Self::with(&[]).await
    }

    pub async fn with(flags: &[&str]) -> Self {
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let folder = tempfile::tempdir().unwrap();
        let mut redis = Self { address: free_address(), flags, folder, process: None };
        redis.come_back().await;
        redis
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// An empty one, unless flags say that it keeps what it has.
    pub async fn come_back(&mut self) {
        let program = std::env::var_os("CHOIRMASTER_TEST_REDIS").unwrap_or_else(|| "redis-server".into());
        let mut command = Command::new(program);
        command.args(["--bind", "127.0.0.1", "--port", &self.address.port().to_string()]);
        command.args(["--save", "", "--appendonly", "no", "--logfile"]).arg(self.log());
        command.args(&self.flags).current_dir(self.folder.path()).stdin(Stdio::null()).stdout(Stdio::null());
        self.process = Some(command.spawn().expect("a redis-server: tests/run installs it"));
        let url = self.url();
        let connect = async || Client::open(&*url).unwrap().get_multiplexed_async_connection().await.is_ok();
        // One with a password lets in whoever has it.
        let answers = async || connect().await || !self.flags.is_empty() && self.listens().await;
        until("redis-server answers", answers, |answers| *answers).await;
    }

    async fn listens(&self) -> bool {
        tokio::net::TcpStream::connect(self.address).await.is_ok()
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            process.wait().unwrap();
        }
    }

    /// What redis-cli prints.
    pub fn cli(&self, arguments: &[&str]) -> String {
        let mut cli = Command::new("redis-cli");
        cli.args(["-h", "127.0.0.1", "-p", &self.address.port().to_string()]).args(arguments);
        let output = cli.stdin(Stdio::null()).output().expect("a redis-cli: tests/run installs it");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    pub async fn client(&self) -> MultiplexedConnection {
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(Some(DEADLINE))
            .set_connection_timeout(Some(DEADLINE));
        let client = Client::open(self.url()).unwrap();
        client.get_multiplexed_async_connection_with_config(&config).await.unwrap()
    }

    /// All keys with what stands there, in order.
    pub async fn dump(&self) -> Vec<(String, String)> {
        let mut client = self.client().await;
        let mut keys: Vec<String> = cmd("KEYS").arg("*").query_async(&mut client).await.unwrap();
        keys.sort();
        let mut all = Vec::new();
        for key in keys {
            // What is no text isn't told.
            let value: Option<String> = cmd("GET").arg(&key).query_async(&mut client).await.ok().flatten();
            all.extend(value.map(|value| (key, value)));
        }
        all
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}
