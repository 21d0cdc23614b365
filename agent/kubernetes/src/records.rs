//! Parses objects into records of the protocol: JSON in, [`ParsedObject`] out.
//!
//! A field without a place here does not leave the cluster. The structures list the fields that
//! decisions use; environment, commands, arguments, images, contents of volumes, secrets and
//! `managedFields` are skipped while parsing. Manifests ([`manifest`]) are the exception: NodePools
//! and EC2NodeClasses are sent whole.
//!
//! Reading order: this file, [`pod`] with [`shape`], [`node`], [`claim`], [`policy`], [`storage`],
//! [`manifest`], and [`unreadable`] for objects that do not parse.

pub mod claim;
pub mod manifest;
pub mod node;
pub mod pod;
pub mod policy;
pub mod shape;
pub mod storage;
pub(crate) mod unreadable;

use std::collections::BTreeMap;

use agent::Record;
use fleetwright_proto::v1;
use serde::{Deserialize, Serialize};

use crate::timestamps::parse_millis;
use shape::ShapeInterner;

/// One object, read.
#[derive(Debug)]
pub struct ParsedObject {
    /// Namespace; empty without one.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// The record that the server receives.
    pub record: Record,
}

/// Reads one object from its JSON.
pub type Parser = fn(&str, &mut ShapeInterner) -> serde_json::Result<ParsedObject>;

/// `metadata`, as far as it matters.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Meta {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) uid: String,
    pub(crate) resource_version: String,
    pub(crate) generation: i64,
    pub(crate) creation_timestamp: Option<String>,
    pub(crate) deletion_timestamp: Option<String>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) finalizers: Vec<String>,
    pub(crate) owner_references: Vec<OwnerJson>,
    pub(crate) managed_fields: Vec<Manager>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct OwnerJson {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) controller: bool,
}

/// One entry of `metadata.managedFields`, without the fields: the agent's managers set one field
/// each.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Manager {
    pub(crate) manager: String,
}

impl Meta {
    fn into_parsed(self, record: Record) -> ParsedObject {
        ParsedObject { namespace: self.namespace, name: self.name, uid: self.uid, record }
    }

    pub(crate) fn created_ms(&self) -> i64 {
        parse_millis(self.creation_timestamp.as_deref())
    }

    pub(crate) fn deleted_ms(&self) -> i64 {
        parse_millis(self.deletion_timestamp.as_deref())
    }

    /// Annotations whose keys begin with one of `prefixes`.
    pub(crate) fn annotations_below(&self, prefixes: &[&str]) -> Vec<v1::StringPair> {
        let wanted = |key: &str| {
            key != crate::actions::INSTRUCTION_ANNOTATION && prefixes.iter().any(|prefix| key.starts_with(prefix))
        };
        self.annotations.iter().filter(|(key, _)| wanted(key)).map(pair).collect()
    }
}

impl From<&OwnerJson> for v1::Owner {
    fn from(owner: &OwnerJson) -> Self {
        Self {
            api_version: owner.api_version.clone(),
            kind: owner.kind.clone(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
        }
    }
}

/// One entry of `status.conditions`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ConditionJson {
    pub(crate) r#type: String,
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) last_transition_time: Option<String>,
}

/// One entry of a node's or a claim's taints.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct TaintJson {
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) effect: String,
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
        amount: match amount {
            Amount::Text(text) => text.clone(),
            Amount::Number(number) => number.to_string(),
        },
    };
    amounts.iter().map(quantity).collect()
}

pub(crate) fn pairs(map: &BTreeMap<String, String>) -> Vec<v1::StringPair> {
    map.iter().map(pair).collect()
}

fn pair((key, value): (&String, &String)) -> v1::StringPair {
    v1::StringPair { key: key.clone(), value: value.clone() }
}

fn taints(taints: Vec<TaintJson>) -> Vec<v1::Taint> {
    taints.into_iter().map(|taint| v1::Taint { key: taint.key, value: taint.value, effect: taint.effect }).collect()
}

fn conditions(conditions: Vec<ConditionJson>) -> Vec<v1::Condition> {
    let condition = |condition: ConditionJson| v1::Condition {
        last_transition_ms: parse_millis(condition.last_transition_time.as_deref()),
        r#type: condition.r#type,
        status: condition.status,
        reason: condition.reason,
        message: condition.message,
    };
    conditions.into_iter().map(condition).collect()
}

#[cfg(test)]
mod tests;
