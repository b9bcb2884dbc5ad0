//! The macro that declares a structure once, for Rust and for shaders.

/// A type that a field may have: its layout by std430, its name in GLSL, its bytes.
pub(crate) trait Field: Sized {
    /// In bytes.
    const SIZE: usize;
    /// Offsets of the field are a multiple of this.
    const ALIGN: usize;

    /// Returns the field's declaration in GLSL, without the semicolon.
    fn declare(name: &str) -> String;

    /// Writes the field to the beginning of `to`.
    fn write(&self, to: &mut [u8]);

    /// Reads the field from the beginning of `from`; bytes that are missing count as zeros.
    fn read(from: &[u8]) -> Self;
}

/// Implements [`Field`] for an integer and for its arrays.
macro_rules! integer {
    ($($ty:ty: $glsl:literal)+) => {
        $(
            impl Field for $ty {
                const SIZE: usize = size_of::<$ty>();
                const ALIGN: usize = Self::SIZE;

                fn declare(name: &str) -> String {
                    format!("{} {name}", $glsl)
                }

                fn write(&self, to: &mut [u8]) {
                    if let Some(to) = to.first_chunk_mut() {
                        *to = self.to_le_bytes();
                    }
                }

                fn read(from: &[u8]) -> Self {
                    from.first_chunk().map_or(0, |bytes| Self::from_le_bytes(*bytes))
                }
            }

            impl<const N: usize> Field for [$ty; N] {
                const SIZE: usize = N * size_of::<$ty>();
                const ALIGN: usize = size_of::<$ty>();

                fn declare(name: &str) -> String {
                    format!("{} {name}[{N}]", $glsl)
                }

                fn write(&self, to: &mut [u8]) {
                    for (one, to) in self.iter().zip(to.chunks_exact_mut(size_of::<$ty>())) {
                        one.write(to);
                    }
                }

                fn read(from: &[u8]) -> Self {
                    std::array::from_fn(|i| <$ty>::read(from.get(i * size_of::<$ty>()..).unwrap_or(&[])))
                }
            }
        )+
    };
}

integer! {
    u32: "uint"
    u64: "uint64_t"
}

/// Four words that a shader reads at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Vector(pub(crate) [u32; 4]);

impl Field for Vector {
    const SIZE: usize = 16;
    const ALIGN: usize = 16;

    fn declare(name: &str) -> String {
        format!("uvec4 {name}")
    }

    fn write(&self, to: &mut [u8]) {
        self.0.write(to);
    }

    fn read(from: &[u8]) -> Self {
        Vector(Field::read(from))
    }
}

/// Declares structures that the host and shaders share. `buffer(ALIGN)` is a block that a shader reads by
/// its address; `record` is an element of a list. The fields lie one after the other; a field whose offset
/// std430 would move does not compile.
macro_rules! structures {
    (
        $(
            $(#[doc = $doc:literal])+
            $kind:ident $(($align:literal))? $name:ident {
                $($(#[doc = $comment:literal])+ $field:ident: $ty:ty,)+
            }
        )+
    ) => {
        $(
            $(#[doc = $doc])+
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
            #[allow(unreachable_pub, reason = "twins have some of them in their interface")]
            pub struct $name {
                $($(#[doc = $comment])+ pub(crate) $field: $ty,)+
            }

            #[allow(dead_code, reason = "some structures are only written, others only read")]
            impl $name {
                /// In bytes.
                pub(crate) const SIZE: usize = {
                    let mut at = 0;
                    $(
                        assert!(at % <$ty as Field>::ALIGN == 0, "std430 would move a field");
                        at += <$ty as Field>::SIZE;
                    )+
                    at
                };

                /// Writes the structure to the beginning of `to`.
                pub(crate) fn write(&self, to: &mut [u8]) {
                    debug_assert!(to.len() >= Self::SIZE, "no room for {}", stringify!($name));
                    let mut at = 0;
                    $(
                        self.$field.write(to.get_mut(at..).unwrap_or(&mut []));
                        at += <$ty as Field>::SIZE;
                    )+
                    debug_assert_eq!(at, Self::SIZE);
                }

                /// Reads the structure from the beginning of `from`; bytes that are missing count as zeros.
                pub(crate) fn read(from: &[u8]) -> Self {
                    let mut at = 0;
                    $(
                        let $field = <$ty as Field>::read(from.get(at..).unwrap_or(&[]));
                        at += <$ty as Field>::SIZE;
                    )+
                    debug_assert_eq!(at, Self::SIZE);
                    $name { $($field),+ }
                }

                /// Writes structures one after the other.
                pub(crate) fn write_all<'a>(to: &mut [u8], all: impl IntoIterator<Item = &'a Self>) {
                    for (to, one) in to.chunks_exact_mut(Self::SIZE).zip(all) {
                        one.write(to);
                    }
                }

                /// Reads structures that lie one after the other.
                pub(crate) fn read_all(from: &[u8]) -> impl Iterator<Item = Self> + '_ {
                    from.chunks_exact(Self::SIZE).map(Self::read)
                }
            }

            impl Default for $name {
                /// All zeros.
                fn default() -> Self {
                    Self::read(&[])
                }
            }

            // Of a list each element begins where the one before it ends.
            $crate::shared::structures::declare::check_stride!($kind $name $($ty)+);
        )+

        /// Name of each structure, its size, and the offsets of its fields, in bytes.
        #[allow(dead_code, clippy::type_complexity, reason = "for some of the declarations")]
        pub(crate) fn offsets() -> Vec<(&'static str, usize, Vec<(&'static str, usize)>)> {
            let mut all = Vec::new();
            $({
                let (mut at, mut fields) = (0, Vec::new());
                $(
                    fields.push((stringify!($field), at));
                    at += <$ty as Field>::SIZE;
                )+
                all.push((stringify!($name), at, fields));
            })+
            all
        }

        /// The declarations in GLSL.
        #[allow(dead_code, reason = "for some of the declarations")]
        fn declarations() -> String {
            let mut text = String::new();
            $(
                text.push('\n');
                $(text += &format!("//{}\n", $doc);)+
                text += &$crate::shared::structures::declare::opening!($kind $(($align))? $name);
                $(
                    $(text += &format!("    //{}\n", $comment);)+
                    text += &format!("    {};\n", <$ty as Field>::declare(stringify!($field)));
                )+
                text += "};\n";
            )+
            text
        }
    };
}

/// The line that opens a structure in GLSL.
macro_rules! opening {
    (buffer($align:literal) $name:ident) => {
        format!(
            "layout(buffer_reference, std430, buffer_reference_align = {}) restrict readonly buffer {} {{\n",
            $align,
            stringify!($name)
        )
    };
    (record $name:ident) => {
        format!("struct {} {{\n", stringify!($name))
    };
}

/// Checks that std430 adds nothing after a record.
macro_rules! check_stride {
    (buffer $($rest:tt)+) => {};
    (record $name:ident $($ty:ty)+) => {
        const _: () = {
            $(assert!($name::SIZE % <$ty as Field>::ALIGN == 0, "std430 would add bytes behind a record");)+
        };
    };
}

pub(crate) use {check_stride, opening, structures};
