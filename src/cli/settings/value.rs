//! The kinds of values, from a text and back to it.

use std::{collections::BTreeMap, fmt, net::SocketAddr, path::PathBuf, time::Duration};

use model::duration;

/// A place that a text can set.
pub enum SettingTarget<'s> {
    Parsed(&'s mut dyn Parsed),
    /// Whether logs are JSON: `human` or `json`.
    Json(&'s mut bool),
    /// A number and its bounds, both accepted.
    Number(&'s mut dyn Whole, (u64, u64)),
    /// A number of bytes and its bounds.
    Size(&'s mut dyn Whole, (u64, u64)),
    Time(&'s mut Duration, (Duration, Duration)),
}

/// A value that is read whole.
pub trait Parsed {
    /// Takes a text, or says what it should look like.
    fn take(&mut self, text: &str) -> Result<(), String>;

    /// The text that gives this value; empty where nothing is set.
    fn text(&self) -> String;
}

/// A whole number of some width.
pub trait Whole {
    fn get(&self) -> u64;

    /// Bounds see to it that it fits.
    fn put(&mut self, number: u64);
}

macro_rules! whole {
    ($($kind:ty),*) => {$(
        impl Whole for $kind {
            fn get(&self) -> u64 {
                u64::try_from(*self).unwrap_or(u64::MAX)
            }

            fn put(&mut self, number: u64) {
                *self = Self::try_from(number).unwrap_or(Self::MAX);
            }
        }
    )*};
}

whole!(usize, u64, u32, u16);

const SIZES: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

impl SettingTarget<'_> {
    /// Takes a text, or says what it should look like.
    pub fn read(self, text: &str) -> Result<(), String> {
        match self {
            Self::Parsed(slot) => slot.take(text)?,
            Self::Json(slot) => {
                *slot = match text {
                    "human" => false,
                    "json" => true,
                    _ => return Err(format!("{text:?} is neither human nor json")),
                }
            }
            Self::Number(slot, bounds) => slot.put(within(number(text)?, bounds, u64::to_string)?),
            Self::Size(slot, bounds) => {
                let size =
                    read_size(text).ok_or_else(|| format!("{text:?} is no size, as in 64KiB or 4096"))?;
                slot.put(within(size, bounds, |size| show_size(*size))?);
            }
            Self::Time(slot, bounds) => {
                let millis = duration::read_millis(text)
                    .ok_or_else(|| format!("{text:?} is no duration, as in 75s, 1h30m or 500ms"))?;
                *slot = within(Duration::from_millis(millis), bounds, |time| show_time(*time))?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for SettingTarget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slot({self})")
    }
}

impl fmt::Display for SettingTarget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parsed(slot) => f.write_str(&slot.text()),
            Self::Json(slot) => f.write_str(if **slot { "json" } else { "human" }),
            Self::Number(slot, _) => slot.get().fmt(f),
            Self::Size(slot, _) => f.write_str(&show_size(slot.get())),
            Self::Time(slot, _) => f.write_str(&show_time(**slot)),
        }
    }
}

impl Parsed for String {
    fn take(&mut self, text: &str) -> Result<(), String> {
        text.clone_into(self);
        Ok(())
    }

    fn text(&self) -> String {
        self.clone()
    }
}

impl Parsed for bool {
    fn take(&mut self, text: &str) -> Result<(), String> {
        *self = text.parse().map_err(|_| format!("{text:?} is neither true nor false"))?;
        Ok(())
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

impl Parsed for PathBuf {
    fn take(&mut self, text: &str) -> Result<(), String> {
        if text.is_empty() {
            return Err("the path is empty".to_owned());
        }
        *self = Self::from(text);
        Ok(())
    }

    fn text(&self) -> String {
        self.display().to_string()
    }
}

/// An empty text unsets it again.
impl Parsed for Option<PathBuf> {
    fn take(&mut self, text: &str) -> Result<(), String> {
        *self = (!text.is_empty()).then(|| text.into());
        Ok(())
    }

    fn text(&self) -> String {
        self.as_deref().map(|path| path.display().to_string()).unwrap_or_default()
    }
}

/// Paths, separated by commas.
impl Parsed for Vec<PathBuf> {
    fn take(&mut self, text: &str) -> Result<(), String> {
        *self = parts(text).map(PathBuf::from).collect();
        Ok(())
    }

    fn text(&self) -> String {
        self.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
    }
}

impl Parsed for SocketAddr {
    fn take(&mut self, text: &str) -> Result<(), String> {
        *self = address(text)?;
        Ok(())
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

/// An empty text unsets it again.
impl Parsed for Option<SocketAddr> {
    fn take(&mut self, text: &str) -> Result<(), String> {
        *self = if text.is_empty() { None } else { Some(address(text)?) };
        Ok(())
    }

    fn text(&self) -> String {
        self.map(|address| address.to_string()).unwrap_or_default()
    }
}

/// A number from 1 on. An empty text unsets it again.
impl Parsed for Option<u32> {
    fn take(&mut self, text: &str) -> Result<(), String> {
        *self = match text {
            "" => None,
            text => {
                let number = text.parse().ok().filter(|number| *number > 0);
                Some(number.ok_or_else(|| format!("{text:?} is no whole number from 1 on"))?)
            }
        };
        Ok(())
    }

    fn text(&self) -> String {
        self.map(|number| number.to_string()).unwrap_or_default()
    }
}

impl Parsed for Vec<SocketAddr> {
    fn take(&mut self, text: &str) -> Result<(), String> {
        *self = parts(text).map(address).collect::<Result<_, _>>()?;
        Ok(())
    }

    fn text(&self) -> String {
        self.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }
}

/// Names, separated by commas.
impl Parsed for Vec<String> {
    fn take(&mut self, text: &str) -> Result<(), String> {
        *self = parts(text).map(str::to_owned).collect();
        Ok(())
    }

    fn text(&self) -> String {
        self.join(", ")
    }
}

/// `site=berlin, tier=edge`.
impl Parsed for BTreeMap<String, String> {
    fn take(&mut self, text: &str) -> Result<(), String> {
        let mut labels = Self::new();
        for part in parts(text) {
            let label = part.split_once('=').filter(|(key, _)| !key.trim().is_empty());
            let (key, value) = label.ok_or_else(|| format!("{part:?} is no label, as in site=berlin"))?;
            if labels.insert(key.trim().to_owned(), value.trim().to_owned()).is_some() {
                return Err(format!("the label {:?} is there twice", key.trim()));
            }
        }
        *self = labels;
        Ok(())
    }

    fn text(&self) -> String {
        self.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(", ")
    }
}

/// From the first to the last, both included: `20000-29999`.
impl Parsed for (u16, u16) {
    fn take(&mut self, text: &str) -> Result<(), String> {
        let read = |text: &str| text.trim().parse().ok().filter(|port| *port > 0);
        let ports = text.split_once('-').and_then(|(first, last)| Some((read(first)?, read(last)?)));
        *self = ports
            .filter(|(first, last)| first <= last)
            .ok_or_else(|| format!("{text:?} is no range of ports, as in 20000-29999"))?;
        Ok(())
    }

    fn text(&self) -> String {
        format!("{}-{}", self.0, self.1)
    }
}

/// The parts of a list that is separated by commas.
pub fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty())
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is no address with a port, as in 127.0.0.1:8000 or [::1]:8000"))
}

fn number(text: &str) -> Result<u64, String> {
    text.replace('_', "").parse().map_err(|_| format!("{text:?} is no whole number"))
}

fn within<V: PartialOrd>(value: V, (least, most): (V, V), show: impl Fn(&V) -> String) -> Result<V, String> {
    if value < least || value > most {
        return Err(format!("{} is not from {} to {}", show(&value), show(&least), show(&most)));
    }
    Ok(value)
}

fn read_size(text: &str) -> Option<u64> {
    for (unit, scale) in SIZES {
        if let Some(count) = text.strip_suffix(unit) {
            return number(count.trim()).ok()?.checked_mul(scale);
        }
    }
    number(text).ok()
}

fn show_size(size: u64) -> String {
    let unit = SIZES.iter().find(|&&(_, scale)| size >= scale && size.is_multiple_of(scale));
    unit.map_or_else(|| size.to_string(), |(unit, scale)| format!("{}{unit}", size / scale))
}

fn show_time(time: Duration) -> String {
    duration::show_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}
