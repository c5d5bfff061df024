//! The kinds of values of a proxy's settings, from a text and back to it.

use std::{fmt, net::SocketAddr, path::PathBuf, time::Duration};

use model::duration;
use proxy::access_log::{LogTarget, Logged};

/// A place that a text can set.
pub enum Slot<'s> {
    Addresses(&'s mut Vec<SocketAddr>),
    Path(&'s mut PathBuf),
    /// A path, or nothing.
    MaybePath(&'s mut Option<PathBuf>),
    Text(&'s mut String),
    Json(&'s mut bool),
    Logged(&'s mut Logged),
    LogTarget(&'s mut LogTarget),
    /// A number and its bounds, both accepted.
    Count(&'s mut usize, (usize, usize)),
    Places(&'s mut u32, (u32, u32)),
    Size(&'s mut usize, (usize, usize)),
    Time(&'s mut Duration, (Duration, Duration)),
}

const SIZES: [(&str, usize); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

impl Slot<'_> {
    /// Takes a text, or says what it should look like.
    pub fn read(self, text: &str) -> Result<(), String> {
        match self {
            Self::Addresses(slot) => {
                let parse = |text: &str| {
                    text.trim().parse().map_err(|_| {
                        format!("{text:?} is no address with a port, as in 127.0.0.1:8000 or [::1]:8000")
                    })
                };
                *slot = text
                    .split(',')
                    .filter(|text| !text.trim().is_empty())
                    .map(parse)
                    .collect::<Result<_, _>>()?;
            }
            Self::Path(_) | Self::LogTarget(_) if text.is_empty() => {
                return Err("the path is empty".to_owned());
            }
            Self::Path(slot) => *slot = PathBuf::from(text),
            Self::MaybePath(slot) => *slot = Some(text).filter(|text| !text.is_empty()).map(PathBuf::from),
            Self::Text(slot) => text.clone_into(slot),
            Self::Json(slot) => {
                *slot = match text {
                    "human" => false,
                    "json" => true,
                    _ => return Err(format!("{text:?} is neither human nor json")),
                }
            }
            Self::Logged(slot) => {
                *slot = text.parse().map_err(|error: proxy::access_log::LoggedError| error.to_string())?;
            }
            Self::LogTarget(slot) => {
                *slot = if text == "stdout" { LogTarget::Stdout } else { LogTarget::File(text.into()) }
            }
            Self::Count(slot, bounds) => *slot = within(number(text)?, bounds, usize::to_string)?,
            Self::Places(slot, bounds) => *slot = within(number(text)?, bounds, u32::to_string)?,
            Self::Size(slot, bounds) => {
                let size =
                    read_size(text).ok_or_else(|| format!("{text:?} is no size, as in 64KiB or 4096"))?;
                *slot = within(size, bounds, |size| show_size(*size))?;
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

impl fmt::Display for Slot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Addresses(slot) => {
                let texts: Vec<String> = slot.iter().map(ToString::to_string).collect();
                f.write_str(&texts.join(", "))
            }
            Self::Path(slot) => slot.display().fmt(f),
            Self::MaybePath(slot) => slot.iter().try_for_each(|path| path.display().fmt(f)),
            Self::Text(slot) => f.write_str(slot),
            Self::Json(slot) => f.write_str(if **slot { "json" } else { "human" }),
            Self::Logged(slot) => slot.fmt(f),
            Self::LogTarget(slot) => slot.fmt(f),
            Self::Count(slot, _) => slot.fmt(f),
            Self::Places(slot, _) => slot.fmt(f),
            Self::Size(slot, _) => f.write_str(&show_size(**slot)),
            Self::Time(slot, _) => f.write_str(&show_time(**slot)),
        }
    }
}

fn number<N: std::str::FromStr>(text: &str) -> Result<N, String> {
    text.replace('_', "").parse().map_err(|_| format!("{text:?} is no whole number"))
}

fn within<V: PartialOrd>(value: V, (least, most): (V, V), show: impl Fn(&V) -> String) -> Result<V, String> {
    if value < least || value > most {
        return Err(format!("{} is not from {} to {}", show(&value), show(&least), show(&most)));
    }
    Ok(value)
}

fn read_size(text: &str) -> Option<usize> {
    for (unit, scale) in SIZES {
        if let Some(count) = text.strip_suffix(unit) {
            return number::<usize>(count.trim()).ok()?.checked_mul(scale);
        }
    }
    number(text).ok()
}

fn show_size(size: usize) -> String {
    let unit = SIZES.iter().find(|&&(_, scale)| size >= scale && size.is_multiple_of(scale));
    unit.map_or_else(|| size.to_string(), |(unit, scale)| format!("{}{unit}", size / scale))
}

fn show_time(time: Duration) -> String {
    duration::show_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}
