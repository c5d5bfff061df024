use std::{fmt, net::IpAddr, str::FromStr};

/// Addresses that begin alike: `10.0.0.0/8`, `fd00::/8`, or a single one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network {
    address: IpAddr,
    /// How many bits they have in common.
    bits: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no network: write an address (192.0.2.7), or one with 0 in all bits behind those in common (10.0.0.0/8, fd00::/8)"
)]
pub struct NetworkError(String);

impl Network {
    /// Whether it holds an address. One of IPv4 is the same however it is written.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let differ = u32::from(own) ^ u32::from(other);
                differ.leading_zeros() >= u32::from(self.bits)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differ = u128::from(own) ^ u128::from(other);
                differ.leading_zeros() >= u32::from(self.bits)
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }

    /// Whether no bit is set behind those in common: else one of the two is a slip.
    fn is_written_well(self) -> bool {
        match self.address {
            IpAddr::V4(address) => u32::from(address).checked_shl(self.bits.into()).unwrap_or(0) == 0,
            IpAddr::V6(address) => u128::from(address).checked_shl(self.bits.into()).unwrap_or(0) == 0,
        }
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let fault = || NetworkError(text.to_owned());
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| fault())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => most,
            Some(bits) if bits.bytes().all(|byte| byte.is_ascii_digit()) => {
                bits.parse().ok().filter(|bits| *bits <= most).ok_or_else(fault)?
            }
            Some(_) => return Err(fault()),
        };
        let network = Self { address, bits };
        // An address of IPv4 in the clothes of IPv6 would hold nobody.
        let is_clear = address.to_canonical() == address;
        if is_clear && network.is_written_well() { Ok(network) } else { Err(fault()) }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = if self.address.is_ipv4() { 32 } else { 128 };
        if self.bits == most { self.address.fmt(f) } else { write!(f, "{}/{}", self.address, self.bits) }
    }
}
