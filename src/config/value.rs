//! The kinds of values, from a text and back to it.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use http_api::address::Network;
use model::{Secret, duration};

/// Longest duration that can be set, in milliseconds: ten years.
pub(super) const MAX_TIME_MS: u64 = 3650 * 24 * 60 * 60 * 1000;

/// A value that a text can set.
pub trait Setting {
    /// Takes the text, or says what it should look like.
    fn read(&mut self, text: &str) -> Result<(), String>;

    /// The text that gives this value; empty where nothing is set.
    fn show(&self) -> String;

    /// The number that bounds are about.
    fn amount(&self) -> Option<u64> {
        None
    }

    /// A bound, as [`Setting::show`] would show it.
    fn show_amount(&self, amount: u64) -> String {
        amount.to_string()
    }
}

impl Setting for usize {
    fn read(&mut self, text: &str) -> Result<(), String> {
        *self = text.replace('_', "").parse().map_err(|_| format!("{text:?} is no whole number"))?;
        Ok(())
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn amount(&self) -> Option<u64> {
        u64::try_from(*self).ok()
    }
}

impl Setting for u64 {
    fn read(&mut self, text: &str) -> Result<(), String> {
        *self = text.replace('_', "").parse().map_err(|_| format!("{text:?} is no whole number"))?;
        Ok(())
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn amount(&self) -> Option<u64> {
        Some(*self)
    }
}

impl Setting for bool {
    fn read(&mut self, text: &str) -> Result<(), String> {
        *self = match text {
            "true" => true,
            "false" => false,
            _ => return Err(format!("{text:?} is neither true nor false")),
        };
        Ok(())
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Setting for SocketAddr {
    fn read(&mut self, text: &str) -> Result<(), String> {
        *self = text
            .parse()
            .map_err(|_| format!("{text:?} is no address with a port, as in 127.0.0.1:9991 or [::1]:9991"))?;
        Ok(())
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Setting for PathBuf {
    fn read(&mut self, text: &str) -> Result<(), String> {
        if text.is_empty() {
            return Err("the path is empty".to_owned());
        }
        *self = PathBuf::from(text);
        Ok(())
    }

    fn show(&self) -> String {
        self.display().to_string()
    }
}

impl Setting for String {
    fn read(&mut self, text: &str) -> Result<(), String> {
        text.clone_into(self);
        Ok(())
    }

    fn show(&self) -> String {
        self.clone()
    }
}

/// An empty text unsets it again.
impl<T: Setting + Blank> Setting for Option<T> {
    fn read(&mut self, text: &str) -> Result<(), String> {
        if text.is_empty() {
            *self = None;
            return Ok(());
        }
        let mut value = T::blank();
        value.read(text)?;
        *self = Some(value);
        Ok(())
    }

    fn show(&self) -> String {
        self.as_ref().map(Setting::show).unwrap_or_default()
    }

    fn amount(&self) -> Option<u64> {
        self.as_ref().and_then(Setting::amount)
    }

    fn show_amount(&self, amount: u64) -> String {
        T::blank().show_amount(amount)
    }
}

/// A value to read over; it is never seen.
pub trait Blank {
    fn blank() -> Self;
}

impl Blank for PathBuf {
    fn blank() -> Self {
        Self::new()
    }
}

impl Blank for Duration {
    fn blank() -> Self {
        Self::ZERO
    }
}

impl Blank for SocketAddr {
    fn blank() -> Self {
        Self::from(([127, 0, 0, 1], 0))
    }
}

impl Blank for Bytes {
    fn blank() -> Self {
        Self(0)
    }
}

impl Blank for Secret {
    fn blank() -> Self {
        Self::new(String::new())
    }
}

/// A number of bytes: `64MiB`, `512KiB`, `4096`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes(pub u64);

const BYTE_UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

impl Setting for Bytes {
    fn read(&mut self, text: &str) -> Result<(), String> {
        let unit = BYTE_UNITS.iter().find(|(unit, _)| text.ends_with(unit));
        let (number, scale) = unit.map_or((text, 1), |(unit, scale)| (text.trim_end_matches(unit), *scale));
        let bytes = number.trim().parse::<u64>().ok().and_then(|number| number.checked_mul(scale));
        self.0 = bytes.ok_or_else(|| format!("{text:?} is no size, as in 64MiB, 512KiB or 4096"))?;
        Ok(())
    }

    fn show(&self) -> String {
        self.show_amount(self.0)
    }

    fn amount(&self) -> Option<u64> {
        Some(self.0)
    }

    fn show_amount(&self, amount: u64) -> String {
        let unit = BYTE_UNITS.iter().find(|(_, scale)| amount >= *scale && amount.is_multiple_of(*scale));
        unit.map_or_else(|| amount.to_string(), |(unit, scale)| format!("{}{unit}", amount / scale))
    }
}

impl Setting for Duration {
    fn read(&mut self, text: &str) -> Result<(), String> {
        let millis = duration::read_millis(text)
            .ok_or_else(|| format!("{text:?} is no duration, as in 90d, 24h, 1h30m or 500ms"))?;
        *self = Self::from_millis(millis);
        Ok(())
    }

    fn show(&self) -> String {
        self.show_amount(self.amount().unwrap_or_default())
    }

    fn amount(&self) -> Option<u64> {
        u64::try_from(self.as_millis()).ok()
    }

    fn show_amount(&self, amount: u64) -> String {
        duration::show_millis(amount)
    }
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    Human,
    Json,
}

impl Setting for LogFormat {
    fn read(&mut self, text: &str) -> Result<(), String> {
        *self = match text {
            "human" => Self::Human,
            "json" => Self::Json,
            _ => return Err(format!("{text:?} is neither human nor json")),
        };
        Ok(())
    }

    fn show(&self) -> String {
        match self {
            Self::Human => "human",
            Self::Json => "json",
        }
        .to_owned()
    }
}

/// Most addresses in a list.
const MAX_URLS: usize = 16;

/// Addresses to call, separated by commas.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Urls(pub Vec<String>);

impl Setting for Urls {
    fn read(&mut self, text: &str) -> Result<(), String> {
        let urls: Vec<String> =
            text.split(',').map(str::trim).filter(|url| !url.is_empty()).map(str::to_owned).collect();
        if urls.len() > MAX_URLS {
            return Err(format!("there are {} addresses, at most {MAX_URLS} are accepted", urls.len()));
        }
        for url in &urls {
            let whole = reqwest::Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
            if !whole {
                return Err(
                    "an address looks like https://example.org/hook; several are separated by commas"
                        .to_owned(),
                );
            }
        }
        self.0 = urls;
        Ok(())
    }

    fn show(&self) -> String {
        self.0.join(", ")
    }
}

/// Most names in a list.
const MAX_NAMES: usize = 64;

/// Longest name of a host, in characters (RFC 1035).
const MAX_NAME_CHARS: usize = 253;

/// Names and addresses of hosts without a port, separated by commas.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Names(pub Vec<String>);

impl Setting for Names {
    fn read(&mut self, text: &str) -> Result<(), String> {
        let names: Vec<String> =
            text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
        if names.len() > MAX_NAMES {
            return Err(format!("there are {} names, at most {MAX_NAMES} are accepted", names.len()));
        }
        let is_name = |name: &str| {
            let of_letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
            name.parse::<std::net::IpAddr>().is_ok()
                || (name.len() <= MAX_NAME_CHARS && name.chars().all(of_letters))
        };
        if let Some(wrong) = names.iter().find(|name| !is_name(name)) {
            return Err(format!(
                "{wrong:?} is no name or address of a host without a port, as in choir.example.org or 192.168.1.5; \
                 several are separated by commas"
            ));
        }
        self.0 = names;
        Ok(())
    }

    fn show(&self) -> String {
        self.0.join(", ")
    }
}

/// Most networks in a list.
const MAX_NETWORKS: usize = 64;

/// Addresses and networks, separated by commas.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Networks(pub Vec<Network>);

impl Setting for Networks {
    fn read(&mut self, text: &str) -> Result<(), String> {
        let networks: Vec<&str> =
            text.split(',').map(str::trim).filter(|network| !network.is_empty()).collect();
        if networks.len() > MAX_NETWORKS {
            return Err(format!(
                "there are {} networks, at most {MAX_NETWORKS} are accepted",
                networks.len()
            ));
        }
        self.0 = networks.into_iter().map(str::parse).collect::<Result<_, _>>()?;
        Ok(())
    }

    fn show(&self) -> String {
        self.0.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }
}

/// Where people reach a page; empty: nowhere. See [`model::public_url`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PublicUrl(pub String);

impl Setting for PublicUrl {
    fn read(&mut self, text: &str) -> Result<(), String> {
        if !text.is_empty() {
            model::public_url::check(text).map_err(|why| format!("the address {why}"))?;
        }
        text.clone_into(&mut self.0);
        Ok(())
    }

    fn show(&self) -> String {
        self.0.clone()
    }
}

/// An address to call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url(pub String);

impl Setting for Url {
    fn read(&mut self, text: &str) -> Result<(), String> {
        let whole = reqwest::Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
        if !whole {
            return Err("an address looks like http://127.0.0.1:9991".to_owned());
        }
        text.trim_end_matches('/').clone_into(&mut self.0);
        Ok(())
    }

    fn show(&self) -> String {
        self.0.clone()
    }
}

impl Blank for Url {
    fn blank() -> Self {
        Self(String::new())
    }
}

impl Setting for Secret {
    fn read(&mut self, text: &str) -> Result<(), String> {
        *self = Self::new(text.trim());
        Ok(())
    }

    fn show(&self) -> String {
        "(secret)".to_owned()
    }
}
