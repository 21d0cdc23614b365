//! Tags of a resource.

use std::collections::BTreeMap;

/// Tags of a resource, by key.
pub type Tags = BTreeMap<String, String>;
