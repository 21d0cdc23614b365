use super::{error, nodes, schema};
use crate::{Filter, ListError};

/// Which of the four nodes a filter accepts, as 1 or 0 each.
fn accepted(text: &str) -> String {
    let filter = Filter::parse(text, &schema()).unwrap_or_else(|error| panic!("{text}: {error}"));
    nodes().iter().map(|node| if filter.matches(node) { '1' } else { '0' }).collect()
}

fn check(cases: &[(&str, &str)]) {
    let found: Vec<_> = cases.iter().map(|(text, _)| (*text, accepted(text))).collect();
    let expected: Vec<_> = cases.iter().map(|(text, nodes)| (*text, (*nodes).to_owned())).collect();
    assert_eq!(found, expected);
}

#[test]
fn texts_are_compared_with_case_and_wildcards() {
    check(&[
        ("", "1111"),
        ("pool = General", "1000"),
        ("pool = general", "0000"),
        ("pool = G*", "1000"),
        ("pool = *al", "1000"),
        ("pool = *e*r*p*", "0010"),
        ("pool = gen*purpose", "0010"),
        ("pool = gene*eneral*", "0000"),
        ("pool = *", "1110"),
        ("pool < batch", "1000"),
        ("pool <= batch", "1100"),
        ("pool > batch", "0010"),
        ("pool >= batch", "0110"),
        ("name = node-a", "1000"),
        ("name >= node-b", "0110"),
        (r#"name = "Z\"9""#, "0001"),
    ]);
}

#[test]
fn unequal_is_the_opposite_of_equal_so_that_rows_without_a_value_match() {
    check(&[
        ("pool != General", "0111"),
        ("NOT pool = General", "0111"),
        ("price_micro_usd != 120000", "0111"),
        ("spot != true", "0111"),
        ("labels.team != web", "0111"),
        ("name != node-a", "0111"),
        ("pool:* pool != General", "0110"),
    ]);
}

#[test]
fn has_is_presence_a_part_of_a_text_an_element_or_a_key() {
    check(&[
        ("pool:*", "1110"),
        ("-pool:*", "0001"),
        ("pool:GENERAL", "1010"),
        ("pool:*purpose", "0010"),
        ("pool:\"\"", "1110"),
        ("price_micro_usd:*", "1100"),
        ("price_micro_usd:-5", "0100"),
        ("spot:*", "1100"),
        ("spot:false", "0100"),
        ("state:*", "1100"),
        ("state:ACTIVE", "1000"),
        ("create_time:*", "1100"),
        ("zones:*", "1100"),
        ("zones:eu-west-1b", "1000"),
        ("zones:eu-west-1", "0000"),
        ("zones:*a", "1100"),
        ("labels:team", "1100"),
        ("labels:other", "0000"),
        ("labels.team:*", "1100"),
        ("labels.team:web", "1000"),
        ("labels.team:we", "0000"),
    ]);
}

#[test]
fn keys_of_maps_have_dots_and_quotes_and_an_escaped_asterisk_is_itself() {
    check(&[
        ("labels.karpenter.sh/nodepool = general", "1000"),
        ("labels.\"karpenter.sh/nodepool\" = gen*", "1000"),
        ("labels.\"a b\" = c", "1000"),
        ("labels:\"a b\"", "1000"),
        (r#"labels.team = "data\*""#, "0100"),
        (r#"labels.team = "*\*""#, "0100"),
        ("labels.team > data", "1100"),
    ]);
}

#[test]
fn numbers_booleans_enums_and_times_have_their_own_order() {
    check(&[
        ("price_micro_usd > -6", "1100"),
        ("price_micro_usd > -5", "1000"),
        ("price_micro_usd >= -5 price_micro_usd <= -5", "0100"),
        ("price_micro_usd < 9", "0100"),
        ("spot = true", "1000"),
        ("state = PENDING", "0100"),
        ("state != PENDING", "1011"),
        // 1970-01-02 plus half a second, in several offsets and precisions.
        ("create_time = 1970-01-02T00:00:00.5Z", "1000"),
        ("create_time = \"1970-01-02T01:00:00.500+01:00\"", "1000"),
        ("create_time > 1970-01-02T00:00:00.499999999Z", "1000"),
        ("create_time < 1970-01-02T00:00:00.500000001Z", "1100"),
        ("create_time >= 1970-01-02T00:00:00.500000001Z", "0000"),
        ("create_time <= 1970-01-01T00:00:00Z", "0100"),
    ]);
}

#[test]
fn literals_without_a_field_are_parts_of_the_name() {
    check(&[
        ("node", "1100"),
        ("NODE", "1100"),
        ("node A", "1000"),
        ("node OR z", "1101"),
        ("node*", "1100"),
        ("*1", "0010"),
        ("-node -web", "0001"),
        ("\"\\\"9\"", "0001"),
        // AND binds less tightly: (node-a OR web) and a price.
        ("node-a OR web AND price_micro_usd:*", "1000"),
        ("web OR (node-a AND price_micro_usd:*)", "1010"),
    ]);
}

fn refused(text: &str) -> String {
    error(Filter::parse(text, &schema()))
}

#[test]
fn unknown_fields_are_refused_with_position_and_the_nearest_name() {
    assert_eq!(
        refused("node price_usd > 3"),
        "filter names an unknown field at position 6: \"price_usd\"; did you mean \"price_micro_usd\"?"
    );
    assert_eq!(refused("nmae = a"), "filter names an unknown field at position 1: \"nmae\"; did you mean \"name\"?");
    assert_eq!(refused("xyzzyx:*"), "filter names an unknown field at position 1: \"xyzzyx\"");
    // No field but a map has fields of its own.
    assert!(refused("pool.name = a").starts_with("filter names an unknown field at position 1: \"pool.name\""));
    let error = Filter::parse("a OR (b -pol = x)", &schema()).expect_err("an unknown field");
    let ListError::UnknownField { field, position, nearest, .. } = error else { panic!("{error:?}") };
    assert_eq!((field.as_str(), position, nearest.as_deref()), ("pol", 10, Some("pool")));
}

#[test]
fn values_of_the_wrong_type_are_refused() {
    let of = |path: &str, literal: &str, expected: &str| {
        format!("filter compares {path} at position 1 with {literal:?}, which is not {expected}")
    };
    let time = "a time as RFC 3339 describes it, for example \"2026-01-31T08:00:00Z\"";
    assert_eq!(refused("price_micro_usd > 1.5"), of("price_micro_usd", "1.5", "a whole number"));
    assert_eq!(refused("price_micro_usd = 1*"), of("price_micro_usd", "1*", "a whole number"));
    assert_eq!(refused("price_micro_usd = *"), of("price_micro_usd", "*", "a whole number"));
    assert_eq!(refused("spot = yes"), of("spot", "yes", "true or false"));
    assert_eq!(refused("create_time > 2026-01-01"), of("create_time", "2026-01-01", time));
    assert_eq!(refused("create_time > 2026-01-01T00:00:00"), of("create_time", "2026-01-01T00:00:00", time));
    assert_eq!(refused("pool < a*"), of("pool", "a*", "a text without a wildcard"));
    assert_eq!(refused("labels:a*"), of("labels", "a*", "a key without a wildcard"));
    assert_eq!(
        refused("state = ACTVE"),
        "filter compares state at position 1 with \"ACTVE\", which is not one of the enum's values; did you mean \"ACTIVE\"?"
    );
    assert!(refused("state = A*").contains("is not one of the enum's values"));
}

/// The status of a gRPC call is in a header, whose size clients bound.
#[test]
fn errors_repeat_only_the_beginning_of_long_texts() {
    let long = "é".repeat(4_000);
    for filter in [format!("{long} = 1"), format!("price_micro_usd = {long}"), format!("labels.{long}.x < a*")] {
        let message = refused(&filter);
        assert!(message.chars().count() < 300 && message.contains(&"é".repeat(70)), "{message}");
        assert!(message.contains('…'), "{message}");
    }
    let order = error(crate::OrderBy::parse(&"é".repeat(500), &schema()));
    assert!(order.chars().count() < 300, "{order}");
}

#[test]
fn numbers_outside_of_64_bits_match_as_numbers_do() {
    // The check has 128 bits: larger bounds are bounds, and no field is equal to them.
    check(&[("price_micro_usd < 9223372036854775808", "1100"), ("price_micro_usd = 9223372036854775808", "0000")]);
}

#[test]
fn operators_that_a_type_does_not_have_are_refused() {
    for text in ["spot > false", "state < ACTIVE", "zones = a", "zones != a", "labels = a", "labels < a"] {
        let error = Filter::parse(text, &schema()).expect_err(text);
        assert!(matches!(error, ListError::Unsupported { position: 1, .. }), "{text}: {error}");
    }
    assert_eq!(
        refused("zones = a"),
        "filter uses zones at position 1 in a way that its type does not have: it is repeated: use : for rows with an element"
    );
}
