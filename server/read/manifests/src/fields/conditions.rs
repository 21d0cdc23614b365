//! Fields of an entry of `status.conditions`.

use super::table::{Field, field};

pub(super) const FIELDS: &[Field] = &[
    field("status.conditions.type", "string", "", "", "What is judged; each type occurs once.", "Ready"),
    field("status.conditions.status", "string", "", "True, False, Unknown", "Whether it holds.", "\"True\""),
    field("status.conditions.reason", "string", "", "one word", "Why, for programs.", ""),
    field("status.conditions.message", "string", "", "", "Why, for people.", ""),
    field(
        "status.conditions.lastTransitionTime",
        "string",
        "",
        "a date and time",
        "When status, reason or message last changed. Time limits are counted from here.",
        "",
    ),
    field(
        "status.conditions.observedGeneration",
        "integer",
        "",
        "0 or more",
        "The generation of the object that was judged.",
        "",
    ),
];
