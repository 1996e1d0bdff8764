//! How a layout is declared: the durable form of a type is the list of its parts, written down once.
//!
//! `durable_struct!` lists the fields of a struct in the order of their bytes, `durable_enum!` the variants
//! with their numbers. Reading and writing both follow from the list, so they cannot differ, and a field or
//! variant that is added to the core does not compile until it has its place here. Numbers begin at 1, so
//! that zeroed bytes show as damage, and are never reused.

use crate::wire::{FormatError, Reader, put_varint};

/// A type with a durable form.
pub(crate) trait Durable: Sized {
    /// The fewest bytes that a value takes.
    const LEAST: usize;

    /// Writes the value.
    fn encode(&self, out: &mut Vec<u8>);

    /// Reads a value.
    fn decode(from: &mut Reader<'_>) -> Result<Self, FormatError>;
}

/// Declares the fields of a struct, in the order of their bytes.
macro_rules! durable_struct {
    ($name:ident { $($field:ident: $type:ty),+ $(,)? }) => {
        impl $crate::layout::Durable for $name {
            const LEAST: usize = 0 $(+ <$type as $crate::layout::Durable>::LEAST)+;

            #[inline]
            fn encode(&self, out: &mut Vec<u8>) {
                let Self { $($field),+ } = self;
                $($crate::layout::Durable::encode($field, out);)+
            }

            #[inline]
            fn decode(from: &mut $crate::wire::Reader<'_>) -> Result<Self, $crate::wire::FormatError> {
                Ok(Self { $($field: <$type as $crate::layout::Durable>::decode(from)?),+ })
            }
        }
    };
}

/// Declares the variants of an enum with their numbers: one byte, then the fields in order.
macro_rules! durable_enum {
    ($name:ident, $what:literal {
        $($number:literal => $variant:ident
            $({ $($field:ident: $type:ty),+ $(,)? })?
            $(( $($place:ident: $place_type:ty),+ ))?
        ),+ $(,)?
    }) => {
        impl $crate::layout::Durable for $name {
            const LEAST: usize = 1;

            #[inline]
            fn encode(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$variant $({ $($field),+ })? $(( $($place),+ ))? => {
                        out.push($number);
                        $($($crate::layout::Durable::encode($field, out);)+)?
                        $($($crate::layout::Durable::encode($place, out);)+)?
                    })+
                }
            }

            #[inline]
            fn decode(from: &mut $crate::wire::Reader<'_>) -> Result<Self, $crate::wire::FormatError> {
                let start = from.clone();
                match from.byte($what)? {
                    $($number => Ok(Self::$variant
                        $({ $($field: <$type as $crate::layout::Durable>::decode(from)?),+ })?
                        $(( $(<$place_type as $crate::layout::Durable>::decode(from)?),+ ))?
                    ),)+
                    _ => Err(start.damaged($what, "has an unknown number")),
                }
            }
        }
    };
}

pub(crate) use {durable_enum, durable_struct};

impl Durable for u64 {
    const LEAST: usize = 1;

    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, *self);
    }

    #[inline]
    fn decode(from: &mut Reader<'_>) -> Result<Self, FormatError> {
        from.varint("number")
    }
}

impl Durable for u32 {
    const LEAST: usize = 1;

    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(*self));
    }

    #[inline]
    fn decode(from: &mut Reader<'_>) -> Result<Self, FormatError> {
        from.small("number")
    }
}

impl Durable for u8 {
    const LEAST: usize = 1;

    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }

    #[inline]
    fn decode(from: &mut Reader<'_>) -> Result<Self, FormatError> {
        from.byte("number")
    }
}

/// A number with a sign: 0, -1, 1, -2, … are written as 0, 1, 2, 3, …
impl Durable for i32 {
    const LEAST: usize = 1;

    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(((self << 1) ^ (self >> 31)) as u32));
    }

    #[inline]
    fn decode(from: &mut Reader<'_>) -> Result<Self, FormatError> {
        let folded: u32 = from.small("number")?;
        Ok((folded >> 1) as i32 ^ -((folded & 1) as i32))
    }
}

impl Durable for bool {
    const LEAST: usize = 1;

    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    #[inline]
    fn decode(from: &mut Reader<'_>) -> Result<Self, FormatError> {
        from.bool("flag")
    }
}

impl<T: Durable> Durable for Option<T> {
    const LEAST: usize = 1;

    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            None => out.push(0),
            Some(value) => {
                out.push(1);
                value.encode(out);
            }
        }
    }

    #[inline]
    fn decode(from: &mut Reader<'_>) -> Result<Self, FormatError> {
        if from.bool("presence of a value")? { T::decode(from).map(Some) } else { Ok(None) }
    }
}

impl<T: Durable> Durable for Box<T> {
    const LEAST: usize = T::LEAST;

    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        T::encode(self, out);
    }

    #[inline]
    fn decode(from: &mut Reader<'_>) -> Result<Self, FormatError> {
        T::decode(from).map(Box::new)
    }
}

impl<A: Durable, B: Durable> Durable for (A, B) {
    const LEAST: usize = A::LEAST + B::LEAST;

    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
        self.1.encode(out);
    }

    #[inline]
    fn decode(from: &mut Reader<'_>) -> Result<Self, FormatError> {
        Ok((A::decode(from)?, B::decode(from)?))
    }
}

/// The most memory set aside for a list before its elements are read.
const LIST_RESERVE: usize = 64 << 10;

impl<T: Durable> Durable for Vec<T> {
    const LEAST: usize = 1;

    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.len() as u64);
        for element in self {
            element.encode(out);
        }
    }

    #[inline]
    fn decode(from: &mut Reader<'_>) -> Result<Self, FormatError> {
        let count = from.count("list", T::LEAST)?;
        // Elements may be larger in memory than on disk: a claimed count alone never gets much memory.
        let mut list = Vec::with_capacity(count.min(LIST_RESERVE / size_of::<T>().max(1)));
        for _ in 0..count {
            list.push(T::decode(from)?);
        }
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signed_numbers_near_zero_are_short() {
        for (number, bytes) in
            [(0, &[0][..]), (-1, &[1]), (1, &[2]), (-64, &[127]), (i32::MIN, &[0xff, 0xff, 0xff, 0xff, 0x0f])]
        {
            let mut out = Vec::new();
            number.encode(&mut out);
            assert_eq!(out, bytes, "{number}");
            assert_eq!(i32::decode(&mut Reader::new(&out)), Ok(number));
        }
        assert_eq!(i32::decode(&mut Reader::new(&[0xfe, 0xff, 0xff, 0xff, 0x0f])), Ok(i32::MAX));
    }

    #[test]
    fn a_large_count_without_its_elements_is_refused() {
        let mut bytes = vec![0x80, 0x80, 0x40]; // 2^20 elements, which the bytes that follow could just hold.
        bytes.resize(3 + (1 << 20), 0x80);
        let result: Result<Vec<u64>, _> = Durable::decode(&mut Reader::new(&bytes));
        assert!(result.is_err());
    }
}
