//! Element types and their codes in manifests (LAYOUT.md 3.2).

use std::fmt;

macro_rules! dtypes {
    ($($variant:ident = $code:literal, $bits:literal, $name:literal;)*) => {
        /// Type of a tensor's elements: every one that safetensors files can have.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Dtype {
            $(
                #[doc = concat!("`", $name, "`, ", stringify!($bits), " bits.")]
                $variant,
            )*
        }

        impl Dtype {
            /// All types, in the order of their codes.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The type's code in a manifest.
            pub const fn code(self) -> u16 {
                match self { $(Self::$variant => $code,)* }
            }

            /// The type with this code.
            pub const fn from_code(code: u16) -> Option<Self> {
                match code { $($code => Some(Self::$variant),)* _ => None }
            }

            /// Bits of one element; F4 and F6 have less than a byte.
            pub const fn bits(self) -> u64 {
                match self { $(Self::$variant => $bits,)* }
            }

            /// The type's name as safetensors headers spell it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The type with this name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

dtypes! {
    Bool = 1, 8, "BOOL";
    F4 = 2, 4, "F4";
    F6E2M3 = 3, 6, "F6_E2M3";
    F6E3M2 = 4, 6, "F6_E3M2";
    U8 = 5, 8, "U8";
    I8 = 6, 8, "I8";
    F8E5M2 = 7, 8, "F8_E5M2";
    F8E4M3 = 8, 8, "F8_E4M3";
    F8E8M0 = 9, 8, "F8_E8M0";
    F8E4M3Fnuz = 10, 8, "F8_E4M3FNUZ";
    F8E5M2Fnuz = 11, 8, "F8_E5M2FNUZ";
    I16 = 12, 16, "I16";
    U16 = 13, 16, "U16";
    F16 = 14, 16, "F16";
    BF16 = 15, 16, "BF16";
    I32 = 16, 32, "I32";
    U32 = 17, 32, "U32";
    F32 = 18, 32, "F32";
    C64 = 19, 64, "C64";
    F64 = 20, 64, "F64";
    I64 = 21, 64, "I64";
    U64 = 22, 64, "U64";
}

impl Dtype {
    /// Bytes of a tensor of this type and shape; `None` when that overflows or is no whole number.
    pub fn tensor_bytes(self, shape: &[u64]) -> Option<u64> {
        let elements = shape
            .iter()
            .try_fold(1u64, |product, &dim| product.checked_mul(dim))?;
        let bits = elements.checked_mul(self.bits())?;
        bits.is_multiple_of(8).then_some(bits / 8)
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_are_distinct_and_round_trip() {
        for (index, &dtype) in Dtype::ALL.iter().enumerate() {
            assert_eq!(usize::from(dtype.code()), index + 1);
            assert_eq!(Dtype::from_code(dtype.code()), Some(dtype));
            assert_eq!(Dtype::from_name(dtype.name()), Some(dtype));
        }
        assert_eq!(Dtype::from_code(0), None);
        assert_eq!(Dtype::from_code(23), None);
    }

    #[test]
    fn sub_byte_elements_must_fill_whole_bytes() {
        assert_eq!(Dtype::F4.tensor_bytes(&[3]), None);
        assert_eq!(Dtype::F4.tensor_bytes(&[4]), Some(2));
        assert_eq!(Dtype::F32.tensor_bytes(&[]), Some(4));
        assert_eq!(Dtype::F32.tensor_bytes(&[0, 7]), Some(0));
        assert_eq!(Dtype::F64.tensor_bytes(&[u64::MAX, 2]), None);
    }
}
