//! Versions that run: as a task of this process, or as a process of its own, which ends when its input does, so when this process
//! ends.

use std::{
    env,
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
};

use tokio::{
    net::{TcpListener, TcpStream, UnixStream},
    task::AbortHandle,
};

pub use super::serving::Behaviour;
use super::{
    serving::{ENVIRONMENT, Listen, Told, arguments, open, serve_tcp},
    wait::wait_until,
};
use crate::ports::free_address;

/// Where a version runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Here,
    ApartOnTcp,
    ApartOnSocket,
}

/// A version that runs. It is stopped when it is dropped.
#[derive(Debug)]
pub struct Version {
    pub name: String,
    told: Arc<Told>,
    runs: Runs,
}

#[derive(Debug)]
enum Runs {
    Here(AbortHandle),
    Apart(Child),
}

impl Version {
    /// Starts one and waits until it listens.
    pub async fn start(name: String, behaviour: Behaviour, place: Place, folder: &Path) -> Self {
        let log = folder.join(format!("{name}.log"));
        let (listen, runs) = match place {
            Place::Here => {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let at = listener.local_addr().unwrap();
                let task = tokio::spawn(serve_tcp(listener, behaviour, open(&log)));
                (Listen::Tcp(at), Some(task.abort_handle()))
            }
            Place::ApartOnTcp => (Listen::Tcp(free_address()), None),
            Place::ApartOnSocket => (Listen::Unix(folder.join(format!("{name}.sock"))), None),
        };
        let told = Arc::new(Told { behaviour, log, listen });
        let runs = runs.map_or_else(|| Runs::Apart(launch(&told)), Runs::Here);
        let version = Self { name, told, runs };
        version.until_it_listens().await;
        version
    }

    /// Its target in a table.
    pub fn target(&self) -> String {
        match &self.told.listen {
            Listen::Tcp(at) => at.to_string(),
            Listen::Unix(path) => format!("unix:{}", path.display()),
            Listen::Port => unreachable!("no agent starts these"),
        }
    }

    /// Whether it has a process of its own.
    pub fn is_apart(&self) -> bool {
        matches!(self.runs, Runs::Apart(_))
    }

    /// Kills its process as SIGKILL does, and starts it again.
    pub async fn kill_and_restart(&mut self) {
        self.stop();
        self.runs = Runs::Apart(launch(&self.told));
        self.until_it_listens().await;
    }

    /// Ends it at once, whatever it is doing.
    pub fn stop(&mut self) {
        match &mut self.runs {
            Runs::Here(task) => task.abort(),
            Runs::Apart(process) => {
                let _ = process.kill();
                let _ = process.wait();
            }
        }
    }

    async fn until_it_listens(&self) {
        wait_until("a version listens", async || match &self.told.listen {
            Listen::Tcp(at) => TcpStream::connect(at).await.is_ok(),
            Listen::Unix(path) => UnixStream::connect(path).await.is_ok(),
            Listen::Port => unreachable!("no agent starts these"),
        })
        .await;
    }
}

impl Drop for Version {
    fn drop(&mut self) {
        self.stop();
    }
}

fn launch(told: &Told) -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(arguments());
    command.env(ENVIRONMENT, serde_json::to_string(told).unwrap());
    command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
}
