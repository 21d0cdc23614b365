//! Values that objects of several kinds have: conditions, taints, quantities, labels.

use std::collections::BTreeMap;

use fleetwright_proto::v1;
use serde::{Deserialize, Serialize};

use crate::timestamps::parse_millis;

/// Declares structures that are read from JSON: an absent field has its default value.
macro_rules! json_structs {
    ($(
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident {
            $($(#[$field_attribute:meta])* $field_visibility:vis $field:ident: $kind:ty,)*
        }
    )*) => {$(
        $(#[$attribute])*
        #[derive(Debug, Default, serde::Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        $visibility struct $name {
            $($(#[$field_attribute])* $field_visibility $field: $kind,)*
        }
    )*};
}
pub(super) use json_structs;

json_structs! {
    /// One entry of `status.conditions`.
    pub(crate) struct ConditionJson {
        pub(crate) r#type: String,
        pub(crate) status: String,
        pub(crate) reason: String,
        pub(crate) message: String,
        pub(crate) last_transition_time: Option<String>,
    }

    /// One entry of a node's or a claim's taints.
    pub(crate) struct TaintJson {
        pub(crate) key: String,
        pub(crate) value: String,
        pub(crate) effect: String,
    }
}

/// The text of a quantity. Objects of custom kinds may hold a number where the others hold a text.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub(crate) enum Amount {
    Text(String),
    Number(serde_json::Number),
}

pub(crate) type Amounts = BTreeMap<String, Amount>;

pub(crate) fn quantities(amounts: &Amounts) -> Vec<v1::Quantity> {
    let quantity = |(resource, amount): (&String, &Amount)| v1::Quantity {
        resource: resource.clone(),
        amount: amount.to_string(),
    };
    amounts.iter().map(quantity).collect()
}

/// The text of the quantity of `resource`; empty without one.
pub(super) fn amount(amounts: &Amounts, resource: &str) -> String {
    amounts.get(resource).map(ToString::to_string).unwrap_or_default()
}

impl std::fmt::Display for Amount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Number(number) => write!(f, "{number}"),
        }
    }
}

pub(crate) fn pairs(map: &BTreeMap<String, String>) -> Vec<v1::StringPair> {
    map.iter().map(pair).collect()
}

pub(super) fn pair((key, value): (&String, &String)) -> v1::StringPair {
    v1::StringPair { key: key.clone(), value: value.clone() }
}

pub(super) fn taints(taints: Vec<TaintJson>) -> Vec<v1::Taint> {
    taints.into_iter().map(|taint| v1::Taint { key: taint.key, value: taint.value, effect: taint.effect }).collect()
}

pub(super) fn conditions(conditions: Vec<ConditionJson>) -> Vec<v1::Condition> {
    let condition = |condition: ConditionJson| v1::Condition {
        last_transition_ms: parse_millis(condition.last_transition_time.as_deref()),
        r#type: condition.r#type,
        status: condition.status,
        reason: condition.reason,
        message: condition.message,
    };
    conditions.into_iter().map(condition).collect()
}
