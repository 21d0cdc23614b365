//! Rows of a fictional collection, and tests by subject.

mod filters;
mod order_by;
mod pages;
mod properties;
mod syntax;

use std::collections::BTreeMap;

use crate::{ListError, PageSizes, Schema};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Node {
    name: String,
    pool: Option<String>,
    price: Option<i64>,
    is_spot: Option<bool>,
    created: Option<i64>,
    state: Option<&'static str>,
    zones: Vec<String>,
    labels: BTreeMap<String, String>,
}

const STATES: [&str; 3] = ["PENDING", "ACTIVE", "DELETING"];

fn schema() -> Schema<Node> {
    Schema::new("nodes", PageSizes { default: 2, maximum: 5 }, "name", |row: &Node| &row.name)
        .text("pool", |row| row.pool.as_deref())
        .int("price_micro_usd", |row| row.price)
        .boolean("spot", |row| row.is_spot)
        .timestamp("create_time", |row| row.created)
        .enumeration("state", &STATES, |row| row.state)
        .texts("zones", |row, index| row.zones.get(index).map(String::as_str))
        .map("labels", |row, key| row.labels.get(key).map(String::as_str))
}

fn named(name: &str) -> Node {
    Node { name: name.to_owned(), ..Node::default() }
}

/// 1970-01-02T00:00:00.500Z in milliseconds.
const NEXT_DAY: i64 = 86_400_500;

/// Four nodes: all values, other values, few, none.
fn nodes() -> [Node; 4] {
    let labels = [("team", "web"), ("karpenter.sh/nodepool", "general"), ("a b", "c")];
    let all = Node {
        pool: Some("General".into()),
        price: Some(120_000),
        is_spot: Some(true),
        created: Some(NEXT_DAY),
        state: Some("ACTIVE"),
        zones: vec!["eu-west-1a".into(), "eu-west-1b".into()],
        labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        ..named("node-a")
    };
    let other = Node {
        pool: Some("batch".into()),
        price: Some(-5),
        is_spot: Some(false),
        created: Some(0),
        state: Some("PENDING"),
        zones: vec!["us-east-1a".into()],
        labels: [("team".to_owned(), "data*".to_owned())].into(),
        ..named("node-b")
    };
    let few = Node { pool: Some("general-purpose".into()), ..named("web-1") };
    [all, other, few, named("Z\"9")]
}

fn error<T: std::fmt::Debug>(result: Result<T, ListError>) -> String {
    result.expect_err("an error").to_string()
}
