use std::net::IpAddr;

/// A caller, as far as the connection tells.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller {
    pub address: IpAddr,
    pub scheme: &'static str,
    /// The port that it came to.
    pub port: u16,
}

/// What becomes of the caller's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// It can bring a further call.
    Call,
    /// It is closed at once.
    Close,
    /// It is closed when the caller has read the answer: what it still sends is read for a while.
    Linger,
}
