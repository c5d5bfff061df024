//! The log.

use super::{
    section::{Field, Section},
    value::LogFormat,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// As `tracing` reads it: `info`, or `info,engine=debug`.
    pub level: String,
    pub format: LogFormat,
}

impl Default for Log {
    fn default() -> Self {
        Self { level: "info".to_owned(), format: LogFormat::Human }
    }
}

impl Section for Log {
    fn name(&self) -> &'static str {
        "log"
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        vec![Field::new("level", &mut self.level), Field::new("format", &mut self.format)]
    }

    fn check(&self) -> Vec<(&'static str, String)> {
        match tracing_subscriber::EnvFilter::try_new(&self.level) {
            Ok(_) => Vec::new(),
            Err(error) => {
                let hint = "it looks like info, debug or info,engine=debug";
                vec![("level", format!("{:?} can't be read: {error}; {hint}", self.level))]
            }
        }
    }
}
