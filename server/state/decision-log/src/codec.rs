//! Binary encoding of values, identical on every platform.
//!
//! The log is read by later releases, and its digests decide whether a replay is identical. The
//! encoding is therefore explicit: integers as LEB128 varints, signed ones zigzag, strings and
//! lists length-prefixed, maps and sets in their order, fields in the order of [`model`]. A field
//! added to one of these types does not compile until it is listed; [`FORM`] is incremented with it.

mod disruption;
pub(super) mod model;
mod removal;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ::model::Text;

/// Format version. Incremented whenever encoded bytes change their meaning; a reader rejects
/// unknown versions.
pub(super) const FORM: u8 = 2;

/// Decoding error: bytes that this program did not write, or that were modified.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the bytes cannot be read as {0}")]
pub struct DecodeError(pub &'static str);

/// A value with a binary encoding.
pub(super) trait Codec: Sized {
    fn put(&self, out: &mut Vec<u8>);

    /// Decodes a value from the front.
    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError>;

    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.put(&mut out);
        out
    }

    /// Decodes a value that spans all of `bytes`.
    fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader { bytes };
        let value = Self::get(&mut reader)?;
        reader.end()?;
        Ok(value)
    }
}

/// Cursor over encoded bytes.
#[derive(Debug)]
pub(super) struct Reader<'b> {
    bytes: &'b [u8],
}

impl<'b> Reader<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        Self { bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn end(&self) -> Result<(), DecodeError> {
        if self.bytes.is_empty() { Ok(()) } else { Err(DecodeError("one value, and more follows")) }
    }

    pub(super) fn take(&mut self, count: usize, what: &'static str) -> Result<&'b [u8], DecodeError> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or(DecodeError(what))?;
        self.bytes = rest;
        Ok(taken)
    }

    /// Reads a length. Each element takes at least one byte, so a false length allocates nothing.
    pub(super) fn count(&mut self) -> Result<usize, DecodeError> {
        let count = usize::try_from(u64::get(self)?).map_err(|_| DecodeError("a length"))?;
        if count > self.bytes.len() { Err(DecodeError("a length")) } else { Ok(count) }
    }
}

pub(super) fn put_count(count: usize, out: &mut Vec<u8>) {
    (count as u64).put(out);
}

impl Codec for u64 {
    fn put(&self, out: &mut Vec<u8>) {
        let mut rest = *self;
        while rest >= 0x80 {
            out.push((rest & 0x7f) as u8 | 0x80);
            rest >>= 7;
        }
        out.push(rest as u8);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = from.take(1, "an integer")?[0];
            let group = Self::from(byte & 0x7f);
            if shift == 63 && group > 1 {
                break;
            }
            value |= group << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(DecodeError("an integer"))
    }
}

impl Codec for i64 {
    fn put(&self, out: &mut Vec<u8>) {
        ((self << 1) ^ (self >> 63)).cast_unsigned().put(out);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let value = u64::get(from)?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }
}

macro_rules! narrow {
    ($($small:ty => $wide:ty),*) => { $(
        impl Codec for $small {
            fn put(&self, out: &mut Vec<u8>) {
                <$wide>::from(*self).put(out);
            }

            fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
                Self::try_from(<$wide>::get(from)?).map_err(|_| DecodeError("a small integer"))
            }
        }
    )* };
}
narrow!(u8 => u64, u16 => u64, u32 => u64, i32 => i64);

impl Codec for usize {
    fn put(&self, out: &mut Vec<u8>) {
        put_count(*self, out);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Self::try_from(u64::get(from)?).map_err(|_| DecodeError("a small integer"))
    }
}

/// Encodes all 16 bytes, the highest first.
impl Codec for i128 {
    fn put(&self, out: &mut Vec<u8>) {
        self.to_be_bytes().put(out);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Codec::get(from).map(Self::from_be_bytes)
    }
}

impl Codec for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match from.take(1, "yes or no")?[0] {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError("yes or no")),
        }
    }
}

pub(super) fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_count(bytes.len(), out);
    out.extend_from_slice(bytes);
}

pub(super) fn get_bytes<'b>(from: &mut Reader<'b>) -> Result<&'b [u8], DecodeError> {
    let count = from.count()?;
    from.take(count, "bytes")
}

fn put_str(text: &str, out: &mut Vec<u8>) {
    put_bytes(text.as_bytes(), out);
}

fn get_str<'b>(from: &mut Reader<'b>) -> Result<&'b str, DecodeError> {
    std::str::from_utf8(get_bytes(from)?).map_err(|_| DecodeError("a text"))
}

