//! How the forms of single values are used within others, and which version a form has.

use std::{marker::PhantomData, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// The stored form of `T`: what a type of the domain is called in a column, however it is called in the program.
pub(crate) trait Form<T> {
    fn write<S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error>;
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error>;
}

/// Makes forms of what serde calls remote definitions.
macro_rules! forms {
    ($($form:ident = $domain:ty),* $(,)?) => {
        $(impl $crate::json_columns::form::Form<$domain> for $form {
            fn write<S: serde::Serializer>(value: &$domain, serializer: S) -> Result<S::Ok, S::Error> {
                Self::serialize(value, serializer)
            }

            fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<$domain, D::Error> {
                Self::deserialize(deserializer)
            }
        })*
    };
}
pub(super) use forms;

/// A value together with its form.
pub(crate) struct As<T, F>(T, PhantomData<F>);

impl<T, F> As<T, F> {
    pub const fn of(value: T) -> Self {
        Self(value, PhantomData)
    }
}

impl<T, F: Form<T>> Serialize for As<&T, F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        F::write(self.0, serializer)
    }
}

pub(super) struct Read<T, F>(T, PhantomData<F>);

impl<T, F> Read<T, F> {
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<'de, T, F: Form<T>> Deserialize<'de> for Read<T, F> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        F::read(deserializer).map(|value| Self(value, PhantomData))
    }
}

/// Of what may be missing.
pub(crate) struct Maybe<F>(PhantomData<F>);

impl<F> Maybe<F> {
    #[expect(clippy::ref_option, reason = "serde hands a reference to the field")]
    pub fn serialize<T, S: Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error>
    where
        F: Form<T>,
    {
        value.as_ref().map(|value| As::<_, F>::of(value)).serialize(serializer)
    }

    pub fn deserialize<'de, T, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        F: Form<T>,
    {
        Ok(Option::<Read<T, F>>::deserialize(deserializer)?.map(Read::into_inner))
    }
}

/// Of a list.
pub(crate) struct Each<F>(PhantomData<F>);

impl<F> Each<F> {
    pub fn serialize<T, S: Serializer>(values: &[T], serializer: S) -> Result<S::Ok, S::Error>
    where
        F: Form<T>,
    {
        serializer.collect_seq(values.iter().map(|value| As::<_, F>::of(value)))
    }

    pub fn deserialize<'de, T, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error>
    where
        F: Form<T>,
    {
        let all = Vec::<Read<T, F>>::deserialize(deserializer)?;
        Ok(all.into_iter().map(Read::into_inner).collect())
    }
}

/// Of what lies apart in memory.
pub(crate) struct Boxed<F>(PhantomData<F>);

impl<T, F: Form<T>> Form<Box<T>> for Boxed<F> {
    fn write<S: Serializer>(value: &Box<T>, serializer: S) -> Result<S::Ok, S::Error> {
        F::write(value, serializer)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<T>, D::Error> {
        F::read(deserializer).map(Box::new)
    }
}

/// Of what several hold in memory.
pub(crate) struct Shared<F>(PhantomData<F>);

impl<T, F: Form<T>> Form<Arc<T>> for Shared<F> {
    fn write<S: Serializer>(value: &Arc<T>, serializer: S) -> Result<S::Ok, S::Error> {
        F::write(value, serializer)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<T>, D::Error> {
        F::read(deserializer).map(Arc::new)
    }
}

/// The version of a form: not written while it is 1. A form that is newer than this program
/// is refused, and named: what it says may mean something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version<const KNOWN: u32>(u32);

impl<const KNOWN: u32> Version<KNOWN> {
    /// The one that this program writes.
    pub const NOW: Self = Self(KNOWN);

    pub fn is_first(&self) -> bool {
        self.0 == 1
    }
}

/// That of a form which names none.
impl<const KNOWN: u32> Default for Version<KNOWN> {
    fn default() -> Self {
        Self(1)
    }
}

impl<const KNOWN: u32> Serialize for Version<KNOWN> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, const KNOWN: u32> Deserialize<'de> for Version<KNOWN> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u32::deserialize(deserializer)? {
            version @ 1.. if version <= KNOWN => Ok(Self(version)),
            version => Err(D::Error::custom(format!(
                "its form has version {version}, and this program knows those up to {KNOWN}: use a newer one"
            ))),
        }
    }
}
