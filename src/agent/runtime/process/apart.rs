use super::super::{oci::Container, wasm::Host};

/// What versions run in that are no mere processes of the machine.
#[derive(Debug, Clone)]
pub(in super::super) enum Apart {
    /// A container for each.
    Container(Container),
    /// A host for each, which are components then.
    Host(Host),
}

impl Apart {
    pub(super) fn container(&self) -> Option<&Container> {
        match self {
            Self::Container(container) => Some(container),
            Self::Host(_) => None,
        }
    }
}
