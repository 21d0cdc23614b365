//! The hash of an EC2NodeClass, which a NodeClaim carries from its creation.

use model::Text;
use model::node_class::{HashedFields, HashedValue, NodeClassSpec};

use crate::fnv::Fnv1a;

/// Version of [`node_class_hash`]; another one than Karpenter's, so that neither judges NodeClaims by the hash of the
/// other. It changes with the function, with a default of a hashed field, and when a field with existing values joins or
/// leaves.
pub const NODE_CLASS_HASH_VERSION: &str = "fleetwright-1";

/// The hash of [what an EC2NodeClass sets](NodeClassSpec::hashed_fields), as 16 hexadecimal digits. The order of lists does
/// not matter, and a default equals an absent field. A field that no EC2NodeClass had before may be added without another
/// version: absent fields are no part of it.
#[must_use]
pub fn node_class_hash(spec: &NodeClassSpec) -> Text {
    hash_of(spec.hashed_fields())
}

fn hash_of(fields: HashedFields) -> Text {
    let text = |value| match value {
        HashedValue::Text(text) => text,
        HashedValue::Fields(fields) => hash_of(fields).to_string(),
    };
    let mut fields: Vec<(String, String)> = fields.into_iter().map(|(name, value)| (name, text(value))).collect();
    fields.sort();
    fields.dedup();
    let mut hash = Fnv1a::default();
    hash.number(fields.len());
    fields.iter().for_each(|(name, value)| hash.texts([name, value]));
    hash.hex()
}

#[cfg(test)]
mod tests;
