//! Where it listens and where it keeps its data.

use std::{
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
    path::PathBuf,
};

use super::section::{Field, Section};

/// Where it listens unless told otherwise.
pub const DEFAULT_LISTEN: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9991));

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Serve {
    pub listen: SocketAddr,
    /// The calls of children alone, on an address of their own.
    pub child_listen: Option<SocketAddr>,
    pub data: PathBuf,
    pub standby: bool,
}

impl Default for Serve {
    fn default() -> Self {
        Self { listen: DEFAULT_LISTEN, child_listen: None, data: PathBuf::from("data"), standby: false }
    }
}

impl Section for Serve {
    fn name(&self) -> &'static str {
        "serve"
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        vec![
            Field::new("listen", &mut self.listen),
            Field::new("child_listen", &mut self.child_listen),
            Field::new("data", &mut self.data),
            Field::new("standby", &mut self.standby),
        ]
    }
}
