use super::error;
use crate::{Argument, Expression, ListError, MAX_FILTER_BYTES, MAX_FILTER_DEPTH, MAX_FILTER_TERMS};

fn printed(text: &str) -> String {
    Expression::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).to_string()
}

fn problem(text: &str) -> (usize, String) {
    match Expression::parse(text) {
        Err(ListError::Syntax { argument: Argument::Filter, position, problem }) => (position, problem),
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn or_binds_tighter_than_and_and_terms_without_an_operator_are_joined_by_and() {
    // AIP-160 has this example: (a AND b) is not a group of the OR.
    assert_eq!(printed("New York Giants OR Yankees"), "New AND York AND Giants OR Yankees");
    assert_eq!(printed("a AND b OR c AND d"), printed("a AND (b OR c) AND d"));
    assert_ne!(printed("a AND b OR c AND d"), printed("(a AND b) OR (c AND d)"));
    assert_eq!(printed("(a AND b) OR c"), "(a AND b) OR c");
    assert_eq!(printed("((a))  b"), "a AND b");
    assert_eq!(printed(" \t\n"), "");
}

#[test]
fn minus_is_not_and_a_minus_within_a_word_or_number_is_a_character() {
    assert_eq!(printed("-a NOT b -(c d)"), "NOT a AND NOT b AND NOT (c AND d)");
    assert_eq!(printed("node-a price = -5"), "node-a AND price = \"-5\"");
    assert_eq!(problem("- a").1, "a minus sign must be directly before what it negates");
    assert_eq!(problem("--a"), (2, "a term is expected".into()));
    assert_eq!(problem("NOT NOT a"), (5, "a term is expected".into()));
}

#[test]
fn values_have_colons_quotes_escapes_and_wildcards() {
    assert_eq!(printed("t>=2026-01-01T00:00:00Z"), "t >= \"2026-01-01T00:00:00Z\"");
    assert_eq!(
        printed(r#"a:"x\"y\\" b='it"s' c="\*" d = *.sh"#),
        r#"a:"x\"y\\" AND b = "it\"s" AND c = "\*" AND d = *.sh"#
    );
    assert_eq!(printed(r#"labels."a b":* labels.x/y.z = 1"#), r#"labels."a b":* AND labels.x/y.z = 1"#);
    assert_eq!(printed(r#""AND" and"#), r#""AND" AND and"#);
}

#[test]
fn errors_say_where_and_what_is_expected() {
    assert_eq!(problem("a AND"), (6, "a term is expected".into()));
    assert_eq!(problem("a OR OR b"), (6, "a term is expected".into()));
    assert_eq!(problem("AND a"), (1, "a term is expected".into()));
    assert_eq!(problem("a ="), (4, "a value is expected after =".into()));
    assert_eq!(problem("a::b"), (3, "a value is expected after :".into()));
    assert_eq!(problem("a = AND").1, "a value is expected after =");
    assert_eq!(problem("= 3").1, "a term is expected");
    assert_eq!(problem("(a").1, "this parenthesis is not closed");
    assert_eq!(problem("a)"), (2, "no parenthesis is open here".into()));
    assert_eq!(problem("()").1, "a term is expected");
    assert_eq!(problem("a = (b OR c)"), (5, "one value is expected after =: repeat the field for each value".into()));
    assert_eq!(problem("cardinality(a)").1, "functions are not supported");
    assert_eq!(problem("é = \"b"), (5, "a quotation mark is not closed".into()));
    assert_eq!(problem("ab,c"), (3, "',' must be in quotes".into()));
    assert_eq!(problem("a ! b"), (3, "'!' must be in quotes".into()));
    assert_eq!(problem("a* = b").1, "the name of a field has no wildcard");
    assert_eq!(problem("\"a\" = b").1, "a field is expected before an operator");
    assert_eq!(problem("labels.\"a\"").1, "an operator is expected after a field");
    assert_eq!(
        problem("labels.\"a*\" = b").1,
        "the name of a field has no wildcard: write \\* for an asterisk in a key"
    );
}

#[test]
fn length_depth_and_number_of_terms_are_bounded_and_the_error_has_the_limit() {
    let long = "a".repeat(MAX_FILTER_BYTES);
    assert!(Expression::parse(&long).is_ok());
    assert_eq!(
        error(Expression::parse(&format!("{long}a"))),
        "filter has 8193 bytes and may have at most 8192: shorten it"
    );
    let nested = |depth: usize| format!("{}a{}", "(".repeat(depth), ")".repeat(depth));
    assert!(Expression::parse(&nested(MAX_FILTER_DEPTH)).is_ok());
    assert_eq!(
        error(Expression::parse(&nested(MAX_FILTER_DEPTH + 1))),
        "filter has more than 50 nested parentheses at position 51: remove some"
    );
    // Depth is that of open parentheses: these are next to each other.
    assert!(Expression::parse(&"(a) ".repeat(MAX_FILTER_DEPTH + 1)).is_ok());
    assert!(Expression::parse(&"a ".repeat(MAX_FILTER_TERMS)).is_ok());
    assert_eq!(
        error(Expression::parse(&"a ".repeat(MAX_FILTER_TERMS + 1))),
        "filter has more than 256 terms: use fewer"
    );
}
