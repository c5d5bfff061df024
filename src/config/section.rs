//! What a section of the configuration is to the code that fills it.

use super::value::Setting;

/// A key of a section, and the place of its value.
pub struct Field<'a> {
    pub key: &'static str,
    pub setting: &'a mut dyn Setting,
    /// Smallest and largest accepted number, in the value's unit (bytes, milliseconds, pieces).
    bounds: Option<(u64, u64)>,
}

impl std::fmt::Debug for Field<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Field").field("key", &self.key).field("value", &self.setting.show()).finish()
    }
}

impl<'a> Field<'a> {
    pub fn new(key: &'static str, setting: &'a mut dyn Setting) -> Self {
        Self { key, setting, bounds: None }
    }

    /// With bounds, both accepted.
    pub fn within(key: &'static str, setting: &'a mut dyn Setting, least: u64, most: u64) -> Self {
        Self { key, setting, bounds: Some((least, most)) }
    }

    /// Takes a text, or says why it can't be taken. The message never repeats a secret.
    pub fn read(self, text: &str) -> Result<(), String> {
        self.setting.read(text)?;
        let Some(((least, most), amount)) = self.bounds.zip(self.setting.amount()) else { return Ok(()) };
        if (least..=most).contains(&amount) {
            return Ok(());
        }
        let show = |amount| self.setting.show_amount(amount);
        Err(format!("{text} is not from {} to {}", show(least), show(most)))
    }
}

/// A section of the configuration.
pub trait Section {
    fn name(&self) -> &'static str;

    /// Every key, in the order of the documentation.
    fn fields(&mut self) -> Vec<Field<'_>>;

    /// The rules between the keys of the section: key and message.
    fn check(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}
