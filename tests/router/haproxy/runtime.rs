//! The runtime socket, as an operator uses it.

use std::{path::Path, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
    time::sleep,
};

#[derive(Debug)]
pub struct Runtime(UnixStream);

impl Runtime {
    pub async fn open(socket: &Path) -> Self {
        Self::try_open(socket).await.unwrap()
    }

    async fn try_open(socket: &Path) -> std::io::Result<Self> {
        let mut runtime = Self(UnixStream::connect(socket).await?);
        runtime.0.write_all(b"prompt\n").await?;
        runtime.answer().await?;
        Ok(runtime)
    }

    async fn answer(&mut self) -> std::io::Result<String> {
        let mut came = Vec::new();
        while !came.ends_with(b"\n> ") {
            if self.0.read_buf(&mut came).await? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(String::from_utf8(came).unwrap().trim_end_matches("\n> ").to_owned())
    }

    pub async fn ask(&mut self, command: &str) -> String {
        self.0.write_all(format!("{command}\n").as_bytes()).await.unwrap();
        self.answer().await.unwrap()
    }

    pub async fn obeys(&mut self, command: &str) {
        assert_eq!(self.ask(command).await, "", "{command}");
    }

    /// The whole name of a map whose own name this is.
    pub async fn map(&mut self, name: &str) -> String {
        let all = self.ask("show map").await;
        let end = format!("/{name}");
        let words = all.split(['(', ')']).find(|word| word.ends_with(&end));
        words.unwrap_or_else(|| panic!("no {name} in {all}")).to_owned()
    }

    pub async fn entries(&mut self, map: &str) -> Vec<(String, String)> {
        let all = self.ask(&format!("show map {map}")).await;
        let entry = |line: &str| {
            let mut words = line.split(' ').skip(1).map(str::to_owned);
            Some((words.next()?, words.next()?))
        };
        all.lines().filter_map(entry).collect()
    }

    pub async fn pid(&mut self) -> u32 {
        let info = self.ask("show info").await;
        let pid = info.lines().find_map(|line| line.strip_prefix("Pid: "));
        pid.unwrap().trim().parse().unwrap()
    }
}

/// Between two looks at a process that tells nobody when it is ready.
const PAUSE: Duration = Duration::from_millis(5);
const LOOKS: u32 = 4_000;

pub async fn until_it_answers(socket: &Path, log: impl Fn() -> String) {
    for _ in 0..LOOKS {
        if Runtime::try_open(socket).await.is_ok() {
            return;
        }
        sleep(PAUSE).await;
    }
    panic!("it never answers: {}", log());
}

pub async fn until_another_answers(socket: &Path, before: u32) {
    for _ in 0..LOOKS {
        if let Ok(mut runtime) = Runtime::try_open(socket).await
            && runtime.pid().await != before
        {
            return;
        }
        sleep(PAUSE).await;
    }
    panic!("process {before} goes on");
}

pub async fn until_nobody_answers(socket: &Path) {
    for _ in 0..LOOKS {
        if UnixStream::connect(socket).await.is_err() {
            return;
        }
        sleep(PAUSE).await;
    }
    panic!("somebody answers still");
}
