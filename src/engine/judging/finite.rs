//! Whether all numbers of something are numbers. JSON has none that is infinite, and none that is no number: it writes
//! nothing for them, and where a number must be, nothing can't be read back.
//!
//! Where a number may be missing, such a one is read back as missing, and so does no harm.

use std::fmt;

use serde::{Serialize, ser};

use crate::json_columns::{As, MeteredForm};
use domain::release::analysis::Metered;

/// Whether `value` has only numbers where there must be some. It is walked through, and nothing of it is copied.
pub fn has_only_numbers(value: &impl Serialize) -> bool {
    value.serialize(NumberWalk { may_be_missing: false }).is_ok()
}

/// Whether what a look found can be read again after it was stored.
pub fn can_be_stored(found: &Metered) -> bool {
    has_only_numbers(&As::<_, MeteredForm>::of(found))
}

/// A place that was come to on the way.
#[derive(Clone, Copy)]
struct NumberWalk {
    may_be_missing: bool,
}

const REQUIRED: NumberWalk = NumberWalk { may_be_missing: false };

/// A number that is none.
#[derive(Debug)]
struct NoNumber;

impl fmt::Display for NoNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number is infinite, or none")
    }
}

impl std::error::Error for NoNumber {}

impl ser::Error for NoNumber {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

type Walked = Result<(), NoNumber>;

/// What is no floating-point number, and holds none, is fine.
macro_rules! fine {
    ($($name:ident($($of:ty),*);)*) => {
        $(fn $name(self, $(_: $of),*) -> Walked { Ok(()) })*
    };
}

impl ser::Serializer for NumberWalk {
    type Ok = ();
    type Error = NoNumber;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    fine! {
        serialize_bool(bool);
        serialize_i8(i8);
        serialize_i16(i16);
        serialize_i32(i32);
        serialize_i64(i64);
        serialize_u8(u8);
        serialize_u16(u16);
        serialize_u32(u32);
        serialize_u64(u64);
        serialize_char(char);
        serialize_str(&str);
        serialize_bytes(&[u8]);
        serialize_none();
        serialize_unit();
        serialize_unit_struct(&'static str);
        serialize_unit_variant(&'static str, u32, &'static str);
    }

    fn serialize_f32(self, number: f32) -> Walked {
        self.serialize_f64(number.into())
    }

    fn serialize_f64(self, number: f64) -> Walked {
        if self.may_be_missing || number.is_finite() { Ok(()) } else { Err(NoNumber) }
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Walked {
        value.serialize(Self { may_be_missing: true })
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Walked {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> Walked {
        value.serialize(REQUIRED)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self, NoNumber> {
        Ok(REQUIRED)
    }

    fn serialize_tuple(self, _: usize) -> Result<Self, NoNumber> {
        Ok(REQUIRED)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self, NoNumber> {
        Ok(REQUIRED)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, NoNumber> {
        Ok(REQUIRED)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self, NoNumber> {
        Ok(REQUIRED)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, NoNumber> {
        Ok(REQUIRED)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, NoNumber> {
        Ok(REQUIRED)
    }
}

/// Each part of what has parts.
macro_rules! parts {
    ($($of:ident, $part:ident($($key:ident)?);)*) => {
        $(impl ser::$of for NumberWalk {
            type Ok = ();
            type Error = NoNumber;

            fn $part<T: Serialize + ?Sized>(&mut self, $($key: &'static str,)? value: &T) -> Walked {
                value.serialize(*self)
            }

            fn end(self) -> Walked {
                Ok(())
            }
        })*
    };
}

parts! {
    SerializeSeq, serialize_element();
    SerializeTuple, serialize_element();
    SerializeTupleStruct, serialize_field();
    SerializeTupleVariant, serialize_field();
    SerializeStruct, serialize_field(_key);
    SerializeStructVariant, serialize_field(_key);
}

impl ser::SerializeMap for NumberWalk {
    type Ok = ();
    type Error = NoNumber;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, _: &T) -> Walked {
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Walked {
        value.serialize(*self)
    }

    fn end(self) -> Walked {
        Ok(())
    }
}
