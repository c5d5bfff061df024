use std::time::Duration;

/// What the proxy bears, and for how long. Each has an answer, which its text names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request's head, line and fields together. Above: 431.
    pub head_bytes: usize,
    /// Fields of a head. Above: 431.
    pub head_fields: usize,
    /// How long a head may take from its first byte on. Longer: 408.
    pub head_time: Duration,
    /// How long a connection may stand idle between two calls. Longer: it is closed.
    pub idle: Duration,
    /// How long a body may stand still, in either direction. Longer: 408 where the caller sends nothing and got no answer yet, 504
    /// where the version takes nothing; else the connection is closed.
    pub body_idle: Duration,
    /// How long an upgraded connection, or one of TCP, may stand still. Longer: it is closed.
    pub tunnel_idle: Duration,
    /// How long a connection to a version may take to be made.
    pub connect: Duration,
    /// How long a version that has the whole call may take until the head of its answer is there. Longer: 504.
    pub first_byte: Duration,
    /// Connections of callers at once. At the limit no further one is accepted.
    pub connections: usize,
    /// Calls in flight at a version. Above: the call waits in the version's queue.
    pub in_flight: u32,
    /// Calls that wait for a place at a version. Above: 503.
    pub queue: u32,
    /// How long a call waits for a place. Longer: 503.
    pub queue_time: Duration,
    /// Calls in flight on a connection of HTTP/2. Above: the call is refused, so that it can be made again.
    pub streams: u32,
    /// Calls of a connection of HTTP/2 that its caller takes back within a minute. Above: the connection is ended.
    pub resets: u32,
    /// Connections of TCP, and flows of UDP, that a version has at once. Above: a connection waits in the version's queue, a datagram
    /// is dropped.
    pub flows: u32,
    /// How long those may stay with a variation that gets none any more, where the table doesn't say it; and how long whatever came in at
    /// an address that was closed may take to end. Longer: they are cut.
    pub flow_drain: Duration,
    /// Flows of UDP of an address that is listened on. Above: the one that was idle for longest ends.
    pub udp_flows: usize,
    /// How long nothing may come in either direction of a flow of UDP. Longer: it ends.
    pub udp_idle: Duration,
    /// How long a handshake of TLS may take, a PROXY header, and the first message of TLS that passes unopened. Longer: the
    /// connection is closed.
    pub handshake: Duration,
    /// Bytes of a request's body that are kept so that the call can be repeated. A longer body is passed on, and the call is not
    /// repeated once it was sent.
    pub kept_body: usize,
    /// Bytes of all bodies that each thread keeps for repeats. A call whose body finds no room there is not repeated once it was sent.
    pub kept_bodies: usize,
    /// How long a connection to a version is kept for a later call.
    pub pooled: Duration,
    /// Idle connections that each thread keeps to a target.
    pub pool: usize,
    /// What marks connections to versions for the kernel, where an agent may send connections to others' ports here.
    pub mark: Option<u32>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_bytes: 64 * 1024,
            head_fields: 100,
            head_time: Duration::from_secs(10),
            idle: Duration::from_secs(75),
            body_idle: Duration::from_mins(1),
            tunnel_idle: Duration::from_hours(1),
            connect: Duration::from_secs(1),
            first_byte: Duration::from_secs(30),
            connections: 10_000,
            in_flight: 1_000,
            queue: 100,
            queue_time: Duration::from_secs(1),
            streams: 100,
            resets: 1_000,
            flows: 10_000,
            flow_drain: Duration::from_hours(1),
            udp_flows: 10_000,
            udp_idle: Duration::from_secs(30),
            handshake: Duration::from_secs(10),
            kept_body: 1024 * 1024,
            kept_bodies: 64 * 1024 * 1024,
            pooled: Duration::from_secs(30),
            pool: 128,
            mark: None,
        }
    }
}
