//! Addresses that are opened and closed while the proxy runs.

mod alone;
mod held;
mod rules;
mod shared;

use std::{io::ErrorKind, net::SocketAddr};

use proxy::control::{
    client::{Client, ClientError},
    form::ListenStatus,
};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::ports::range;

/// Sends a list, and gives what is answered.
async fn put(client: &Client, list: &Value) -> Result<ListenStatus, (u16, String)> {
    match client.put("/listen", list.to_string().into()).await {
        Ok(status) => Ok(status),
        Err(ClientError::Refused { status, refusal }) => Err((status, refusal.error)),
        Err(error) => panic!("{error}"),
    }
}

fn list(generation: u64, addresses: &[(&str, SocketAddr)]) -> Value {
    let address = |(kind, address): &(&str, SocketAddr)| json!({"kind": kind, "address": address});
    let addresses: Vec<Value> = addresses.iter().map(address).collect();
    json!({"epoch": 1, "generation": generation, "listen": addresses})
}

/// Whether nobody listens there. Where somebody does and no service is, what comes in is reset, perhaps before whoever came hears that
/// it came in.
async fn is_refused(at: SocketAddr) -> bool {
    TcpStream::connect(at).await.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

/// An address that no other test is given, whether for TCP or UDP.
fn own_address() -> SocketAddr {
    ([127, 0, 0, 1], range(1).0).into()
}
