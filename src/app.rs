//! Puts the parts together: opens the store, starts the engine, listens, and ends in order.
//!
//! The only place that names an adapter of the store.

use std::{net::SocketAddr, path::PathBuf};

use anyhow::Context as _;
use axum::Router;
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::{
    engine::{self, Engine, TaskSettings},
    functions,
    http::{self, Context, context, serve},
    notify,
    release::settings::Settings as Rules,
    store::{StoreError, options::OpenOptions, url},
};

/// What a manager is started with.
#[derive(Debug)]
pub struct Options {
    /// Port 0 takes a free one.
    pub listen: SocketAddr,
    /// `sqlite://PATH` or `postgres://…`.
    pub store: String,
    pub open: OpenOptions,
    /// The folder that contains `fns/`.
    pub functions_root: PathBuf,
    pub archive_limits: functions::Limits,
    pub rules: Rules,
    pub task: TaskSettings,
    pub max_connections: usize,
}

/// A manager that serves.
#[derive(Debug)]
pub struct Manager {
    pub address: SocketAddr,
    pub engine: Engine,
    stop: CancellationToken,
    serving: JoinHandle<()>,
    notifying: JoinHandle<()>,
    writing: JoinHandle<Result<(), StoreError>>,
}

/// Starts a manager; when this returns, it answers.
pub async fn start(options: Options) -> anyhow::Result<Manager> {
    // The first caller decides; another provider that was chosen before is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (writer, reader) =
        url::open(&options.store, &options.open).await.context("the store could not be opened")?;
    let started = engine::start(writer, reader, options.rules, options.task)
        .await
        .context("the store's content could not be loaded")?;
    let listener = TcpListener::bind(options.listen)
        .await
        .with_context(|| format!("can't listen on {}", options.listen))?;
    let address = listener.local_addr().context("the listener has no address")?;
    let settings =
        context::Settings { functions_root: options.functions_root, archive_limits: options.archive_limits };
    let router = router(Context::new(started.engine.clone(), settings));
    let stop = CancellationToken::new();
    let notifying = tokio::spawn(notify::run(started.engine.clone(), started.effects, stop.clone()));
    let settings = serve::Settings { max_connections: options.max_connections, tls: None };
    let serving = tokio::spawn(serve::serve(listener, router, settings, stop.clone()));
    Ok(Manager { address, engine: started.engine, stop, serving, notifying, writing: started.task })
}

/// Every route.
fn router(ctx: Context) -> Router {
    Router::new().merge(http::child::router()).with_state(ctx)
}

impl Manager {
    /// Stops listening, lets requests in hand end, commits what is left and gives the lease back.
    pub async fn stop(self) -> anyhow::Result<()> {
        self.engine.view().drain();
        self.stop.cancel();
        let _ = self.serving.await;
        let _ = self.notifying.await;
        self.engine.stop().await;
        self.writing.await.context("the engine's task was cut off")?.context("the store")
    }

    /// Waits until the engine ends by itself, which it does only when the lease is lost or the store refuses.
    pub async fn failed(&mut self) -> anyhow::Error {
        match (&mut self.writing).await {
            Ok(Err(error)) => anyhow::Error::new(error),
            Ok(Ok(())) => anyhow::anyhow!("the engine stopped"),
            Err(error) => anyhow::Error::new(error),
        }
    }
}
