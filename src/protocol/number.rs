//! Numbers whose refusal names their field.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{Error, Unexpected, Visitor},
};

use model::StageStatus;

struct Count;

impl Visitor<'_> for Count {
    type Value = u32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`number_of_children` as a whole number from 0 to {}", u32::MAX)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<u32, E> {
        u32::try_from(number).map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<u32, E> {
        u32::try_from(number).map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
    }

    /// Whole numbers are written as 3.0 by some.
    fn visit_f64<E: Error>(self, number: f64) -> Result<u32, E> {
        whole(number)
            .and_then(|whole| u32::try_from(whole).ok())
            .ok_or_else(|| E::invalid_value(Unexpected::Float(number), &self))
    }

    /// Null is what Go writes for nothing.
    fn visit_unit<E: Error>(self) -> Result<u32, E> {
        Ok(0)
    }
}

pub fn number_of_children<'de, D: Deserializer<'de>>(d: D) -> Result<u32, D::Error> {
    d.deserialize_any(Count)
}

/// Beyond it not every whole number has a floating-point form of its own.
const MAX_WHOLE: f64 = (1_u64 << 53) as f64;

/// The number, if it is one without a fraction that is counted with.
fn whole(number: f64) -> Option<u64> {
    (number.fract() == 0.0 && (0.0..=MAX_WHOLE).contains(&number)).then_some(number as u64)
}

/// A whole number from 0 on, however it is written.
struct Whole<T>(T);

impl<'de, T: TryFrom<u64>> Deserialize<'de> for Whole<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(WholeNumber(PhantomData)).map(Self)
    }
}

struct WholeNumber<T>(PhantomData<T>);

impl<T: TryFrom<u64>> Visitor<'_> for WholeNumber<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from 0 to {}", u64::MAX >> (64 - 8 * size_of::<T>()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        T::try_from(number).map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        Err(E::invalid_value(Unexpected::Signed(number), &self))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        let found = whole(number).and_then(|whole| T::try_from(whole).ok());
        found.ok_or_else(|| E::invalid_value(Unexpected::Float(number), &self))
    }
}

/// A number that counts something.
pub fn count<'de, D: Deserializer<'de>, T: TryFrom<u64>>(d: D) -> Result<T, D::Error> {
    Whole::deserialize(d).map(|Whole(number)| number)
}

/// A number that counts something, where it may be missing.
pub fn optional_count<'de, D: Deserializer<'de>, T: TryFrom<u64>>(d: D) -> Result<Option<T>, D::Error> {
    Option::deserialize(d).map(|found| found.map(|Whole(number)| number))
}

/// Many of them.
pub fn counts<'de, D: Deserializer<'de>, T: TryFrom<u64>>(d: D) -> Result<Vec<T>, D::Error> {
    let found: Vec<Whole<T>> = Vec::deserialize(d)?;
    Ok(found.into_iter().map(|Whole(number)| number).collect())
}

struct Status;

impl Visitor<'_> for Status {
    type Value = StageStatus;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`status` as a number from 0 to 6 or a name from `Pending` to `Error`")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<StageStatus, E> {
        StageStatus::from_wire(number).ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<StageStatus, E> {
        let status = whole(number).and_then(StageStatus::from_wire);
        status.ok_or_else(|| E::invalid_value(Unexpected::Float(number), &self))
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<StageStatus, E> {
        StageStatus::named(name).ok_or_else(|| E::invalid_value(Unexpected::Str(name), &self))
    }
}

pub fn status<'de, D: Deserializer<'de>>(d: D) -> Result<StageStatus, D::Error> {
    d.deserialize_any(Status)
}
