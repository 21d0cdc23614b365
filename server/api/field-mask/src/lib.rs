//! Partial answers of gRPC services (AIP-157): a call whose metadata has [`HEADER`] gets the fields of the answer that the
//! mask names, and no others.
//!
//! A mask is a list of paths from the answer, with commas between them: `nodes.name,nodes.zone,next_page_token`. A path that
//! ends at a message has all of it, and one through a list is that of each element. Names are those of the proto file or
//! `lowerCamel`. `*`, and an empty mask, is everything. A mask with a field that the answer cannot have is refused, so that
//! a misspelt field is never taken for an empty one.
//!
//! [`FieldMaskLayer`] is around gRPC services: it removes fields from the encoded messages. [`FieldMask::retain_json`] does
//! the same with the JSON of a message.
//!
//! Reading order: `mask` (what a mask says), `encoded`, `layer`.

mod encoded;
mod layer;
mod mask;

pub use layer::{FieldMaskLayer, FieldMaskService};
pub use mask::{FieldMask, HEADER, MAX_DEPTH, MaskError};

#[cfg(test)]
mod tests;
