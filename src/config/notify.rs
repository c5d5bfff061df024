//! Who is told how releases end.

use super::{
    section::{Field, Section},
    value::Urls,
};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Notify {
    pub webhooks: Urls,
}

impl Section for Notify {
    fn name(&self) -> &'static str {
        "notify"
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        vec![Field::new("webhooks", &mut self.webhooks)]
    }
}
