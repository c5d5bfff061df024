use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{SIGNATURE, WORD};

/// The most bytes of a header: those of version 1 have at most 107, and what one of version 2 says beside addresses is bounded here.
pub const MAX_HEADER: usize = 2_048;
/// The most bytes of one of version 1, with the end of its line.
const MAX_LINE: usize = 107;
/// What comes before the length of one of version 2, and the length.
const FIXED: usize = 16;

/// What a header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Announced {
    /// The connection is of whoever passes connections on, or it can't tell whose it is.
    Itself,
    /// Whose it is, and where that one connected to.
    From { source: SocketAddr, destination: SocketAddr },
}

/// What the first bytes of a connection are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed {
    /// The beginning of a header: at least so many bytes more belong to it.
    Needs(usize),
    /// The beginning of one: what comes up to the next LF belongs to it, and that is at most so many bytes.
    NeedsLine(usize),
    /// A whole header, and nothing behind it.
    Whole(Announced),
}

/// They are no header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub &'static str);

/// Reads what came so far, no byte of which is behind the header: as many are to be taken as the answer says, no more.
pub fn parse(came: &[u8]) -> Result<Parsed, Malformed> {
    let begins = |of: &[u8]| came.starts_with(&of[..of.len().min(came.len())]);
    match (begins(SIGNATURE), begins(WORD)) {
        (false, false) => Err(Malformed("it begins with no PROXY header")),
        // Either is longer than that.
        _ if came.len() < SIGNATURE.len() => Ok(Parsed::Needs(SIGNATURE.len() - came.len())),
        (true, _) => version_2(came),
        (false, true) => version_1(came),
    }
}

fn version_1(came: &[u8]) -> Result<Parsed, Malformed> {
    // The shortest there is.
    const SHORTEST: usize = b"PROXY UNKNOWN\r\n".len();
    if came.len() < SHORTEST {
        return Ok(Parsed::Needs(SHORTEST - came.len()));
    }
    let Some(line) = came.strip_suffix(b"\n") else {
        let most = MAX_LINE.checked_sub(came.len()).filter(|most| *most > 0);
        return most.map(Parsed::NeedsLine).ok_or(Malformed("its line is too long"));
    };
    let line = line.strip_suffix(b"\r").ok_or(Malformed("its line doesn't end in CR LF"))?;
    let line = std::str::from_utf8(line).map_err(|_| Malformed("its line is no text"))?;
    if came.len() > MAX_LINE || line.contains(['\r', '\n']) {
        return Err(Malformed("its line is too long"));
    }
    let mut words = line.split(' ').skip(1);
    match words.next() {
        Some("UNKNOWN") => Ok(Parsed::Whole(Announced::Itself)),
        Some("TCP4") => pair::<Ipv4Addr>(words),
        Some("TCP6") => pair::<Ipv6Addr>(words),
        Some(_) | None => Err(Malformed("it names none of TCP4, TCP6 and UNKNOWN")),
    }
}

/// Two addresses and two ports.
fn pair<'w, A>(mut words: impl Iterator<Item = &'w str>) -> Result<Parsed, Malformed>
where
    A: std::str::FromStr + Into<IpAddr>,
{
    const WHY: Malformed = Malformed("its addresses and ports can't be read");
    let mut address = || words.next().and_then(|word| word.parse::<A>().ok()).map(Into::into).ok_or(WHY);
    let (source, destination) = (address()?, address()?);
    let mut port = || {
        let word = words.next().ok_or(WHY)?;
        let is_plain =
            word.bytes().all(|byte| byte.is_ascii_digit()) && (word == "0" || !word.starts_with('0'));
        if is_plain { word.parse::<u16>().map_err(|_| WHY) } else { Err(WHY) }
    };
    let (source_port, destination_port) = (port()?, port()?);
    if words.next().is_some() {
        return Err(WHY);
    }
    Ok(Parsed::Whole(Announced::From {
        source: SocketAddr::new(source, source_port),
        destination: SocketAddr::new(destination, destination_port),
    }))
}

fn version_2(came: &[u8]) -> Result<Parsed, Malformed> {
    if came.len() < FIXED {
        return Ok(Parsed::Needs(FIXED - came.len()));
    }
    let (version, command) = (came[12] >> 4, came[12] & 0xf);
    if version != 2 || command > 1 {
        return Err(Malformed("it is of a version or with a command that there isn't"));
    }
    let length = usize::from(u16::from_be_bytes([came[14], came[15]]));
    if FIXED + length > MAX_HEADER {
        return Err(Malformed("it is too long"));
    }
    if came.len() < FIXED + length {
        return Ok(Parsed::Needs(FIXED + length - came.len()));
    }
    if came.len() > FIXED + length {
        return Err(Malformed("there is something behind it"));
    }
    let addresses = &came[FIXED..];
    let announced = match (command, came[13]) {
        // What the addresses are is passed over; so it is where they are none, or those of local sockets.
        (0, _) | (1, 0x00 | 0x31) => Announced::Itself,
        (1, 0x11) => of_addresses::<4>(addresses, |octets| Ipv4Addr::from(octets).into())?,
        (1, 0x21) => of_addresses::<16>(addresses, |octets| Ipv6Addr::from(octets).into())?,
        _ => return Err(Malformed("it names addresses that no connection has")),
    };
    Ok(Parsed::Whole(announced))
}

fn of_addresses<const N: usize>(
    bytes: &[u8],
    address: impl Fn([u8; N]) -> IpAddr,
) -> Result<Announced, Malformed> {
    const WHY: Malformed = Malformed("its addresses are cut off");
    let (source, rest) = bytes.split_first_chunk::<N>().ok_or(WHY)?;
    let (destination, rest) = rest.split_first_chunk::<N>().ok_or(WHY)?;
    let (source_port, rest) = rest.split_first_chunk::<2>().ok_or(WHY)?;
    let (destination_port, _) = rest.split_first_chunk::<2>().ok_or(WHY)?;
    let port = |of: &[u8; 2]| u16::from_be_bytes(*of);
    Ok(Announced::From {
        source: SocketAddr::new(address(*source), port(source_port)),
        destination: SocketAddr::new(address(*destination), port(destination_port)),
    })
}
