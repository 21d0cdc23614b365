//! Page tokens: a position in the order of a list.
//!
//! A token has the sort key of the last row of a page, and a fingerprint of the list's arguments. It grants nothing: who may
//! read which rows is decided for each request, and a token that a client makes up is at most another position.
//!
//! The bytes are a version, the fingerprint, a checksum of what follows, and the values with the name. Each value is a tag
//! and 8 bytes for a number, or a length of 4 bytes and a text.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::ListError;
use crate::order::{SortKey, SortValue};

/// Changes when the bytes of tokens, or the meaning of orders, change.
const VERSION: u8 = 1;

/// What tokens of one list have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fingerprint(u64);

impl Fingerprint {
    /// Of these arguments. The result is the same in every process.
    pub(crate) fn of(arguments: &[&str]) -> Self {
        // Lengths keep apart what is the same in a row: "a", "bc" and "ab", "c".
        let hash = arguments.iter().fold(FNV_OFFSET, |hash, argument| {
            let hash = fnv1a(hash, &(argument.len() as u64).to_be_bytes());
            fnv1a(hash, argument.as_bytes())
        });
        Self(hash)
    }
}

/// The key of a token, as it owns its texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnedKey {
    values: Vec<OwnedValue>,
    name: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum OwnedValue {
    Absent,
    Bool(bool),
    Int(i64),
    Text(String),
}

impl OwnedKey {
    pub(crate) fn as_key(&self) -> SortKey<'_> {
        let values = self.values.iter().map(|value| match value {
            OwnedValue::Absent => SortValue::Absent,
            OwnedValue::Bool(value) => SortValue::Bool(*value),
            OwnedValue::Int(value) => SortValue::Int(*value),
            OwnedValue::Text(value) => SortValue::Text(value),
        });
        SortKey { values: values.collect(), name: &self.name }
    }
}

impl From<&SortKey<'_>> for OwnedKey {
    fn from(key: &SortKey<'_>) -> Self {
        let values = key.values.iter().map(|value| match value {
            SortValue::Absent => OwnedValue::Absent,
            SortValue::Bool(value) => OwnedValue::Bool(*value),
            SortValue::Int(value) => OwnedValue::Int(*value),
            SortValue::Text(value) => OwnedValue::Text((*value).to_owned()),
        });
        Self { values: values.collect(), name: key.name.to_owned() }
    }
}

/// The token of a list at `key`.
pub(crate) fn encode(fingerprint: Fingerprint, key: &SortKey<'_>) -> String {
    let mut body = Vec::new();
    for value in key.values.iter().copied().chain([SortValue::Text(key.name)]) {
        match value {
            SortValue::Absent => body.push(b'a'),
            SortValue::Bool(value) => body.push(if value { b't' } else { b'f' }),
            SortValue::Int(value) => {
                body.push(b'i');
                body.extend(value.to_be_bytes());
            }
            SortValue::Text(text) => {
                body.push(b's');
                // A longer text cannot be in memory as a field of a row that is sent.
                body.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes());
                body.extend(text.as_bytes());
            }
        }
    }
    let mut bytes = vec![VERSION];
    bytes.extend(fingerprint.0.to_be_bytes());
    bytes.extend(fnv1a(FNV_OFFSET, &body).to_be_bytes());
    bytes.extend(body);
    URL_SAFE_NO_PAD.encode(bytes)
}

pub(crate) fn decode(token: &str, fingerprint: Fingerprint) -> Result<OwnedKey, ListError> {
    let (of_token, key) = parts(token).ok_or(ListError::MalformedToken)?;
    if of_token == fingerprint { Ok(key) } else { Err(ListError::TokenOfOtherList) }
}

fn parts(token: &str) -> Option<(Fingerprint, OwnedKey)> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
    let (version, rest) = bytes.split_first()?;
    let (fingerprint, rest) = rest.split_first_chunk()?;
    let (checksum, mut body) = rest.split_first_chunk()?;
    if *version != VERSION || u64::from_be_bytes(*checksum) != fnv1a(FNV_OFFSET, body) {
        return None;
    }
    let mut values = Vec::new();
    while !body.is_empty() {
        values.push(value(&mut body)?);
    }
    match values.pop() {
        Some(OwnedValue::Text(name)) => {
            Some((Fingerprint(u64::from_be_bytes(*fingerprint)), OwnedKey { values, name }))
        }
        _ => None,
    }
}

fn value(body: &mut &[u8]) -> Option<OwnedValue> {
    let (tag, rest) = body.split_first()?;
    let (value, rest) = match tag {
        b'a' => (OwnedValue::Absent, rest),
        b't' => (OwnedValue::Bool(true), rest),
        b'f' => (OwnedValue::Bool(false), rest),
        b'i' => {
            let (bytes, rest) = rest.split_first_chunk()?;
            (OwnedValue::Int(i64::from_be_bytes(*bytes)), rest)
        }
        b's' => {
            let (length, rest) = rest.split_first_chunk()?;
            let (text, rest) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
            (OwnedValue::Text(str::from_utf8(text).ok()?.to_owned()), rest)
        }
        _ => return None,
    };
    *body = rest;
    Some(value)
}

/// Parameters of the 64-bit FNV-1a hash (RFC 9923).
pub(crate) const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

pub(crate) fn fnv1a(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME))
}
