use std::fmt;

/// A value that can't be taken, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// `config/choirmaster.yml:12:5`, `CHOIRMASTER_LISTEN`, `--listen`.
    pub place: String,
    pub message: String,
}

/// Every fault of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    pub faults: Vec<Fault>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the configuration can't be used")?;
        self.faults.iter().try_for_each(|fault| write!(f, "\n  {}: {}", fault.place, fault.message))
    }
}