impl Codec for Text {
    fn put(&self, out: &mut Vec<u8>) {
        put_str(self, out);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        get_str(from).map(Self::from)
    }
}

impl Codec for String {
    fn put(&self, out: &mut Vec<u8>) {
        put_str(self, out);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        get_str(from).map(Self::from)
    }
}

impl<const N: usize> Codec for [u8; N] {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        from.take(N, "a hash")?.try_into().map_err(|_| DecodeError("a hash"))
    }
}

impl<T: Codec> Codec for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        bool::get(from)?.then(|| T::get(from)).transpose()
    }
}

impl<A: Codec, B: Codec> Codec for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok((A::get(from)?, B::get(from)?))
    }
}

fn put_all<'v, T: Codec + 'v>(values: impl ExactSizeIterator<Item = &'v T>, out: &mut Vec<u8>) {
    put_count(values.len(), out);
    values.for_each(|value| value.put(out));
}

fn get_all<T: Codec, C: FromIterator<T>>(from: &mut Reader<'_>) -> Result<C, DecodeError> {
    let count = from.count()?;
    (0..count).map(|_| T::get(from)).collect()
}

macro_rules! lists {
    ($($list:ty: $bound:ident $(+ $more:ident)?),*) => { $(
        impl<T: $bound $(+ $more)?> Codec for $list {
            fn put(&self, out: &mut Vec<u8>) {
                put_all(self.iter(), out);
            }

            fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
                get_all(from)
            }
        }
    )* };
}
lists!(Vec<T>: Codec, Arc<[T]>: Codec, BTreeSet<T>: Codec + Ord);

impl<T: Codec> Codec for Arc<T> {
    fn put(&self, out: &mut Vec<u8>) {
        T::put(self, out);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        T::get(from).map(Self::new)
    }
}

impl<K: Codec + Ord, V: Codec> Codec for BTreeMap<K, V> {
    fn put(&self, out: &mut Vec<u8>) {
        put_count(self.len(), out);
        for (key, value) in self {
            key.put(out);
            value.put(out);
        }
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        get_all(from)
    }
}

#[cfg(test)]
mod tests {
    use ::model::input::Policy;

    use super::*;

    fn round<T: Codec + PartialEq + std::fmt::Debug>(value: T, bytes: &[u8]) {
        assert_eq!(value.to_bytes(), bytes);
        assert_eq!(T::from_bytes(bytes), Ok(value));
    }

    #[test]
    fn simple_values_have_the_documented_encoding() {
        // 300 = 2 × 128 + 44: low group first, with the continuation bit.
        round(300_u64, &[44 | 0x80, 2]);
        round(u64::MAX, &[255, 255, 255, 255, 255, 255, 255, 255, 255, 1]);
        // Zigzag: 0, -1, 1, -2 become 0, 1, 2, 3.
        round(-2_i64, &[3]);
        round(300_usize, &[44 | 0x80, 2]);
        round(-2_i128, &[[255; 15].as_slice(), &[254]].concat());
        round(i64::MIN, &[255, 255, 255, 255, 255, 255, 255, 255, 255, 1]);
        round(Some(Text::from("ab")), &[1, 2, b'a', b'b']);
        // A name is its text.
        round(Some(::model::PoolName::from("ab")), &[1, 2, b'a', b'b']);
        round(BTreeMap::from([(1_u32, true)]), &[1, 1, 1]);
    }

    #[test]
    fn a_policy_without_nominations_has_the_encoding_of_earlier_releases() {
        // Two settings, no labels, steps, seed; then the limits, which the oldest policies lack.
        let oldest = Policy { step_limit: 0, preferred_terms: 0, ..Policy::default() };
        round(oldest.clone(), &[0, 0, 0, 0, 0]);
        round(Policy { step_limit: 1, preferred_terms: 2, ..oldest.clone() }, &[0, 0, 0, 0, 0, 1, 2]);
        round(Policy { nominations: true, ..oldest }, &[0, 0, 0, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn invalid_bytes_are_rejected() {
        assert!(u64::from_bytes(&[255; 11]).is_err(), "more than 64 bits");
        assert!(u64::from_bytes(&[255, 255, 255, 255, 255, 255, 255, 255, 255, 2]).is_err(), "the 65th bit");
        assert!(Vec::<u8>::from_bytes(&[200, 1, 0]).is_err(), "200 elements in one byte");
        assert!(Text::from_bytes(&[1, 0xff]).is_err(), "no UTF-8");
        assert!(u8::from_bytes(&[1, 1]).is_err(), "trailing bytes");
        assert!(bool::from_bytes(&[2]).is_err());
    }
}
