//! Words for the variants of an enum, in one table.

/// Names the variants of an enum without data: `ALL`, in the order of the table, `NAMES`, `name` and `named` are made of one
/// table, which the compiler refuses as long as a variant has no line in it.
#[macro_export]
macro_rules! name_variants {
    ($kind:ident { $($variant:ident => $name:literal,)* }) => {
        impl $kind {
            /// Every one, in the order of their table.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// All names, in the same order.
            pub const NAMES: [&'static str; [$($name),*].len()] = [$($name),*];

            /// As written, stored and shown.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// Whose name this is.
            pub fn named(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}
