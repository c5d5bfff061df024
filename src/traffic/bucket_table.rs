use crate::{BUCKETS, Bucket, MAX_VARIATIONS, Shares, SharesError, Variation};

/// Which variation each of the [`BUCKETS`] buckets belongs to.
#[derive(Clone, PartialEq, Eq)]
pub struct Table {
    of: Box<[u8]>,
    variations: usize,
    /// How many buckets each variation has.
    counts: [u16; MAX_VARIATIONS],
    /// The same, where there are few runs: with many services their tables would come from main memory, a line a call.
    few: Option<FewRuns>,
}

/// Runs, each by the first bucket behind it. Those behind the last are empty.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FewRuns {
    ends: [u16; FEW],
    of: [u8; FEW],
}

/// With more runs than this, looking a bucket up is faster than looking through them.
const FEW: usize = 8;

/// Neighbouring buckets of one variation: from `from` to before `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    pub from: u16,
    pub to: u16,
    pub variation: Variation,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    #[error(transparent)]
    Shares(#[from] SharesError),
    #[error(
        "the table has {there} variations and the shares name {asked}: variations are only ever added at the end"
    )]
    Fewer { there: usize, asked: usize },
    #[error("bucket {bucket} is in no run or in two: runs follow each other from 0 to {BUCKETS}")]
    Runs { bucket: u16 },
    #[error("the run from bucket {from} names variation {variation}, and there are {variations}")]
    Unknown { from: u16, variation: u8, variations: usize },
}

impl Table {
    /// The table of shares that nobody had other shares before.
    #[must_use]
    pub fn new(shares: &Shares) -> Self {
        let all_stable = vec![0; usize::from(BUCKETS)].into();
        Self::of(all_stable, shares.hundredths().len()).moved_to(shares)
    }

    fn of(of: Box<[u8]>, variations: usize) -> Self {
        let mut counts = [0; MAX_VARIATIONS];
        for &of in &of {
            counts[usize::from(of)] += 1;
        }
        let mut table = Self { of, variations, counts, few: None };
        let mut few = FewRuns { ends: [BUCKETS; FEW], of: [0; FEW] };
        let runs = table.runs();
        if runs.len() <= FEW {
            for (at, run) in runs.into_iter().enumerate() {
                (few.ends[at], few.of[at]) = (run.to, run.variation.0);
            }
            table.few = Some(few);
        }
        table
    }

    /// A table as it was written down by [`Table::runs`].
    ///
    /// # Errors
    ///
    /// A bucket that is in no run or in two, or a variation that isn't among `variations`.
    pub fn from_runs(variations: usize, runs: &[Run]) -> Result<Self, TableError> {
        if variations == 0 || variations > MAX_VARIATIONS {
            return Err(SharesError::Variations(variations).into());
        }
        let mut of = Vec::with_capacity(usize::from(BUCKETS));
        for run in runs {
            if usize::from(run.from) != of.len() || run.to <= run.from || run.to > BUCKETS {
                return Err(TableError::Runs { bucket: run.from.min(of.len() as u16) });
            }
            if run.variation.index() >= variations {
                return Err(TableError::Unknown { from: run.from, variation: run.variation.0, variations });
            }
            of.resize(usize::from(run.to), run.variation.0);
        }
        if of.len() != usize::from(BUCKETS) {
            return Err(TableError::Runs { bucket: of.len() as u16 });
        }
        Ok(Self::of(of.into(), variations))
    }

    /// The table after a change of shares. It moves exactly as many buckets as it must: who shrinks gives, who grows takes,
    /// and everybody else keeps theirs. Variations that the shares name and the table doesn't know are added at the end.
    ///
    /// # Errors
    ///
    /// Shares for fewer variations than there are.
    pub fn with_shares(&self, shares: &Shares) -> Result<Self, TableError> {
        let asked = shares.hundredths().len();
        if asked < self.variations {
            return Err(TableError::Fewer { there: self.variations, asked });
        }
        Ok(self.moved_to(shares))
    }

    /// The stable variation gives its lowest buckets and the others give their highest, so that with two variations the second
    /// always has the buckets below its share.
    fn moved_to(&self, shares: &Shares) -> Self {
        let wanted = shares.hundredths();
        let mut to_give = [0_u16; MAX_VARIATIONS];
        let mut to_take = [0_u16; MAX_VARIATIONS];
        for (index, (&want, have)) in wanted.iter().zip(self.counts).enumerate() {
            to_give[index] = have.saturating_sub(want);
            to_take[index] = want.saturating_sub(have);
        }

        let mut given = vec![false; self.of.len()];
        let mut give = |bucket: usize| {
            let left = &mut to_give[usize::from(self.of[bucket])];
            if *left > 0 {
                *left -= 1;
                given[bucket] = true;
            }
        };
        let (stable, others): (Vec<usize>, Vec<usize>) =
            (0..self.of.len()).partition(|&bucket| self.of[bucket] == Variation::STABLE.0);
        stable.into_iter().for_each(&mut give);
        others.into_iter().rev().for_each(&mut give);

        let mut of = self.of.clone();
        let mut taker = 0;
        for (bucket, _) in given.iter().enumerate().filter(|&(_, &is_given)| is_given) {
            while to_take[taker] == 0 {
                taker += 1;
            }
            to_take[taker] -= 1;
            of[bucket] = taker as u8;
        }
        Self::of(of, wanted.len())
    }

    /// The table in which the stable variation has the buckets of those that are emptied, and everybody else keeps theirs.
    #[must_use]
    pub fn emptied(&self, is_emptied: impl Fn(Variation) -> bool) -> Self {
        let mut to = [0; MAX_VARIATIONS];
        for (at, to) in (0..).zip(&mut to) {
            *to = if is_emptied(Variation(at)) { Variation::STABLE.0 } else { at };
        }
        Self::of(self.of.iter().map(|&of| to[usize::from(of)]).collect(), self.variations)
    }

    /// Which variation a bucket belongs to.
    #[must_use]
    pub fn variation(&self, bucket: Bucket) -> Variation {
        let Some(few) = &self.few else { return Variation(self.of[usize::from(bucket.index())]) };
        let run = few.ends.iter().position(|end| bucket.index() < *end);
        Variation(few.of[run.unwrap_or_default()])
    }

    #[must_use]
    pub fn variations(&self) -> usize {
        self.variations
    }

    /// How many buckets each variation has, which is its share in units of 0.01 %.
    #[must_use]
    pub fn hundredths(&self) -> Vec<u16> {
        self.counts[..self.variations].to_vec()
    }

    /// The same as runs of neighbouring buckets, from bucket 0 on.
    #[must_use]
    pub fn runs(&self) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for (bucket, &of) in (0..BUCKETS).zip(&self.of) {
            match runs.last_mut() {
                Some(run) if run.variation.0 == of => run.to = bucket + 1,
                _ => runs.push(Run { from: bucket, to: bucket + 1, variation: Variation(of) }),
            }
        }
        runs
    }

    /// How many buckets have another variation in `other`.
    #[must_use]
    pub fn moved_buckets(&self, other: &Self) -> u16 {
        self.of.iter().zip(&other.of).filter(|(here, there)| here != there).count() as u16
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("runs", &self.runs()).finish()
    }
}
