use crate::BUCKETS;

/// The most variations that a service may have.
pub const MAX_VARIATIONS: usize = 8;

/// How much of the traffic each variation gets, in units of 0.01 %: between 1 and [`MAX_VARIATIONS`] numbers whose sum is
/// [`BUCKETS`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shares(Box<[u16]>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SharesError {
    #[error("a service has between 1 and {MAX_VARIATIONS} variations, and not {0}")]
    Variations(usize),
    #[error(
        "the shares of all variations come to {sum} hundredths of a percent; they must come to {BUCKETS}"
    )]
    Sum { sum: u32 },
}

impl Shares {
    /// # Errors
    ///
    /// None or too many, or a sum that isn't [`BUCKETS`].
    pub fn new(hundredths: impl Into<Box<[u16]>>) -> Result<Self, SharesError> {
        let hundredths = hundredths.into();
        if hundredths.is_empty() || hundredths.len() > MAX_VARIATIONS {
            return Err(SharesError::Variations(hundredths.len()));
        }
        let sum: u32 = hundredths.iter().copied().map(u32::from).sum();
        if sum != u32::from(BUCKETS) {
            return Err(SharesError::Sum { sum });
        }
        Ok(Self(hundredths))
    }

    /// Everything to the stable one of so many variations.
    ///
    /// # Errors
    ///
    /// None or too many.
    pub fn all_stable(variations: usize) -> Result<Self, SharesError> {
        let mut hundredths = vec![0; variations];
        if let Some(stable) = hundredths.first_mut() {
            *stable = BUCKETS;
        }
        Self::new(hundredths)
    }

    /// Units of 0.01 %, a variation each.
    #[must_use]
    pub fn hundredths(&self) -> &[u16] {
        &self.0
    }
}
