use super::{
    super::{oci::Container, wasm::Host},
    runner::Runner,
};

/// What versions run in that are no mere processes of the machine.
#[derive(Debug, Clone)]
pub(in super::super) enum Apart {
    /// A container for each.
    Container(Container),
    /// A host for each, which are components then.
    Host(Host),
}

impl Apart {
    /// What the runtime is called whose versions run so.
    pub(super) fn runtime(&self) -> &'static str {
        match self {
            Self::Container(_) => "oci",
            Self::Host(_) => "wasm",
        }
    }

    /// The forms that run in it.
    pub(super) fn forms(&self) -> Vec<&'static str> {
        match self {
            Self::Container(container) => container.forms(),
            Self::Host(_) => vec![Runner::Wasm.name()],
        }
    }

    pub(super) fn container(&self) -> Option<&Container> {
        match self {
            Self::Container(container) => Some(container),
            Self::Host(_) => None,
        }
    }
}
