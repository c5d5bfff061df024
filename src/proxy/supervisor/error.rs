use std::{io, path::PathBuf};

use crate::{handover::HandoverError, handover_socket, sockets::MAX_ADDRESSES};

#[derive(Debug, thiserror::Error)]
pub enum HoldError {
    #[error("no address to listen on")]
    NoAddress,
    #[error("more than {} addresses to listen on", MAX_ADDRESSES)]
    TooMany,
    #[error("the path of the control socket has more than {} bytes: {path}", handover_socket::MAX_PATH)]
    LongPath { path: PathBuf },
    #[error("a proxy with the control socket {0} is there already; `choirmaster proxy upgrade` renews it")]
    Running(PathBuf),
    #[error("can't listen on {address}: {source}")]
    Listen { address: std::net::SocketAddr, source: io::Error },
    #[error("can't use the control socket {path}: {source}")]
    Control { path: PathBuf, source: io::Error },
    #[error("the state folder {path} can't be used: {source}")]
    State { path: PathBuf, source: io::Error },
    #[error("process {pid}, which serves here, can't be taken over: {source}")]
    Take { pid: u32, source: HandoverError },
    #[error(transparent)]
    Io(#[from] io::Error),
}
