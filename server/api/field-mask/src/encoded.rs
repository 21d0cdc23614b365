//! Masks of encoded messages.

use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, encode_key, encode_varint, skip_field};

use crate::mask::{FieldMask, Selection};

impl FieldMask {
    /// The encoded message without what the mask does not have. The rest stays as it is, in its order. `None` if these bytes
    /// are no message.
    pub(crate) fn retain_encoded(&self, message: &[u8]) -> Option<Vec<u8>> {
        let mut retained = Vec::with_capacity(message.len());
        let mut rest = message;
        while !rest.is_empty() {
            let field = rest;
            let (number, wire_type) = decode_key(&mut rest).ok()?;
            match (self.kept(number), wire_type) {
                (Some(Selection::Part(mask)), WireType::LengthDelimited) => {
                    let length = decode_varint(&mut rest).ok()?;
                    let (inner, after) = rest.split_at_checked(usize::try_from(length).ok()?)?;
                    let inner = mask.retain_encoded(inner)?;
                    encode_key(number, wire_type, &mut retained);
                    encode_varint(inner.len() as u64, &mut retained);
                    retained.extend_from_slice(&inner);
                    rest = after;
                }
                (kept, _) => {
                    skip_field(wire_type, number, &mut rest, DecodeContext::default()).ok()?;
                    if kept.is_some() {
                        retained.extend_from_slice(&field[..field.len() - rest.len()]);
                    }
                }
            }
        }
        Some(retained)
    }
}
