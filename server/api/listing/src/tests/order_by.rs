use super::{Node, error, nodes, schema};
use crate::OrderBy;

/// Names of the four nodes in an order.
fn ordered(text: &str) -> Vec<String> {
    let order = OrderBy::parse(text, &schema()).unwrap_or_else(|error| panic!("{text}: {error}"));
    let mut nodes: Vec<Node> = nodes().into();
    nodes.sort_by(|left, right| order.compare(left, right));
    nodes.into_iter().map(|node| node.name).collect()
}

#[test]
fn rows_are_ordered_by_fields_and_then_by_name() {
    assert_eq!(ordered(""), ["Z\"9", "node-a", "node-b", "web-1"]);
    assert_eq!(ordered("name desc"), ["web-1", "node-b", "node-a", "Z\"9"]);
    // Without a price first, of these by name; then -5 and 120,000.
    assert_eq!(ordered("price_micro_usd"), ["Z\"9", "web-1", "node-b", "node-a"]);
    assert_eq!(ordered("price_micro_usd desc"), ["node-a", "node-b", "Z\"9", "web-1"]);
    assert_eq!(ordered(" spot  desc ,pool asc "), ["node-a", "node-b", "Z\"9", "web-1"]);
    assert_eq!(ordered("spot,name desc"), ["web-1", "Z\"9", "node-b", "node-a"]);
    // PENDING is declared before ACTIVE.
    assert_eq!(ordered("state desc,name"), ["node-a", "node-b", "Z\"9", "web-1"]);
    assert_eq!(ordered("create_time desc"), ["node-a", "node-b", "Z\"9", "web-1"]);
    assert_eq!(ordered("labels.team"), ["Z\"9", "web-1", "node-b", "node-a"]);
}

#[test]
fn only_the_ascending_order_by_name_is_that_of_names() {
    for (text, expected) in
        [("", true), ("name", true), ("name asc, pool", true), ("name desc", false), ("pool", false)]
    {
        assert_eq!(OrderBy::parse(text, &schema()).expect(text).is_by_name(), expected, "{text}");
    }
}

#[test]
fn other_orders_are_refused() {
    let refused = |text: &str| error(OrderBy::parse(text, &schema()));
    assert_eq!(
        refused("pool, prize_micro_usd desc"),
        "order_by names an unknown field at position 7: \"prize_micro_usd\"; did you mean \"price_micro_usd\"?"
    );
    let many = "it has many values and no order: name a field with one value, or a key of a map";
    assert_eq!(
        refused("zones"),
        format!("order_by uses zones at position 1 in a way that its type does not have: {many}")
    );
    assert!(refused("labels").ends_with(many));
    assert_eq!(refused("pool,"), "order_by cannot be parsed at position 6: a field is expected");
    assert_eq!(refused("pool, pool desc"), "order_by cannot be parsed at position 7: pool is there twice");
    let direction = "a comma, or one desc, is expected after the field";
    assert_eq!(refused("pool down"), format!("order_by cannot be parsed at position 1: {direction}"));
    assert_eq!(refused("pool desc desc"), format!("order_by cannot be parsed at position 1: {direction}"));
    let keys: Vec<String> = (0..9).map(|index| format!("labels.k{index}")).collect();
    assert!(OrderBy::parse(&keys[..8].join(","), &schema()).is_ok());
    assert_eq!(refused(&keys.join(",")), "order_by has more than 8 terms: use fewer");
    assert_eq!(refused(&"x".repeat(1025)), "order_by has 1025 bytes and may have at most 1024: shorten it");
}
